"""The engine's end of ACP: messages of a client to commands, events to updates, requests and answers.

It splits lines, reads them as JSON-RPC and hands them on: requests and notifications of the client to `requests`,
answers to our own requests to whoever sent them. Events go to the session that they name, questions to `asks`, work
for the client to `host_calls`. The process has no first conversation: every session is opened by the client. A bad
line never raises: it is answered once, and the next line is read. Serving code makes one `EngineSide` a connection.
"""

from polylect.dialects.acp.engine.asks import PendingAsks
from polylect.dialects.acp.engine.connection import Connection
from polylect.dialects.acp.engine.host_calls import HostCalls
from polylect.dialects.acp.engine.requests import Requests
from polylect.dialects.acp.engine.sessions import Session
from polylect.dialects.acp.frames.client import AuthMethod, Implementation
from polylect.dialects.acp.versions import VERSIONS
from polylect.dialects.base import Env
from polylect.dialects.line_codec import LineCodec
from polylect.vocab import events as e
from polylect.vocab.commands import Command, MalformedCommand
from polylect.wire import jsonl, jsonrpc


class EngineSide(LineCodec[Command]):
    """The agent's end of one connection. `version` is the newest that is spoken; a client may ask for an older one.
    `max_line` is the longest line that is read.

    Args:
        agent_version: Our own version, for `agentInfo`.
        auth: The ways to log in. Those of the type `terminal` are offered to clients that have terminals for that.
        logout: Whether the client can log out.
    """

    exit_code = 0

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        agent_version: str = "",
        auth: tuple[AuthMethod, ...] = (),
        logout: bool = False,
    ) -> None:
        super().__init__(env, max_line)
        self._connection = Connection(env)
        self._asks = PendingAsks(self._connection)
        self._host_calls = HostCalls(self._connection)
        agent = Implementation(name="polylect", title="polylect", version=agent_version)
        self._requests = Requests(
            self._connection,
            self._asks,
            self._host_calls,
            newest=int(version),
            agent=agent,
            auth=auth,
            logout=logout,
        )
        self._sessions = self._requests.sessions

    # The interface of a codec.

    def send(self, event: e.Event) -> list[Command]:
        if isinstance(event, e.Reply):
            return self._connection.reply(event)
        session = self._session(event)
        if session is None:  # it was closed, or was never opened here
            return []
        if type(event) is e.TextDelta and not event.agent:
            session.writer.text(event)
            return []
        commands = self._send(event, session)
        session.after(event)
        return commands

    def _send(self, event: e.Event, session: Session) -> list[Command]:
        match event:
            case e.Ask():
                return self._asks.ask(event, session.id, session.agents.announce(event))
            case e.AskClosed(ask):
                self._asks.close(session.id, ask)
            case e.HostCall():
                return self._host_calls.call(event, session.id, session.agents.writer(event.agent))
            case e.HostCallEnded(call):
                self._host_calls.close(session.id, call)
            case e.TurnStarted(agent=""):
                session.turn_started(event)
            case e.TurnEnded(agent="", turn=turn):
                self._asks.close_all(session.id, turn)
                unanswered = self._host_calls.close_all(session.id, turn)
                session.turn_ended(event)
                return unanswered
            case _ if event.agent:
                session.agents.write(event)
            case _:
                session.writer.write(event)
        return []

    def _session(self, event: e.Event) -> Session | None:
        """The session of an event; one that names none is of the first, and so is the `Ready` of an engine that has
        its own name for it."""
        session = self._sessions.get(event.session)
        if session is None and (not event.session or isinstance(event, e.Ready)):
            return next(iter(self._sessions.values()), None)
        return session

    def data_to_send(self) -> bytes:
        self._connection.delayed.send()
        out = self._connection.out
        data = b"".join(out)
        out.clear()
        return data

    def due(self) -> int | None:
        """Milliseconds until output of calls that was held back is due; None if none was."""
        return self._connection.delayed.due()

    def note_sent(self, data: bytes) -> list[Command]:
        """Note answers to the client that were written by other means; the requests follow by `receive`."""
        for line in self._own_lines.feed(data):
            message = jsonrpc.read(line)
            if isinstance(message, jsonrpc.Response):
                self._requests.note_answered(message.id)
        return []

    # Lines of the client.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[Command]:
        match message := jsonrpc.read(line):
            case jsonrpc.Request():
                return self._requests.request(message)
            case jsonrpc.Notification(method, params):
                return self._requests.notification(method, params)
            case jsonrpc.Response():
                return self._connection.response(message)
            case jsonrpc.Invalid():
                return [MalformedCommand(message.line, message.error.message), *self._connection.invalid(message)]
