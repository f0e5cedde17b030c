"""Version 2 of the protocol at the client's end: messages of the agent become those of version 1, and ours those of 2.

    state_update "idle" after a prompt    ->  the answer to that prompt, as version 1 has it
    state_update without a prompt         ->  the beginning or the end of a turn that the agent began by itself
    agent_message, tool_call_content_chunk, terminal_output_chunk ...  ->  chunks and updates of calls

So the rest of this end knows one version only. `HostSide` makes one `SecondVersion` if version 2 is wanted; an agent
that answers with version 1 is spoken to without it. Fields are read leniently, as everywhere at this end.
"""

from binascii import a2b_base64
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from polylect.dialects.acp.frames import client, v2
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.acp.frames.own_meta import KEY
from polylect.dialects.acp.host.content import block_text
from polylect.dialects.acp.host.decode import STOP_REASONS
from polylect.dialects.lenient import Object, inner, objects, text
from polylect.wire.jsonrpc import INTERNAL_ERROR, Error, Id, Notification, Request, Response

_METHODS = {"authenticate": "auth/login", "logout": "auth/logout", "session/load": "session/resume"}
_MESSAGES = {"user_message": "user_message_chunk", "agent_message": "agent_message_chunk"}
_MESSAGES |= {"agent_thought": "agent_thought_chunk"}
Incoming = Request | Notification | Response
_FINAL = ("completed", "failed", "cancelled")
_utf8 = getincrementaldecoder("utf-8")


class _Session:
    """What is under way in a session of the wire."""

    def __init__(self) -> None:
        self.prompt: Id | None = None
        """The id of our prompt whose turn has not ended."""
        self.message: str | None = None
        """The id of its message, once it is answered."""
        self.ended: Response | None = None
        """How its turn has ended, if the agent says so before it answers the prompt."""
        self.turn = ""
        """The turn that the agent has begun by itself."""
        self.texts: dict[tuple[str, str], list[str]] = {}
        """What was said so far in each message of the turn, by kind and id."""
        self.contents: dict[str, list[Object]] = {}
        """What each call of the turn shows."""

    def end(self) -> None:
        """No turn runs any more."""
        self.prompt, self.message, self.ended, self.turn = None, None, None, ""
        self.texts.clear()
        self.contents.clear()


class _Terminal(Struct):
    """A terminal of the agent's: its output so far, and the call that shows it."""

    decoder: Any
    output: list[str] = []
    call: str = ""


class SecondVersion:
    """Translates the messages of one connection. `new_id` makes ids for turns that the agent begins."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._sent: dict[Id, tuple[str, str]] = {}
        """The method and the session of our requests that are not answered."""
        self._sessions: dict[str, _Session] = {}
        self._opened: set[str] = set()
        """Sessions that we have opened. It is empty in the middle of a recording."""
        self._parents: dict[str, str] = {}
        """Sessions of sub-agents, and the sessions that they belong to."""
        self._terminals: dict[tuple[str, str], _Terminal] = {}

    # What we send.

    def request(self, method: str, params: Shape) -> tuple[str, Shape]:
        """The method and the params that mean the same in version 2."""
        if isinstance(params, client.Initialize):
            capabilities = params.client_capabilities or client.ClientCapabilities()
            offered = v2.ClientCapabilities(elicitation=capabilities.elicitation)
            info = params.client_info or client.Implementation(name="", version="")
            return method, v2.Initialize(protocol_version=2, info=info, capabilities=offered)
        if isinstance(params, client.NewSession | client.LoadSession | client.ResumeSession):
            params = _opening(method, params)
        elif isinstance(params, client.SetConfigOption):
            params = v2.SetConfigOption(**asdict(params) | {"type": params.type or "id"})
        return _METHODS.get(method, method), params

    def sent(self, id: Id, method: str, session: str) -> None:
        """A request was sent; `session` is the one that it is about."""
        self._sent[id] = method, session
        self._opened.update([session] if session else [])
        if method == "session/prompt":
            state = self._session(session)
            state.prompt, state.message, state.ended = id, None, None

    # What the agent sends.

    def incoming(self, message: Incoming) -> list[Incoming]:
        """The messages of version 1 that mean the same."""
        if isinstance(message, Response):
            return self._response(message)
        params = message.params if isinstance(message.params, dict) else {}
        if isinstance(message, Request):
            asks = message.method == "session/request_permission" and "toolCall" not in params
            return [Request(message.id, message.method, _permission(message.id, params))] if asks else [message]
        update, session = params.get("update"), text(params, "sessionId")
        if message.method != "session/update" or not isinstance(update, dict) or not session:
            return [message]
        if text(update, "sessionUpdate") == "state_update":
            return self._state(session, update)
        return [_update(session, one) for one in self._updates(session, update)]

    def _response(self, response: Response) -> list[Incoming]:
        method, session = self._sent.pop(response.id, ("", ""))
        result = response.result if isinstance(response.result, dict) else {}
        if method == "session/prompt" and response.error is None:
            state = self._session(session)
            state.message = text(result, "messageId")
            return self._finish(state)
        if method == "session/prompt":
            self._session(session).prompt = None
        elif method == "initialize" and response.error is None:
            return [Response(response.id, _agent(result))]
        self._opened.update([opened] if (opened := text(result, "sessionId")) else [])
        return [Response(response.id, _with_config(result), response.error)]

    def _session(self, id: str) -> _Session:
        return self._sessions.setdefault(id, _Session())

    # States.

    def _state(self, id: str, update: Object) -> list[Incoming]:
        if parent := self._parents.get(id):
            return [_update(parent, {"sessionUpdate": "subagent_update", "sessionId": id, "state": update})]
        if own := inner(inner(inner(update, "_meta"), KEY), "turn"):
            return [_turn(id, own)]
        if self._opened and id not in self._opened:
            return []
        session = self._session(id)
        match text(update, "state"):
            case "idle":
                return self._idle(id, session, update)
            case "running" | "requires_action" if session.prompt is not None:
                session.ended = None
            case "running" | "requires_action" if not session.turn:
                session.turn = self._new_id()
                return [_turn(id, {"id": session.turn, "state": "started", "cause": "engine"})]
        return []

    def _idle(self, id: str, session: _Session, update: Object) -> list[Incoming]:
        if session.prompt is not None:
            session.ended = _ended(session.prompt, update)
            return self._finish(session) if session.message is not None else []
        if not session.turn:
            return []
        ended: Object = {"id": session.turn, "state": "ended", "reason": STOP_REASONS.get(text(update, "stopReason"))}
        if text(update, "stopReason") == "error":
            message = text(inner(update, "error"), "message") or "The turn failed"
            ended |= {"reason": "error", "failure": {"code": "error", "owner": "engine", "message": message}}
        session.end()
        return [_turn(id, ended)]

    def _finish(self, session: _Session) -> list[Incoming]:
        """The prompt is answered, and its turn is over if the agent has said so."""
        if session.ended is None:
            return []
        ended = session.ended
        session.end()
        return [ended]

    # Updates.

    def _updates(self, session: str, update: Object) -> list[Object]:
        match text(update, "sessionUpdate"):
            case "user_message" | "agent_message" | "agent_thought" as kind:
                return self._message(self._session(session), _MESSAGES[kind], update)
            case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" as kind:
                return self._chunk(self._session(session), kind, update)
            case "tool_call_update":
                return [self._call(session, update)]
            case "tool_call_content_chunk":
                shown = self._session(session).contents.get(text(update, "toolCallId"), [])
                changed = {key: value for key, value in update.items() if key != "content"}
                more = {"sessionUpdate": "tool_call_update", "content": [*shown, inner(update, "content")]}
                return [self._call(session, changed | more)]
            case "terminal_update" | "terminal_output_chunk":
                return self._terminal(session, update)
            case "config_option_update":
                return [_with_config(update)]
            case "subagent_update" if (child := text(update, "sessionId")) not in self._opened:
                self._parents[child] = session
        return [update]

    def _message(self, session: _Session, kind: str, update: Object) -> list[Object]:
        """A whole message as chunks. What was sent in chunks already is left out."""
        blocks = objects(update, "content")
        if said := session.texts.get((kind, text(update, "messageId"))):
            rest = _rest("".join(map(block_text, blocks)), said)
            blocks = [{"type": "text", "text": rest}] if rest else []
        chunks = [{**update, "sessionUpdate": kind, "content": block} for block in blocks]
        return [chunk for one in chunks for chunk in self._chunk(session, kind, one)]

    def _chunk(self, session: _Session, kind: str, update: Object) -> list[Object]:
        id = text(update, "messageId")
        session.texts.setdefault((kind, id), []).append(block_text(inner(update, "content")))
        is_prompt = kind == "user_message_chunk" and session.prompt is not None
        if not is_prompt or session.message not in (None, id) or inner(inner(update, "_meta"), KEY):
            return [update]
        session.ended = None  # what ended before our prompt became a message was something else
        return []

    def _call(self, session: str, update: Object) -> Object:
        """An update of a call, whose terminals become their output when it ends."""
        call, status = text(update, "toolCallId"), text(update, "status")
        contents = self._session(session).contents
        if "content" in update:
            contents[call] = objects(update, "content")
            for item in contents[call]:
                if text(item, "type") == "terminal":
                    self._terminal_of(session, item).call = call
        if status not in _FINAL:
            return update
        shown = [self._printed(session, item) for item in contents.pop(call, [])]
        update = {**update, **({"content": shown} if shown else {})}
        if status != "cancelled":
            return update
        meta = inner(update, "_meta")
        return {**update, "status": "failed", "_meta": {**meta, KEY: {"outcome": "cancelled", **inner(meta, KEY)}}}

    # Terminals.

    def _terminal_of(self, session: str, fields: Object) -> _Terminal:
        return self._terminals.setdefault((session, text(fields, "terminalId")), _Terminal(_utf8("replace")))

    def _terminal(self, session: str, update: Object) -> list[Object]:
        """News of a terminal, as news of its call."""
        terminal, meta = self._terminal_of(session, update), dict[str, Any]()
        if text(update, "sessionUpdate") == "terminal_output_chunk":
            news = terminal.decoder.decode(_bytes(update))
            terminal.output.append(news)
        else:  # perhaps with all that counts as printed so far
            whole = _bytes(inner(update, "output")).decode(errors="replace")
            news, terminal.output = _rest(whole, terminal.output), [whole] if whole else terminal.output
        if news:
            meta["terminal_output"] = {"data": news}
        if isinstance(ended := update.get("exitStatus"), dict):
            meta["terminal_exit"] = {"exit_code": ended.get("exitCode")}
        if not terminal.call or not meta:
            return []
        return [{"sessionUpdate": "tool_call_update", "toolCallId": terminal.call, "_meta": meta}]

    def _printed(self, session: str, item: Object) -> Object:
        if text(item, "type") != "terminal":
            return item
        terminal = self._terminals.pop((session, text(item, "terminalId")), None)
        printed = "".join(terminal.output) if terminal else ""
        return {"type": "content", "content": {"type": "text", "text": printed}}


def _update(session: str, update: Object) -> Notification:
    return Notification("session/update", {"sessionId": session, "update": update})


def _rest(whole: str, parts: list[str]) -> str:
    """What a text has beyond the parts that were shown. One that does not begin with them cannot be shown any more."""
    shown = "".join(parts)
    return whole[len(shown) :] if whole.startswith(shown) else ""


def _bytes(output: Object) -> bytes:
    """The output of a terminal; nothing for what is no base64."""
    try:
        return a2b_base64(text(output, "data"))
    except ValueError:
        return b""


def _turn(session: str, turn: Object) -> Notification:
    return _update(session, {"sessionUpdate": "session_info_update", "_meta": {KEY: {"turn": turn}}})


def _ended(prompt: Id, update: Object) -> Response:
    """The answer to a prompt whose turn has ended so."""
    if text(update, "stopReason") != "error":
        return Response(prompt, update)
    error = inner(update, "error")
    code = error.get("code")
    number = code if isinstance(code, int) else INTERNAL_ERROR
    return Response(prompt, None, Error(number, text(error, "message") or "The turn failed", error.get("data", UNSET)))


def _permission(request: Id, params: Object) -> Object:
    """A permission request with the call that it is about, whether the agent names one or not."""
    subject, title = inner(params, "subject"), text(params, "title")
    call: Object = {"toolCallId": text(subject, "toolCallId") or f"ask-{request}", "title": title}
    if command := text(subject, "command"):
        call |= {"kind": "execute", "rawInput": {"command": command, "cwd": text(subject, "cwd")}}
    return {**params, "toolCall": subject.get("toolCall", call)}


def _agent(result: Object) -> Object:
    """The answer to `initialize` in the shape of version 1, with the version that is spoken."""
    if "agentCapabilities" in result or "capabilities" not in result:  # goose echoes any number
        return {**result, "protocolVersion": 1} if result.get("protocolVersion") == 2 else result
    session = inner(inner(result, "capabilities"), "session")
    there = isinstance(inner(result, "capabilities").get("session"), dict)
    methods = [{**method, "id": text(method, "methodId")} for method in objects(result, "authMethods")]
    mcp = inner(session, "mcp")
    baseline: Object = {name: {} for name in ("list", "resume", "close") if there}
    return {
        "protocolVersion": 2,
        "agentInfo": inner(result, "info"),
        "agentCapabilities": {
            "loadSession": there,
            "promptCapabilities": {name: isinstance(value, dict) for name, value in inner(session, "prompt").items()},
            "mcpCapabilities": {name: isinstance(mcp.get(name), dict) for name in ("stdio", "http")},
            "sessionCapabilities": {**session, **baseline},
            "auth": {"logout": {}} if methods else {},
        },
        "authMethods": methods,
        "_meta": result.get("_meta"),
    }


def _with_config(fields: Object) -> Object:
    """A result or an update whose config options have the names of version 1."""
    if not isinstance(fields.get("configOptions"), list):
        return fields
    options = [
        {**option, "id": text(option, "configId"), "options": [_group(row) for row in objects(option, "options")]}
        for option in objects(fields, "configOptions")
    ]
    return {**fields, "configOptions": options}


def _group(row: Object) -> Object:
    return {**row, "group": row["groupId"]} if "groupId" in row else row


def _opening(method: str, params: client.NewSession | client.LoadSession | client.ResumeSession) -> Shape:
    """The params that open a session; those that load one resume it with its past."""
    fields = asdict(params)
    fields["mcp_servers"] = tuple(map(_server, params.mcp_servers or ()))
    fields["additional_directories"] = tuple(params.additional_directories or ())
    match method:
        case "session/new":
            return v2.NewSession(**fields)
        case "session/fork":
            return v2.ForkSession(**fields)
        case "session/load":
            return v2.ResumeSession(**fields, replay_from=v2.ReplayFrom(type="start"))
    return v2.ResumeSession(**fields)


def _server(server: client.McpServer) -> v2.McpServer:
    fields = {name: getattr(server, name) for name in v2.McpServer.__struct_fields__}
    return v2.McpServer(**{**fields, "type": server.type or "stdio"})
