"""The codec of the client's end: bytes of the agent to events, commands of the host to bytes.

`start` introduces this end; the answer opens the session, and the answer to that is `Ready`. Requests of the agent
become asks or host calls, updates become events, and the `Completer` of each session adds what the wire leaves out. A
request that is not known here is refused at once, because agents wait for it in the middle of a turn. A bad line never
raises: it becomes a `MalformedEvent`. `polylect.host` creates it and drives it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from polylect import __version__
from polylect.dialects.acp.frames.client import Authenticate
from polylect.dialects.acp.host.asks import Pending, PendingAsks, elicitation, permission
from polylect.dialects.acp.host.commands import CommandWriter, HostRequest
from polylect.dialects.acp.host.connection import Connection
from polylect.dialects.acp.host.encode import HOST_CALLS, host_call_params
from polylect.dialects.acp.host.handshake import AgentInfo, CannotStart, How, Opening, initialize, read_agent
from polylect.dialects.acp.host.session import Session
from polylect.dialects.acp.host.sessions import Sessions
from polylect.dialects.acp.host.tool_calls import BadFrame
from polylect.dialects.acp.versions import CANCELLED, VERSIONS
from polylect.dialects.base import Env
from polylect.dialects.host_base import ENGINE_GONE
from polylect.dialects.host_codec import HostCodec
from polylect.dialects.lenient import Object, inner, text
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Server
from polylect.wire import jsonl, jsonrpc

_GRACE_MS = 5000
"""How long a cancelled turn may take to end. Agents in use need less than a second."""
_OPENINGS: dict[str, How] = {f"session/{how}": how for how in ("new", "load", "resume", "fork")}


class HostSide(HostCodec):
    """The client's end of one connection. Options beside `version` and `max_line`:

    cwd, folders   the folder of the session, an absolute path, and others that it may use
    how, session   how the session is opened (`new`, `load`, `resume`, `fork`), and which; `latest` for the newest
    servers        MCP servers that the agent connects to
    mode, model    settings that are made before the session counts as ready
    mode_ids       what the agent calls our modes, where it is known
    login          the id of a login that is asked for before the session is opened
    files          whether the host reads and writes files for the agent; or `{"read": bool, "write": bool}`
    terminal       whether the host runs commands for the agent
    known          what an agent is known to answer, `{"initialize": result, "session": result}`: nothing is sent
                   to find out, and the session counts as open
    """

    carries_client_services = True

    @property
    def reaches_host_servers(self) -> bool:
        return self._connection.agent.reaches("host")

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        cwd: str = "/",
        folders: Sequence[str] = (),
        how: How = "new",
        session: str = "",
        servers: Sequence[Server] = (),
        mode: str = "",
        model: str = "",
        mode_ids: Mapping[str, str] | None = None,
        login: str = "",
        files: bool | Mapping[str, bool] = False,
        terminal: bool = False,
        known: Object | None = None,
    ) -> None:
        super().__init__(env, max_line)
        offers = files if isinstance(files, Mapping) else {"read": files, "write": files}
        self._read_files, self._write_files = bool(offers.get("read")), bool(offers.get("write"))
        self._terminal = terminal
        self._inside = any(server.transport == "host" for server in servers)
        self._login = login
        self._connection = Connection(env, self._out.append)
        if version == "2":
            from polylect.dialects.acp.host.v2 import SecondVersion  # only for agents that speak it

            self._connection.v2 = SecondVersion(env.new_id)
            self.carries_client_services = False
        opening = Opening(how, session, cwd, tuple(folders), tuple(servers))
        wishes = {key: value for key, value in (("mode", mode), ("model", model)) if value}
        self._sessions = Sessions(
            self._connection,
            (self._queue, self._completer),
            opening,
            wishes,
            mode_ids or {},
            self._opened,
            self._cannot_start,
        )
        self._asks = PendingAsks(self._connection.result, self._connection.error)
        self._commands = CommandWriter(self._connection, self._sessions, self._asks, opening)
        self._known_agent = known

    # The interface of a codec.

    def start(self) -> list[e.Event]:
        if self._known_agent is not None:
            self._connection.agent = AgentInfo(inner(self._known_agent, "initialize"))
            self._sessions.main.opened("known", ours=self._connection.agent.ours)
            self._sessions.main.settings.opened(inner(self._known_agent, "session"))
            self.carries_prompt_options = self._connection.agent.ours
            self._sessions.ready = True
            return []
        params = initialize(__version__, read=self._read_files, write=self._write_files, terminal=self._terminal)
        self._connection.request("initialize", params, self._initialized)
        return []

    def receive_eof(self) -> list[e.Event]:
        received = super().receive_eof()
        others = [session for session in self._sessions if session.name]
        return [*received, *(event for session in others for event in session.completer.close())]

    @property
    def known(self) -> Mapping[str, Any]:
        result = self._connection.agent.result
        return {"known": {"initialize": result, "session": self._sessions.main.settings.raw}} if result else {}

    def due(self) -> int | None:
        times = [self._sessions.due(), self._cancel_due(), *(session.due() for session in self._sessions)]
        return min((time for time in times if time is not None), default=None)

    def wake(self) -> list[e.Event]:
        started = [event for session in self._sessions for event in session.wake()]
        given_up = self._give_up() if self._cancel_due() == 0 else []
        return self._complete([*started, *self._sessions.wake(), *given_up])

    def _cancel_due(self) -> int | None:
        """Milliseconds until an agent that was told to cancel a turn counts as deaf; None if none was told."""
        main = self._sessions.main
        overdue = main.cancelled_at + _GRACE_MS - self._env.now()
        return max(0, overdue) if main.cancelled and not self._connection.retired else None

    def _give_up(self) -> list[e.Event]:
        """The agent has ignored a cancel: the turn ends without it, and another agent goes on with the session."""
        agent, main = self._connection.agent, self._sessions.main
        self._connection.retired = True
        self.successor = "resume" if agent.loads or agent.has("resume") else "new"
        ended = [e.TurnEnded("cancelled", turn=turn) for turn in main.queue.running]
        return [event for one in ended for event in self._commands.end_turn(main, one)]

    def _engine_gone(self) -> list[e.Event]:
        events: list[e.Event] = []
        for session in self._sessions if not self._connection.retired else ():
            turns = [*session.queue.running, *(prompt.turn for prompt in session.queue.drop())]
            gone = [e.TurnEnded("error", failure=ENGINE_GONE, turn=turn, session=session.name) for turn in turns]
            events += [*session.place(session.reader.calls.close()), *gone]
        return events

    def _handle(self, command: c.Command) -> list[e.Event]:
        return self._commands.write(command)

    def note_sent(self, data: bytes) -> list[e.Event]:
        self._connection.listening = True
        events: list[e.Event] = []
        for line in self._own_lines.feed(data):
            match jsonrpc.read(line):
                case jsonrpc.Request(id, method, dict(params)):
                    events += self._note_request(id, method, params)
                case jsonrpc.Response(id):
                    closed = self._asks.forget(id)
                    events += [closed] if closed else []
        return self._complete(events)

    def _note_request(self, id: jsonrpc.Id, method: str, params: Object) -> list[e.Event]:
        session = self._sessions.of(text(params, "sessionId")) if method == "session/prompt" else None
        if method == "initialize":
            self._connection.note_request(id, self._initialized, method, "")
        elif how := _OPENINGS.get(method):
            opening = Opening(how, text(params, "sessionId"), text(params, "cwd"))
            self._connection.note_request(id, self._sessions.note_opening(opening), method, opening.target)
        elif session:
            words = [text(block, "text") for block in params.get("prompt", ()) if isinstance(block, dict)]
            prompt = c.Prompt(self._env.new_id(), "\n".join(filter(None, words)))
            session.queue.began(prompt.turn, prompt)
            answered = self._commands.prompt_answered(session, prompt.turn)
            self._connection.note_request(id, answered, method, session.id)
            return session.begin(prompt)
        return []

    # Completion, by session.

    def _complete(self, events: Iterable[e.Event]) -> list[e.Event]:
        completed: list[e.Event] = []
        for event in events:
            name = "" if isinstance(event, e.Ready) else event.session
            session = self._sessions.get(name) or self._sessions.main
            completed += session.completer.add(event)
            if isinstance(event, e.TurnEnded | e.AgentEnded):
                completed += [one for settled in session.settle() for one in session.completer.add(settled)]
        return completed

    # Lines of the agent.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        message, v2 = jsonrpc.read(line), self._connection.v2
        if isinstance(message, jsonrpc.Invalid):
            return self._complete(self._invalid(message))
        raw = line if isinstance(line, bytes) else b""
        messages = v2.incoming(message) if v2 else [message]
        return self._complete([event for one in messages for event in self._read(one, raw)])

    def _read(self, message: jsonrpc.Request | jsonrpc.Notification | jsonrpc.Response, line: bytes) -> list[e.Event]:
        if isinstance(message, jsonrpc.Response):
            return self._connection.receive(message) or []
        handlers: Mapping[str, Any] = _REQUESTS if isinstance(message, jsonrpc.Request) else _NOTIFICATIONS
        fields = message.params if isinstance(message.params, dict) else {}
        return self._message(handlers, message, message.method, fields, line)

    def _invalid(self, message: jsonrpc.Invalid) -> list[e.Event]:
        """A line that is no message. What was meant as one is answered; a line of a log is not."""
        line, error = message.line, message.error
        events = self._malformed(line, error.message)
        failed = self._connection.receive(jsonrpc.Response(message.id, error=error)) if message.may_answer else None
        if failed is None and line.startswith((b"{", b"[")):
            self._connection.error(None, error)
        return [*events, *(failed or ())]

    def _message(
        self,
        handlers: Mapping[str, Any],
        message: jsonrpc.Request | jsonrpc.Notification,
        method: str,
        params: Object,
        line: bytes,
    ) -> list[e.Event]:
        """A request or a notification of the agent."""
        handler = handlers.get(method)
        request = message if isinstance(message, jsonrpc.Request) else None
        if handler is None or not self._offered(method):
            if request:
                why = f"Method not found: {method}"
                self._connection.error(request.id, jsonrpc.Error(jsonrpc.METHOD_NOT_FOUND, why, {"method": method}))
            return self._unknown(method, line)
        try:
            events: list[e.Event] | None = handler(self, message, params, line)
        except BadFrame as error:
            if request:
                self._connection.error(request.id, jsonrpc.Error(jsonrpc.INVALID_PARAMS, f"Invalid params: {error}"))
            return self._malformed(line, str(error))
        if events is None:
            return self._unknown(text(inner(params, "update"), "sessionUpdate"), line)
        self.outcomes["known"] += 1
        return events

    def _unknown(self, kind: str, line: bytes) -> list[e.Event]:
        self.outcomes["unknown"] += 1
        return [e.UnknownEvent(kind, line)]

    def _offered(self, method: str) -> bool:
        """Whether the agent may ask for this: files and terminals only if the host has offered them."""
        if method == "fs/read_text_file":
            return self._read_files
        if method == "fs/write_text_file":
            return self._write_files
        if method == "mcp/message":
            return self._inside
        return self._terminal or not method.startswith("terminal/")

    # The handshake.

    def _initialized(self, result: Object, failure: Failure | None) -> list[e.Event]:
        try:
            if failure is not None:
                raise CannotStart(f"the agent cannot be spoken to: {failure.message}")
            if result.get("protocolVersion") != 2:
                self._connection.v2 = None
            self._connection.agent = read_agent(result)
            self.carries_prompt_options = self._connection.agent.ours
        except CannotStart as error:
            return self._cannot_start(Failure("unsupported_version", str(error), "host"))
        if self._connection.listening:
            return []
        if not self._login:
            return self._sessions.open_first()
        self._connection.request("authenticate", Authenticate(method_id=self._login), self._authenticated)
        return []

    def _authenticated(self, result: Object, failure: Failure | None) -> list[e.Event]:
        return self._cannot_start(failure) if failure else self._sessions.open_first()

    def _cannot_start(self, failure: Failure) -> list[e.Event]:
        self.start_failure = failure
        return [e.Failed(failure)]

    def _opened(self, session: Session) -> list[e.Event]:
        return self._commands.opened(session)

    # Messages of the agent.

    def _update(self, message: jsonrpc.Notification, params: Object, line: bytes) -> list[e.Event] | None:
        update, id = params.get("update"), text(params, "sessionId")
        if not id or not isinstance(update, dict):
            raise BadFrame("expected a sessionId and an update")
        if self._sessions.is_left(id):
            return []
        session = self._sessions.of(id)
        if session is None:
            self._sessions.hold(id, lambda: self._message(_NOTIFICATIONS, message, message.method, params, line))
            return []
        events = session.update(id, update)
        if events is None:
            return None
        return [one for event in events for one in self._follow(session, event)]

    def _follow(self, session: Session, event: e.Event) -> list[e.Event]:
        """What an event means for questions and prompts that wait."""
        match event:
            case e.ToolFinished(call) if closed := self._asks.cancel(session.name, call):
                return [*closed, event]
            case e.TurnEnded(turn=turn) if turn in session.queue.running:
                return [event, *self._commands.release(session, session.queue.ended(turn))]
        return [event]

    def _permission(self, message: jsonrpc.Request, params: Object, line: bytes) -> list[e.Event]:
        id, fields = text(params, "sessionId"), params.get("toolCall")
        if not id or not isinstance(fields, dict):
            raise BadFrame("expected a sessionId and a toolCall")
        session = self._sessions.of(id)
        if session is None:
            self._sessions.hold(id, lambda: self._message(_REQUESTS, message, message.method, params, line))
            return []
        agent = session.agent_of(id)
        call, events = session.reader_of(agent).calls.ask(fields)
        ask = permission(self._asks.name(message.id, self._env.new_id), params, call)
        return self._ask(Pending(message.id, ask), session, agent, events)

    def _elicitation(self, message: jsonrpc.Request, params: Object, line: bytes) -> list[e.Event]:
        id = text(params, "sessionId")
        session = (self._sessions.of(id) if id else None) or self._sessions.main
        ask = elicitation(self._asks.name(message.id, self._env.new_id), params)
        if ask is None:
            raise BadFrame(f"there is no mode {text(params, 'mode')!r}; there are form and url")
        schema, link = inner(params, "requestedSchema"), text(params, "elicitationId")
        agent = session.agent_of(id)
        call = session.reader_of(agent).calls.get(ask.call)
        ask = replace(ask, name=call.tool) if call and not call.finished else replace(ask, call="")
        return self._ask(Pending(message.id, ask, schema, link), session, agent, [])

    def _ask(self, pending: Pending, session: Session, agent: str, before: list[e.Event]) -> list[e.Event]:
        *events, ask = session.place([*before, pending.ask], agent)
        assert isinstance(ask, e.Ask)
        self._asks.open(replace(pending, ask=ask))
        return [*events, ask]

    def _host_call(self, message: jsonrpc.Request, params: Object, line: bytes) -> list[e.Event]:
        session = self._sessions.of(text(params, "sessionId")) or self._sessions.main
        call = str(message.id) if str(message.id) not in self._commands.host_calls else self._env.new_id()
        self._commands.host_calls[call] = HostRequest(message.id, message.method, params, session)
        fields = host_call_params(message.method, params)
        return session.place([e.HostCall(call, HOST_CALLS[message.method], fields)])

    def _cancel_request(self, message: jsonrpc.Notification, params: Object, line: bytes) -> list[e.Event]:
        """The agent withdraws a request. It gets its one answer all the same."""
        id: Any = params.get("requestId")
        if closed := self._asks.withdrawn(id):
            return [closed]
        for call, request in self._commands.host_calls.items():
            if request.id == id:
                del self._commands.host_calls[call]
                self._connection.error(request.id, jsonrpc.Error(CANCELLED, "The request was cancelled"))
                return [e.HostCallEnded(call)]
        return []

    def _elicitation_complete(self, message: jsonrpc.Notification, params: Object, line: bytes) -> list[e.Event]:
        closed = self._asks.completed(text(params, "elicitationId"))
        return [closed] if closed else []


_NOTIFICATIONS: Mapping[str, Callable[[HostSide, Any, Object, bytes], list[e.Event] | None]] = {
    "session/update": HostSide._update,
    "elicitation/complete": HostSide._elicitation_complete,
    "$/cancel_request": HostSide._cancel_request,
}
_REQUESTS: Mapping[str, Callable[[HostSide, Any, Object, bytes], list[e.Event] | None]] = {
    "session/request_permission": HostSide._permission,
    "elicitation/create": HostSide._elicitation,
    **dict.fromkeys(HOST_CALLS, HostSide._host_call),
}
