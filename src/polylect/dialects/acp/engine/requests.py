"""Requests and notifications of the client, as commands for the engine, and the answers to them.

    session/new      -> OpenSession, then Hello, Query("models") and Query("state"); then the answer
    session/prompt   -> Prompt; its answer is the end of the turn (`sessions`)
    session/list     -> Query("sessions"); one page of them
    session/set_mode -> Configure

Every request gets exactly one answer, also a bad one and one that the client withdraws. The codec is the caller.
"""

import posixpath
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from polylect.dialects.acp.engine import session_list
from polylect.dialects.acp.engine.asks import PendingAsks
from polylect.dialects.acp.engine.client import Client, read_client
from polylect.dialects.acp.engine.connection import ClientRequest, Connection, Refusal
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.engine.host_calls import HostCalls
from polylect.dialects.acp.engine.prompts import read_prompt, read_server
from polylect.dialects.acp.engine.replay import replay
from polylect.dialects.acp.engine.sessions import OpenPrompt, Session, error_of
from polylect.dialects.acp.frames import client as shapes
from polylect.dialects.acp.frames.content import Shape, TextBlock
from polylect.dialects.acp.frames.own_meta import read_own
from polylect.dialects.acp.versions import NOT_FOUND, UNSUPPORTED_VERSION
from polylect.vocab import commands as c
from polylect.vocab.answers import State
from polylect.vocab.content import Failure
from polylect.vocab.events import ContextUsed, Reply, SettingChanged
from polylect.vocab.json_words import misfit
from polylect.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Error, Id, Request

Params = TypeVar("Params", bound=Shape)
How = Literal["new", "load", "resume", "fork"]
_GONE = ("no_such_session", "unknown_session")
_PROMPT_FIELDS: dict[str, Callable[[Any], bool]] = {
    "busy": ("queue", "refuse", "interrupt").__contains__,
    "query": lambda value: isinstance(value, bool),
    "verbatim": lambda value: isinstance(value, bool),
    "schema": lambda value: isinstance(value, dict),
    "max_cost": lambda value: type(value) in (int, float),
    "max_tokens": lambda value: type(value) is int,
}
"""Fields of `Prompt` that our own host sends under `_meta`, and what they can be."""
_LONGEST_ID = 1000
"""Characters of an unknown session id that are sent back."""


class Requests:
    """Handles what clients ask.

    Attributes:
        sessions: The sessions of the connection, by id; the first one first.
    """

    def __init__(
        self,
        connection: Connection,
        asks: PendingAsks,
        host_calls: HostCalls,
        *,
        newest: int,
        agent: shapes.Implementation,
        auth: tuple[shapes.AuthMethod, ...],
        logout: bool,
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self._connection = connection
        self._asks = asks
        self._host_calls = host_calls
        self._newest = newest
        self._agent = agent
        self._auth = auth
        self._logout = logout
        self._initialized = False
        self._make_session: type[Session] = Session
        self._answered: set[Id] = set()
        """Ids of requests that were answered by other means, before this end read them."""

    # Dispatch.

    def note_answered(self, id: Id) -> None:
        """The request with this id was answered by other means: it is read, and not answered again."""
        self._answered.add(id)

    def request(self, message: Request) -> list[c.Command]:
        request = self._connection.open_request(message.id, message.method)
        if message.id in self._answered:
            self._answered.discard(message.id)
            request.close()
        try:
            return self._request(request, message.params)
        except Refusal as refusal:
            request.fail(refusal.error)
            return []

    def _request(self, request: ClientRequest, params: Any) -> list[c.Command]:
        v2, method = self._connection.v2, request.method
        if v2:
            method, params = v2.request(method, params)
        handler = _HANDLERS.get(method)
        if handler is None:
            raise Refusal(
                METHOD_NOT_FOUND, f"There is no method {request.method[:80]}", {"method": request.method[:80]}
            )
        if self._initialized == (request.method == "initialize"):
            why = "The connection is initialized already" if self._initialized else "Send initialize first"
            raise Refusal(INVALID_REQUEST, why)
        shape, handle = handler
        return handle(self, request, params if shape is None else _convert(params, shape))

    def notification(self, method: str, params: Any) -> list[c.Command]:
        """A notification is never answered; a bad or unknown one is ignored."""
        fields = params if isinstance(params, dict) else {}
        match method:
            case "session/cancel" if isinstance(id := fields.get("sessionId"), str):
                return self._cancel(id, read_own(fields.get("_meta")).get("queued"))
            case "$/cancel_request" if isinstance(id := fields.get("requestId"), int | str):
                return self._connection.cancel_request(id)
            case "mcp/message":
                return self._host_calls.server_message(fields)
        return []

    # The connection.

    def _initialize(self, request: ClientRequest, params: Any) -> list[c.Command]:
        """What is wrong in the params counts as absent, but for the version, which is required."""
        fields = params if isinstance(params, dict) else {}
        version = {name: value for name, value in fields.items() if name == "protocolVersion"}
        requested_version = _convert(version, shapes.Initialize).protocol_version
        self._connection.client = client = read_client(fields)
        if self._newest > 1:
            client = self._negotiate(requested_version)
        self._initialized = True
        methods = tuple(method for method in self._auth if method.type is UNSET or client.login)
        self._connection.auth_methods = methods
        capabilities = shapes.AgentCapabilities(
            load_session=True,
            prompt_capabilities=shapes.PromptCapabilities(image=True, embedded_context=True),
            mcp_capabilities=shapes.McpCapabilities(http=True, sse=True, acp=True),
            session_capabilities=shapes.SessionCapabilities(
                list=shapes.Empty(),
                resume=shapes.Empty(),
                close=shapes.Empty(),
                delete=shapes.Empty(),
                fork=shapes.Empty(),
                additional_directories=shapes.Empty(),
                system_prompt=shapes.Empty(),
                archive=shapes.Empty(),
                status=shapes.Empty(),
                title=shapes.Empty(),
            ),
            auth=shapes.AgentAuth(logout=shapes.Empty() if self._logout else None, status=shapes.Empty()),
        )
        request.answer(
            shapes.Initialized(
                protocol_version=1,
                agent_info=self._agent,
                agent_capabilities=capabilities,
                auth_methods=methods,
                meta={"steering": {"supported": True}},
            )
        )
        return []

    def _negotiate(self, asked: int) -> Client:
        """Choose the newest version that the client asks for or an older one. Returns the client as it then is."""
        if asked < 1:
            supported = list(range(1, self._newest + 1))
            why = f"Version {asked} of the protocol is not spoken here; ask for {self._newest}"
            raise Refusal(UNSUPPORTED_VERSION, why, {"requested": asked, "supported": supported})
        if asked > 1:
            from polylect.dialects.acp.engine.v2 import SecondVersion, Session2  # only for clients that speak it

            self._connection.v2 = v2 = SecondVersion()
            self._connection.client = v2.client(self._connection.client)
            self._make_session, self._logout = Session2, True
        return self._connection.client

    def _authenticate(self, request: ClientRequest, params: shapes.Authenticate) -> list[c.Command]:
        method = next((method for method in self._auth if method.id == params.method_id), None)
        if method is None or method.type is not UNSET:
            names = ", ".join(method.id for method in self._auth if method.type is UNSET) or "none"
            why = f"{params.method_id[:80]!r} cannot be used with authenticate; there are: {names}"
            raise Refusal(INVALID_PARAMS, why)
        return [c.Authenticate(method.id, ref=self._plain_answer(request))]

    def _log_out(self, request: ClientRequest, params: shapes.Empty) -> list[c.Command]:
        if not self._logout:
            raise Refusal(METHOD_NOT_FOUND, "There is nothing to log out of")
        return [c.Authenticate(ref=self._plain_answer(request))]

    def _auth_status(self, request: ClientRequest, params: shapes.Empty) -> list[c.Command]:
        def replied(reply: Reply) -> list[c.Command]:
            missing = reply.failure is not None and reply.failure.code == "not_configured"
            state = "unauthenticated" if missing else "unknown" if reply.failure else "authenticated"
            request.answer(shapes.AuthStatus(state=state))
            return []

        return [c.Authenticate("status", ref=self._connection.expect(replied))]

    def _plain_answer(self, request: ClientRequest, ignored: tuple[str, ...] = ()) -> str:
        """The ref of a command whose success is the whole answer. Failures of the `ignored` codes count as success."""

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure and reply.failure.code not in ignored:
                request.fail(error_of(reply.failure))
            else:
                request.answer({})
            return []

        return self._connection.expect(replied)

    # Opening a session.

    def _new(self, request: ClientRequest, params: shapes.NewSession) -> list[c.Command]:
        return self._open(request, "new", self._connection.env.new_id(), params)

    def _load(self, request: ClientRequest, params: shapes.LoadSession) -> list[c.Command]:
        return self._open(request, "load", params.session_id, params)

    def _resume(self, request: ClientRequest, params: shapes.ResumeSession) -> list[c.Command]:
        return self._open(request, "resume", params.session_id, params)

    def _fork(self, request: ClientRequest, params: shapes.ForkSession) -> list[c.Command]:
        return self._open(request, "fork", self._connection.env.new_id(), params)

    def _open(self, request: ClientRequest, how: How, id: str, params: Any) -> list[c.Command]:
        folders = tuple(params.additional_directories or ())
        for folder in (params.cwd, *folders):
            if not posixpath.isabs(folder):
                raise Refusal(INVALID_PARAMS, f"{folder[:200]!r} is no absolute path")
        if not id:
            raise Refusal(NOT_FOUND, "The sessionId is empty", {"sessionId": id})
        instructions = _instructions(params.system_prompt)
        if (known := self.sessions.get(id)) and not known.closing:
            if instructions:
                raise Refusal(INVALID_PARAMS, "The session is open: its systemPrompt cannot be changed")
            if not known.writer.is_known:
                raise Refusal(INVALID_REQUEST, f"The session {id[:80]!r} is being opened")
            return self._ask_state(_Opening(request, known, how, id))
        servers = tuple(map(read_server, params.mcp_servers or ()))
        self._host_calls.add_servers(id, params.mcp_servers or ())
        target = "" if how == "new" else params.session_id
        self.sessions[id] = session = self._make_session(self._connection, id, params.cwd)
        opening = _Opening(request, session, how, target)
        request.on_cancel = lambda: self._stop_opening(opening)
        ref = self._connection.expect(lambda reply: self._opened(reply, opening))
        around: dict[str, Any] = {
            "cwd": params.cwd,
            "folders": folders,
            "servers": servers,
            "system_prompt": instructions,
        }
        return [c.OpenSession(how, target, **around, session=id, ref=ref)]

    def _opened(self, reply: Reply, opening: "_Opening") -> list[c.Command]:
        session = opening.session
        if self.sessions.get(session.id) is not session:  # it was closed, or the request was withdrawn
            self._connection.refuse_cancelled(opening.request)
            return []
        if reply.failure:
            del self.sessions[session.id]
            opening.request.fail(_not_opened(reply.failure, opening.target))
            return []
        return self._ask_state(opening)

    def _ask_state(self, opening: "_Opening") -> list[c.Command]:
        """Ask the engine for what the answer needs."""
        session, client = opening.session, self._connection.client
        queries = ["models", "state", *(["messages"] if opening.how == "load" else [])]
        opening.missing = len(queries) + 1

        def arrived(what: str) -> str:
            return self._connection.expect(lambda reply: self._arrived(what, reply, opening))

        hello = c.Hello(client.name, client.version, client.offers, session=session.id, ref=arrived("hello"))
        return [hello, *(c.Query(what, session=session.id, ref=arrived(what)) for what in queries)]

    def _arrived(self, what: str, reply: Reply, opening: "_Opening") -> list[c.Command]:
        """One of the replies that the answer waits for."""
        config = opening.session.writer.config
        match what:
            case "models":
                config.set_models(reply.data)
            case "state":
                config.set_state(reply.data)
                opening.state = reply.data if isinstance(reply.data, State) else State()
            case "messages":
                opening.messages = reply.data
        opening.missing -= 1
        if self.sessions.get(opening.session.id) is not opening.session:
            self._connection.refuse_cancelled(opening.request)
        elif not opening.missing:
            self._answer_opening(opening)
        return []

    def _answer_opening(self, opening: "_Opening") -> None:
        writer, state = opening.session.writer, opening.state
        history = SessionWriter(self._connection, writer.id, writer.cwd)
        history.release()
        if opening.how == "load":
            replay(opening.messages, state.plan, history)
        if self._connection.v2 and opening.how in ("load", "resume"):
            history.update(self._connection.v2.snapshot(opening.session))
        id = writer.id if opening.how in ("new", "fork") else UNSET
        options = writer.config.options()
        opening.request.answer(shapes.SessionOpened(session_id=id, modes=writer.config.modes, config_options=options))
        writer.release()
        if state.name:
            writer.setting(SettingChanged("name", state.name))
        if state.context and state.card:
            writer.context_used(ContextUsed(state.context, state.card.window))

    def _stop_opening(self, opening: "_Opening") -> list[c.Command]:
        self._forget(opening.session)
        self._connection.refuse_cancelled(opening.request)
        return [c.CloseSession(session=opening.session.id)]

    # Sessions.

    def _list(self, request: ClientRequest, params: shapes.ListSessions) -> list[c.Command]:
        after = session_list.read_cursor(params.cursor) if params.cursor is not None else None
        if (archived := params.archived or "exclude") not in session_list.FILTERS:
            raise Refusal(INVALID_PARAMS, f"archived is one of {', '.join(session_list.FILTERS)}")

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure:
                request.fail(error_of(reply.failure))
            else:
                request.answer(session_list.page(reply.data, after, archived))
            return []

        request.on_cancel = lambda: self._give_up(request)
        args = {"cwd": params.cwd} if params.cwd else {}
        return [c.Query("sessions", args, ref=self._connection.expect(replied))]

    def _give_up(self, request: ClientRequest) -> list[c.Command]:
        self._connection.refuse_cancelled(request)
        return []

    def _close(self, request: ClientRequest, params: shapes.OneSession) -> list[c.Command]:
        session = self.sessions.get(params.session_id)
        if session is None:
            request.answer({})
            return []

        def replied(reply: Reply) -> list[c.Command]:
            self._forget(session)
            request.answer({})
            return []

        session.closing = True
        return [c.CloseSession(session=session.id, ref=self._connection.expect(replied))]

    def _delete(self, request: ClientRequest, params: shapes.OneSession) -> list[c.Command]:
        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure and reply.failure.code not in _GONE:
                request.fail(error_of(reply.failure))
                return []
            if session := self.sessions.get(params.session_id):
                self._forget(session)
            request.answer({})
            return []

        return [c.CloseSession(params.session_id, delete=True, ref=self._connection.expect(replied))]

    def _status(self, request: ClientRequest, params: shapes.OneSession) -> list[c.Command]:
        id = params.session_id

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure:
                request.fail(_not_opened(reply.failure, id))
            else:
                request.answer(shapes.SessionStatus(status="open" if reply.data == "open" else "saved"))
            return []

        if (session := self.sessions.get(id)) and session.writer.is_known:
            request.answer(shapes.SessionStatus(status="open"))
            return []
        return [c.Query("status", {"session": id}, ref=self._connection.expect(replied))]

    def _archive(self, request: ClientRequest, params: shapes.OneSession) -> list[c.Command]:
        """One that is open is closed first."""
        id, archived = params.session_id, request.method == "session/archive"
        session = self.sessions.get(id)

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure:
                request.fail(_not_opened(reply.failure, id))
            else:
                request.answer({})
            return []

        def closed(reply: Reply) -> list[c.Command]:
            if session:
                self._forget(session)
            settings = {"session": id, "archived": archived}
            return [c.Configure(settings, ref=self._connection.expect(replied))]

        if session is None:
            return closed(Reply(""))
        session.closing = True
        return [c.CloseSession(session=id, ref=self._connection.expect(closed))]

    def _set_title(self, request: ClientRequest, params: shapes.SetTitle) -> list[c.Command]:
        """A session that is open tells its new title to the client; one that is stored is changed on disk."""
        id, title = params.session_id, params.title.strip()
        if not title:
            raise Refusal(INVALID_PARAMS, "The title is empty")

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure:
                request.fail(_not_opened(reply.failure, id))
            else:
                request.answer(shapes.TitleSet(title=title))
            return []

        ref = self._connection.expect(replied)
        if id in self.sessions:
            return [c.Configure({"name": title}, session=id, ref=ref)]
        return [c.Configure({"name": title, "session": id}, ref=ref)]

    def _forget(self, session: Session) -> None:
        self._asks.close_all(session.id)
        self._host_calls.close_all(session.id)
        self._host_calls.drop_servers(session.id)
        session.end()
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]

    def _set_mode(self, request: ClientRequest, params: shapes.SetMode) -> list[c.Command]:
        session = self._session(params.session_id)
        settings = session.writer.config.settings("mode", params.mode_id)
        return [c.Configure(settings, session=session.id, ref=self._plain_answer(request))]

    def _set_config_option(self, request: ClientRequest, params: shapes.SetConfigOption) -> list[c.Command]:
        session = self._session(params.session_id)
        config = session.writer.config

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure:
                request.fail(error_of(reply.failure))
            else:
                request.answer(shapes.ConfigOptions(config_options=config.options()))
            return []

        settings = config.settings(params.config_id, params.value)
        return [c.Configure(settings, session=session.id, ref=self._connection.expect(replied))]

    def _session(self, id: str) -> Session:
        if session := self.sessions.get(id):
            return session
        why = f"There is no session {id[:80]!r} here; open it with session/load"
        raise Refusal(NOT_FOUND, why, {"sessionId": id[:_LONGEST_ID]})

    # Turns.

    def _prompt(self, request: ClientRequest, params: shapes.SendPrompt) -> list[c.Command]:
        session = self._session(params.session_id)
        text, attachments = read_prompt(params.prompt)
        own = read_own(params.meta)
        turn = own.get("turn")
        turn = turn if isinstance(turn, str) and turn and turn not in session.prompts else self._connection.env.new_id()
        session.prompts[turn] = prompt = OpenPrompt(request, params.prompt)
        request.on_cancel = lambda: self._cancel_prompt(session, turn, prompt)

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure and session.prompts.pop(turn, None):
                request.fail(error_of(reply.failure))
            return []

        fields = {name: own[name] for name, fits in _PROMPT_FIELDS.items() if name in own and fits(own[name])}
        ref = self._connection.expect(replied)
        return [c.Prompt(turn, text, attachments, **fields, session=session.id, ref=ref)]

    def _cancel(self, id: str, queued: object) -> list[c.Command]:
        session = self.sessions.get(id)
        if session is None:
            return self._cancel_agent(id)
        keep = queued == "keep"
        for turn, prompt in session.prompts.items():
            prompt.cancelled = prompt.cancelled or not keep or turn == session.writer.turn
        return [c.Cancel(queued="keep" if keep else "drop", session=id)]

    def _cancel_agent(self, id: str) -> list[c.Command]:
        """A sub-agent is a session of its own to clients that show it."""
        matches = [(session.id, agent) for session in self.sessions.values() if (agent := session.agents.find(id))]
        return [c.Cancel("agent", agent, session=session) for session, agent in matches]

    def _cancel_prompt(self, session: Session, turn: str, prompt: OpenPrompt) -> list[c.Command]:
        """The client withdraws one prompt; others that wait stay. The first may begin just now, or wait."""
        prompt.cancelled = True
        running, waiting = c.Cancel(queued="keep", session=session.id), c.Cancel("prompt", turn, session=session.id)
        if session.writer.turn:
            return [running if session.writer.turn == turn else waiting]
        return [waiting, running] if turn == next(iter(session.prompts)) else [waiting]

    def _steer(self, request: ClientRequest, params: shapes.Steering) -> list[c.Command]:
        session = self._session(params.session_id)
        text, attachments = read_prompt(params.prompt)
        own, meta = read_own(params.meta), params.meta or {}
        steering = meta.get("steering")
        opted = isinstance(steering, dict) and steering.get("idleBehavior") == "promptRequired"

        def replied(reply: Reply) -> list[c.Command]:
            if reply.failure is None:
                request.answer(shapes.Steered(outcome="injected"))
            elif reply.failure.code != "idle":
                request.fail(error_of(reply.failure))
            elif opted:
                request.answer(shapes.Steered(outcome="promptRequired", reason="noRunningTurn"))
            else:
                request.answer(shapes.Steered(outcome="startedNewTurn"))
                turn = self._connection.env.new_id()
                if self._connection.v2:  # its message is shown when the turn begins
                    session.prompts[turn] = OpenPrompt(request, params.prompt)
                return [c.Prompt(turn, text, attachments, session=session.id)]
            return []

        when: Literal["soon", "last"] = "last" if own.get("when") == "last" else "soon"
        idle: Literal["refuse", "keep"] = "keep" if own.get("idle") == "keep" else "refuse"
        to = own.get("to") if isinstance(own.get("to"), str) else ""
        ref = self._connection.expect(replied)
        return [c.Steer(text, attachments, when, idle, str(to), session=session.id, ref=ref)]


class _Opening:
    """A request that opens a session, and what its answer waits for."""

    def __init__(self, request: ClientRequest, session: Session, how: How, target: str) -> None:
        self.request = request
        self.session = session
        self.how = how
        self.target = target
        self.missing = 0
        """Replies that have not arrived."""
        self.state = State()
        self.messages: object = ()


def _convert(params: Any, shape: type[Params]) -> Params:
    try:
        return msgspec.convert(params if params is not None else {}, shape)
    except msgspec.ValidationError as error:
        raise Refusal(INVALID_PARAMS, f"Invalid params: {misfit(error, shape)}") from None


def _instructions(prompt: shapes.SystemPrompt | None) -> str:
    """The text of the client's system prompt. Raises Refusal for a form of it that was not offered."""
    if prompt is None:
        return ""
    if prompt.mode != "append" or not all(isinstance(block, TextBlock) for block in prompt.content):
        raise Refusal(INVALID_PARAMS, "systemPrompt can only be text that is appended (the mode append)")
    return "\n\n".join(block.text for block in prompt.content if isinstance(block, TextBlock))


def _not_opened(failure: Failure, target: str) -> Error:
    error = error_of(failure)
    if error.code != NOT_FOUND:
        return error
    why = f"{error.message}. A session without a prompt is not kept: begin another one with session/new"
    return Error(NOT_FOUND, why, {"sessionId": target[:_LONGEST_ID], **error.data})


_HANDLERS: dict[str, tuple[type[Shape] | None, Callable[[Requests, ClientRequest, Any], list[c.Command]]]] = {
    "initialize": (None, Requests._initialize),
    "authenticate": (shapes.Authenticate, Requests._authenticate),
    "logout": (shapes.Empty, Requests._log_out),
    "session/new": (shapes.NewSession, Requests._new),
    "session/load": (shapes.LoadSession, Requests._load),
    "session/resume": (shapes.ResumeSession, Requests._resume),
    "session/fork": (shapes.ForkSession, Requests._fork),
    "auth/status": (shapes.Empty, Requests._auth_status),
    "session/archive": (shapes.OneSession, Requests._archive),
    "session/unarchive": (shapes.OneSession, Requests._archive),
    "session/status": (shapes.OneSession, Requests._status),
    "session/set_title": (shapes.SetTitle, Requests._set_title),
    "session/list": (shapes.ListSessions, Requests._list),
    "session/close": (shapes.OneSession, Requests._close),
    "session/delete": (shapes.OneSession, Requests._delete),
    "session/set_mode": (shapes.SetMode, Requests._set_mode),
    "session/set_config_option": (shapes.SetConfigOption, Requests._set_config_option),
    "session/prompt": (shapes.SendPrompt, Requests._prompt),
    "_session/steering": (shapes.Steering, Requests._steer),
}
