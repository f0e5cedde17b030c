"""Version 2 of the protocol at the agent's end: requests become those of version 1, and what is written is translated.

    session/resume with replayFrom     ->  session/load          auth/login -> authenticate
    ToolCalled, ToolCallChanged        ->  tool_call_update, and terminal_update for the output of commands
    the answer to a prompt             ->  state_update "idle"; the prompt itself is answered when its turn begins

`Requests` makes one `SecondVersion` when a client has negotiated version 2; it is not imported otherwise.
"""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from polylect.dialects.acp.engine.client import Client
from polylect.dialects.acp.engine.connection import Connection, Refusal
from polylect.dialects.acp.engine.sessions import (
    OpenPrompt,
    Session,
    prompt_ended,
    turn_ended,
    turn_error,
    turn_started,
)
from polylect.dialects.acp.frames import agent, client, content, updates, v2
from polylect.dialects.acp.frames.own_meta import read_own
from polylect.dialects.acp.versions import CANCELLED
from polylect.vocab import events as e
from polylect.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Error

Object = dict[str, Any]
_METHODS = {"auth/login": "authenticate", "auth/logout": "logout"}
_GONE = ("authenticate", "logout", "session/load", "session/set_mode")
_THERE = client.Empty()
_CONTEXT = 3
"""Lines of a patch that stay the same before and after those that change."""


class SecondVersion:
    """Translates the messages of one connection."""

    # What the client sends.

    def client(self, known: Client) -> Client:
        """The client with what every client of this version can, and cannot."""
        return replace(
            known,
            read=False,
            write=False,
            terminals=False,
            notices=True,
            compactions=True,
            subagents=known.subagents or known.own,
            output=True,
            steers=True,
        )

    def request(self, method: str, params: Any) -> tuple[str, Any]:
        """The method and the params of version 1 that mean the same. Raises Refusal."""
        if method in _GONE:
            raise Refusal(METHOD_NOT_FOUND, f"There is no method {method} in version 2", {"method": method})
        if method not in ("session/new", "session/resume", "session/fork") or not isinstance(params, dict):
            return _METHODS.get(method, method), params
        params = {**params, "mcpServers": _servers(params.get("mcpServers"))}
        start = params.pop("replayFrom", None) if method == "session/resume" else None
        if start is not None and (not isinstance(start, dict) or start.get("type") != "start"):
            raise Refusal(INVALID_PARAMS, 'replayFrom can only be {"type": "start"}')
        return "session/load" if start else method, params

    # What the agent sends.

    def snapshot(self, session: Session) -> v2.StateChanged:
        """What a session is doing, for a client that resumes it."""
        return v2.StateChanged(state=session.state)

    def form(self, value: object) -> object:
        """A result, or the params of a request, in the form of this version."""
        form = _FORMS.get(type(value))
        return form(value) if form else value

    def updates(self, update: object) -> list[object]:
        """An update in the form of this version. Some have none, and some need two."""
        match update:
            case updates.ModeChanged():  # the config option says it
                return []
            case updates.ToolCalled() | updates.ToolCallChanged():
                return _call(update)
        return [self.form(update)]


class Session2(Session):
    """A session of version 2: a prompt is answered when its turn begins, and the state of the session is told."""

    def __init__(self, connection: Connection, id: str, cwd: str) -> None:
        super().__init__(connection, id, cwd)
        self._asks: dict[str, str] = {}
        """Open questions, and the calls that wait for them."""
        self._running: set[str] = set()
        """Calls that run, and the empty id while the model writes."""

    def turn_started(self, event: e.TurnStarted) -> None:
        self.writer.turn = event.turn
        prompt = self.prompts.get(event.turn)
        if prompt:
            self.writer.update(v2.UserMessage(message_id=event.turn, content=prompt.content))
            prompt.request.answer(v2.PromptInserted(message_id=event.turn))
        self._write_state("running", meta=None if prompt else turn_started(event))

    def turn_ended(self, event: e.TurnEnded) -> None:
        prompt = self.prompts.pop(event.turn, None)
        if event.turn == self.writer.turn:
            self._end_turn(event, prompt)
        elif prompt is None:
            super().turn_ended(event)
        elif event.reason == "error" and not prompt.cancelled:
            prompt.request.fail(turn_error(event))
        else:
            prompt.request.fail(Error(CANCELLED, "The prompt was cancelled before its turn"))

    def _end_turn(self, event: e.TurnEnded, prompt: OpenPrompt | None) -> None:
        self.close_turn(event)
        self._asks.clear()
        self._running.clear()
        failed, result = event.reason == "error" and not (prompt and prompt.cancelled), prompt_ended(event)
        self._write_state(
            "idle",
            stop_reason="error" if failed else result.stop_reason,
            usage=result.usage,
            error=turn_error(event) if failed else None,
            meta=result.meta if prompt else turn_ended(event),
        )

    def end(self) -> None:
        super().end()
        if self.writer.turn:  # one that the engine began
            self.turn_ended(e.TurnEnded("cancelled", turn=self.writer.turn))

    def after(self, event: e.Event) -> None:
        """Tell whether all work waits for the person. A sub-agent is the work of the call that it is."""
        match event:
            case _ if event.agent:
                return
            case e.Ask(ask, call=call):
                self._asks[ask] = call
            case e.AskClosed(ask):
                self._asks.pop(ask, None)
            case e.ToolStarted(call):
                self._running.add(call)
            case e.ToolFinished(call):
                self._running.discard(call)
            case e.StepStarted():
                self._running.add("")
            case e.ReplyEnded():
                self._running.discard("")
            case _:
                return
        waits = self._asks and self._running <= set(self._asks.values())
        state = "requires_action" if waits else "running"
        if self.writer.turn and state != self.state:
            self._write_state(state)

    def _write_state(self, state: str, **fields: Any) -> None:
        self.state = state
        self.writer.update(v2.StateChanged(state=state, **fields))


# Requests.


def _servers(entries: Any) -> Any:
    """MCP servers as version 1 has them. What is no list is left to the reader of the params."""
    return [_server(entry) for entry in entries or ()] if isinstance(entries, list | None) else entries


def _server(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    match entry.get("type"):
        case "stdio":
            return {"args": [], "env": [], **{key: value for key, value in entry.items() if key != "type"}}
        case "http":
            return {"headers": [], **entry}
        case other:
            raise Refusal(
                INVALID_PARAMS, f"MCP servers of type {str(other)[:80]!r} are not offered: send stdio or http"
            )


# Results and params.


def _initialized(result: client.Initialized) -> v2.Initialized:
    info, capabilities = result.agent_info, result.agent_capabilities or client.AgentCapabilities()
    offered = asdict(capabilities.session_capabilities or client.SessionCapabilities())
    session = v2.SessionCapabilities(
        prompt=v2.PromptCapabilities(image=_THERE, embedded_context=_THERE),
        mcp=v2.McpCapabilities(stdio=_THERE, http=_THERE),
        **{name: offered[name] for name in offered.keys() & v2.SessionCapabilities.__struct_fields__},
    )
    auth = v2.AgentAuth(status=capabilities.auth.status if capabilities.auth else None)
    return v2.Initialized(
        protocol_version=2,
        info=info or client.Implementation(name="", version=""),
        capabilities=v2.AgentCapabilities(session=session, auth=auth),
        auth_methods=tuple(map(_auth_method, result.auth_methods)),
        meta=result.meta,
    )


def _auth_method(method: client.AuthMethod) -> v2.AuthMethod:
    kind, args = method.type or "agent", tuple(method.args or ())
    return v2.AuthMethod(method_id=method.id, name=method.name, type=kind, description=method.description, args=args)


def _config(option: updates.AnyConfig) -> v2.ConfigOption:
    fields, kind = asdict(option), option.__struct_config__.tag
    return v2.ConfigOption(config_id=fields.pop("id"), type=str(kind), **fields)


def _commands(update: updates.CommandsChanged) -> v2.CommandsChanged:
    inputs = [v2.CommandInput(hint=row.input.hint) if row.input else None for row in update.available_commands]
    rows = zip(update.available_commands, inputs, strict=True)
    return v2.CommandsChanged(
        available_commands=[v2.AvailableCommand(**{**asdict(row), "input": hint}) for row, hint in rows]
    )


def _permission(request: agent.RequestPermission) -> v2.RequestPermission:
    return v2.RequestPermission(
        session_id=request.session_id,
        title=request.tool_call.title or "Permission",
        description=read_own(request.meta).get("reason"),
        subject=v2.CallSubject(tool_call=v2.CallUpdate(**_call_fields(request.tool_call))),
        options=request.options,
        meta=request.meta,
    )


_FORMS: dict[type, Callable[[Any], object]] = {
    client.Initialized: _initialized,
    client.AuthMethod: _auth_method,
    client.SessionOpened: lambda one: v2.SessionOpened(
        session_id=one.session_id, config_options=tuple(map(_config, one.config_options))
    ),
    client.ConfigOptions: lambda one: v2.ConfigOptions(config_options=list(map(_config, one.config_options))),
    updates.ConfigChanged: lambda one: v2.ConfigChanged(config_options=list(map(_config, one.config_options))),
    updates.CommandsChanged: _commands,
    updates.Plan: lambda one: v2.PlanChanged(plan=v2.PlanItems(plan_id="plan", entries=one.entries)),
    agent.RequestPermission: _permission,
}


# Tool calls.


def _call(update: updates.ToolCalled | updates.ToolCallChanged) -> list[object]:
    """A tool call, and what is new of its terminal, which version 1 has under `_meta`."""
    meta = dict(update.meta or {})
    info, output, ended = (meta.pop(f"terminal_{name}", None) for name in ("info", "output", "exit"))
    if output:
        data = b2a_base64(output["data"].encode(errors="replace"), newline=False).decode()
        return [v2.TerminalChunk(terminal_id=output["terminal_id"], data=data)]
    before: list[object] = []
    if info:
        command = update.raw_input.get("command") if isinstance(update.raw_input, dict) else None
        shown = command if isinstance(command, str) else UNSET
        before.append(v2.TerminalChanged(terminal_id=info["terminal_id"], command=shown, cwd=info["cwd"]))
    if ended:
        status = agent.ExitStatus(exit_code=ended["exit_code"])
        before.append(v2.TerminalChanged(terminal_id=ended["terminal_id"], exit_status=status))
    return [*before, v2.ToolCallChanged(**{**_call_fields(update), "meta": meta or None})]


def _call_fields(call: Any) -> Object:
    """The fields of a call of version 1 in the form of this one."""
    fields = asdict(call)
    if read_own(call.meta).get("outcome") == "cancelled":
        fields["status"] = "cancelled"
    shown = fields["content"]
    return fields if shown is UNSET else {**fields, "content": [_content(item) for item in shown]}


def _content(item: content.AnyContent) -> v2.AnyContent:
    if not isinstance(item, content.DiffContent):
        return item
    operation = "add" if item.old_text is None else "modify"
    patch = _patch(item.path, item.old_text or "", item.new_text)
    return v2.DiffContent(changes=[v2.DiffChange(operation=operation, path=item.path)], patch=patch)


def _patch(path: str, old: str, new: str) -> v2.DiffPatch | None:
    """A patch of one hunk: the lines that differ, between those that are the same at the beginning and at the end.

    None for a path that git would quote, and for an empty file, which has no hunk.
    """
    before, after = _lines(old), _lines(new)
    if not (before or after) or not (path.isascii() and path.isprintable()) or set(path) & set('"\\'):
        return None
    most = min(len(before), len(after))
    head = next((place for place in range(most) if before[place] != after[place]), most)
    tail = next((place for place in range(most - head) if before[-1 - place] != after[-1 - place]), most - head)
    first, last = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    rows = [
        *(f" {line}" for line in before[first:head]),
        *(f"-{line}" for line in before[head : len(before) - tail]),
        *(f"+{line}" for line in after[head : len(after) - tail]),
        *(f" {line}" for line in before[len(before) - tail : len(before) - last]),
    ]
    names = ["new file mode 100644", "--- /dev/null"] if not old else [f"--- {path}"]
    spans = [f"{first + 1 if lines else 0},{len(lines) - first - last}" for lines in (before, after)]
    ending = ["\\ No newline at end of file"] if not old and not new.endswith("\n") else []
    text = [f"diff --git {path} {path}", *names, f"+++ {path}", f"@@ -{spans[0]} +{spans[1]} @@", *rows, *ending, ""]
    return v2.DiffPatch(format="git_patch", text="\n".join(text))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
