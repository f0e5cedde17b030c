"""Writes commands of the host as requests, and answers by itself those that need no agent.

`CommandWriter` has one handler for each type of command (`_HANDLERS`). Commands that need a session wait until it is
open. A command that this wire, or this agent, cannot carry raises `Refusal`, which the codec turns into a reply (L2).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from polylect.dialects.acp.frames import client
from polylect.dialects.acp.frames.content import AnyBlock, Shape
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.host.asks import PendingAsks
from polylect.dialects.acp.host.connection import Connection
from polylect.dialects.acp.host.encode import host_call_error, host_call_result
from polylect.dialects.acp.host.handshake import Opening, is_terminal_login, login_needed
from polylect.dialects.acp.host.prompts import blocks
from polylect.dialects.acp.host.session import Session, ended_by
from polylect.dialects.acp.host.sessions import Sessions
from polylect.dialects.acp.host.settings import Change
from polylect.dialects.acp.host.usage import our_usage
from polylect.dialects.host_base import Refusal, accepted, inexpressible, refuse_to_agent
from polylect.dialects.lenient import Object, inner, objects, text, whole
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import ContextReport, Ledger, SessionCard, State
from polylect.vocab.content import Failure
from polylect.wire import jsonrpc

_STEER = "_session/steering"
_GOOSE_STEER = "_goose/unstable/session/steer"


class GooseSteering(Shape, frozen=True, kw_only=True):
    """The params of goose's own request for steering, which names the run that is meant."""

    session_id: str
    expected_run_id: str
    prompt: list[AnyBlock]


class HostRequest(NamedTuple):
    """A request of the agent that the host carries out."""

    id: jsonrpc.Id
    method: str
    params: Object
    session: Session


class CommandWriter:
    """Writes commands.

    Args:
        connection, sessions, asks: What the codec shares with it.
        opening: How the first session is opened; others are opened in the same folder, unless they name one.
    """

    def __init__(self, connection: Connection, sessions: Sessions, asks: PendingAsks, opening: Opening) -> None:
        self._connection = connection
        self._sessions = sessions
        self._asks = asks
        self._opening = opening
        self.host_calls: dict[str, HostRequest] = {}
        """Requests that the host carries out, by the ids of the `HostCall`s."""
        self._waiting: list[c.Command] = []
        """Commands that came before the session was open."""

    def write(self, command: c.Command) -> list[e.Event]:
        """Writes a command. Returns the events that follow from it at this end. Raises Refusal."""
        handler = _HANDLERS.get(type(command))
        if handler is None:
            raise inexpressible("ACP", command)
        if isinstance(command, _IN_A_SESSION) and not self._sessions.ready:
            self._waiting.append(command)
            return []
        return handler(self, command)

    def opened(self, session: Session) -> list[e.Event]:
        """A session can be used: what has waited for it is sent."""
        events = self.release(session, session.queue.ready())
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            try:
                events += self.write(command)
            except Refusal as refusal:
                failure = Failure(refusal.code, str(refusal), "host")
                events.append(e.Reply(command.ref, failure=failure, session=command.session))
        return events

    # Prompts and turns.

    def release(self, session: Session, prompts: list[c.Prompt]) -> list[e.Event]:
        """Sends the prompts that may go now."""
        sent = () if self._connection.retired else prompts
        return [event for prompt in sent for event in self._send(session, prompt)]

    def _send(self, session: Session, prompt: c.Prompt) -> list[e.Event]:
        try:
            params = self._prompt_params(session, prompt)
            self._connection.request("session/prompt", params, self.prompt_answered(session, prompt.turn))
        except Refusal as refusal:
            failure = Failure(refusal.code, str(refusal), "host")
            return self.end_turn(session, e.TurnEnded("error", failure=failure, turn=prompt.turn))
        return session.begin(prompt)

    def _prompt_params(self, session: Session, prompt: c.Prompt) -> client.SendPrompt:
        agent = self._connection.agent
        meta = own_meta(turn=prompt.turn, **_options(prompt)) if agent.ours else None
        content = blocks(prompt.text, prompt.attachments, agent)
        return client.SendPrompt(session_id=session.id, prompt=content, meta=meta)

    def prompt_answered(self, session: Session, turn: str) -> Callable[[Object, Failure | None], list[e.Event]]:
        """What follows from the answer to the prompt of a turn."""

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            if failure is None:
                return self.end_turn(session, ended_by(result, session, turn))
            own = inner(result, "polylect")
            used, steps = our_usage(inner(own, "usage")), whole(own, "steps")
            session.usage.spent(used)
            if failure.code == "cancelled" or turn in session.cancelled:
                return self.end_turn(session, e.TurnEnded("cancelled", used, steps, turn=turn))
            return self.end_turn(session, e.TurnEnded("error", used, steps, failure, turn=turn))

        return answered

    def end_turn(self, session: Session, ended: e.TurnEnded) -> list[e.Event]:
        """Closes what the turn has left open, ends it, and sends the next prompt."""
        asks = self._asks.cancel(session.name) if ended.turn in session.queue.running else []
        events = [*asks, *session.end(ended)]
        return [*events, *self.release(session, session.queue.ended(ended.turn))]

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        session = self._session(command)
        if not command.query and not self._connection.agent.ours:
            raise Refusal("this wire has no word for a text that no model is asked about")
        prompt = session.queue.admit(command, self._connection.env.new_id)
        blocks(prompt.text, prompt.attachments, self._connection.agent)  # refused now, not when its time has come
        closed = self._interrupt(session) if prompt.busy == "interrupt" and session.queue.running else []
        return [*accepted(command), *closed, *self.release(session, session.queue.add(prompt))]

    def _compact(self, command: c.Compact) -> list[e.Event]:
        session = self._session(command)
        names = [card.name for card in session.settings.values.get("commands", ())]
        if "compact" not in names:
            raise Refusal("this agent has no command to compact the conversation")
        words = f"/compact {command.instructions}".rstrip()
        turn = f"compact-{self._connection.env.new_id()}"
        return self._prompt(c.Prompt(turn, words, busy=command.busy, ref=command.ref, session=command.session))

    def _steer(self, command: c.Steer) -> list[e.Event]:
        session, agent = self._session(command), self._connection.agent
        if not agent.ours:
            refuse_to_agent(command)
            if command.when == "last":
                raise Refusal("this agent has no word for a message at the end of a turn: send a prompt")
        content = blocks(command.text, command.attachments, agent)
        message = e.UserMessage(command.text, "steer", command.attachments)
        if agent.steering:
            own = own_meta(when=command.when, idle=command.idle, to=command.to) if agent.ours else None
            meta = {"steering": {"idleBehavior": "promptRequired"}, **(own or {})}
            params: Shape = client.Steering(session_id=session.id, prompt=content, meta=meta)
            method = _STEER
        elif agent.name == "goose":
            if not session.reader.run:
                raise Refusal("no turn is running that could be steered; send a prompt", "idle")
            run = session.reader.run
            params = GooseSteering(session_id=session.id, expected_run_id=run, prompt=content)
            method = _GOOSE_STEER
        else:
            raise Refusal("this agent has no word for steering: send a prompt, which waits for its turn")

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            outcome = text(result, "outcome")
            if failure is None and outcome in ("promptRequired", "failed"):
                if command.idle == "keep" and outcome == "promptRequired":
                    turn = self._connection.env.new_id()
                    return self._prompt(c.Prompt(turn, command.text, command.attachments, ref=command.ref))
                failure = Failure("idle", "no turn is running that could be steered; send a prompt", "host")
            reported = agent.ours or not session.turn  # polylect says itself when the message joins the turn
            echo = [] if failure or reported else session.place([message])
            return [*echo, *_reply(command, None, failure)]

        self._connection.request(method, params, answered)
        if not agent.ours:
            session.steers.append(command.text)
        return []

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        session = self._session(command)
        match command.what:
            case "turn":
                return self._cancel_turn(command, session)
            case "prompt":
                dropped = session.queue.drop(command.target) if command.target else []
                return [*accepted(command), *_cancelled(dropped, session)]
            case "agent" if child := session.cancellable(command.target):
                self._connection.notify("session/cancel", client.OneSession(session_id=child))
                return accepted(command)
            case what:
                raise Refusal(f"this agent has no word for cancelling a {what}")

    def _cancel_turn(self, command: c.Cancel, session: Session) -> list[e.Event]:
        running, target = session.queue.running, command.target
        dropped = session.queue.drop(target) if target or command.queued == "drop" else []
        ended = _cancelled(dropped, session)
        if target and target not in running:
            return [*accepted(command), *ended]
        keep = command.queued == "keep"
        closed = self._interrupt(session, keep=keep) if running or not session.completer.idle else []
        return [*accepted(command), *closed, *ended]

    def _interrupt(self, session: Session, *, keep: bool = False) -> list[e.Event]:
        """Cancels the running turn: one notification, and every question of the session is answered."""
        if not session.cancelled.issuperset(session.queue.running) or not session.queue.running:
            meta = own_meta(queued="keep") if keep and self._connection.agent.ours else None
            self._connection.notify("session/cancel", client.OneSession(session_id=session.id, meta=meta))
        session.cancel(self._connection.env.now())
        return [*self._asks.cancel(session.name)]

    # Questions and work of the host.

    def _answer(self, command: c.Answer) -> list[e.Event]:
        ask = self._asks.get(command.ask)
        ours = self._connection.agent.ours
        closed = self._asks.answer(command, ours=ours)
        session = self._sessions.get(closed.session)
        events: list[e.Event] = [*accepted(command), closed]
        if ask and session and ask.kind == "permission" and ask.call:
            reader = session.reader_of(ask.agent)
            denied = None if command.verdict == "allow" else command.reason
            events += session.place(reader.calls.answered(ask.call, denied=denied), ask.agent)
        if command.interrupt and command.verdict != "allow" and session and not ours:
            events += self._interrupt(session)
        return events

    def _host_reply(self, command: c.HostReply) -> list[e.Event]:
        if command.call not in self.host_calls:
            raise Refusal(f"the agent does not wait for {command.call!r}", "unknown_call")
        if command.partial:
            return accepted(command)
        request = self.host_calls.pop(command.call)
        if command.error:
            error = host_call_error(command.error, command.code, text(request.params, "path"))
            self._connection.error(request.id, error)
            return accepted(command)
        self._connection.result(request.id, host_call_result(request.method, command.result))
        if (terminal := text(request.params, "terminalId")) and isinstance(command.result, dict):
            request.session.note_terminal(terminal, command.result)
        return accepted(command)

    def _hello(self, command: c.Hello) -> list[e.Event]:
        known = ["files", "terminal"]
        if command.offers.get("servers") and self._connection.agent.reaches("host"):
            known += ["servers", "tools"]  # the tools are in a server, which the session was opened with
        if unsaid := [key for key in command.offers if key not in known]:
            raise Refusal(f"ACP has no word for offering {unsaid[0]}: put tools into an MCP server")
        return accepted(command)

    # Sessions and settings.

    def _session(self, command: c.Command) -> Session:
        session = self._sessions.get(command.session)
        if session is None:
            raise Refusal(f"there is no session {command.session!r}", "no_such_session")
        return session

    def _open_session(self, command: c.OpenSession) -> list[e.Event]:
        if command.at or command.parent or command.within:
            raise Refusal("ACP opens, loads, resumes and forks whole sessions only")
        main = self._sessions.get("")
        if not command.session and main and main.queue.running:
            raise Refusal("a turn is running: cancel it first", "busy")
        target = command.target or (main.id if main and command.how == "fork" else "")
        opening = Opening(
            command.how,
            target,
            command.cwd or self._opening.cwd,
            command.folders or self._opening.folders,
            command.servers or self._opening.servers,
            command.session,
            command.ref or self._connection.env.new_id(),
        )
        return self._sessions.open(opening)

    def _close_session(self, command: c.CloseSession) -> list[e.Event]:
        session = self._sessions.get(command.target or command.session)
        id = session.id if session else command.target
        what = "delete" if command.delete else "close"
        if not self._connection.agent.has(what):
            raise Refusal(f"this agent cannot {what} sessions")

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            if session and failure is None and session.name:
                self._sessions.remove(session)
            return _reply(command, None, failure)

        self._connection.request(f"session/{what}", client.OneSession(session_id=id), answered)
        return [*self._asks.cancel(session.name)] if session else []

    def _configure(self, command: c.Configure) -> list[e.Event]:
        session = self._session(command)
        settings = {key: value for key, value in command.settings.items() if value is not None}
        changes = [self._change(session, key, value) for key, value in settings.items()]
        if not changes:
            return accepted(command)
        left, failures = [len(changes)], list[Failure]()

        def applied(change: Change) -> Callable[[Object, Failure | None], list[e.Event]]:
            def answered(result: Object, failure: Failure | None) -> list[e.Event]:
                left[0] -= 1
                failures.extend([failure] if failure else [])
                events = [] if failure else session.place(session.settings.applied(change, result))
                return events if left[0] else [*events, *_reply(command, None, next(iter(failures), None))]

            return answered

        for change in changes:
            self._connection.request(change[0], change[1], applied(change))
        return []

    def _change(self, session: Session, key: str, value: Any) -> Change:
        if key in ("name", "title") and self._connection.agent.has("title"):
            return "session/set_title", client.SetTitle(session_id=session.id, title=str(value)), "title", str(value)
        return session.settings.change(session.id, key, value)

    def _authenticate(self, command: c.Authenticate) -> list[e.Event]:
        agent = self._connection.agent
        methods = {text(method, "id"): method for method in agent.login_methods()}
        method = methods.get(command.method, {})
        if not command.method and not agent.logs_out():
            raise Refusal("this agent cannot log out")
        if command.method and (not method or is_terminal_login(method)):
            raise Refusal(login_needed(agent, f"there is no login {command.method!r} over this wire"), "auth")

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            return _reply(command, None, failure)

        if command.method:
            self._connection.request("authenticate", client.Authenticate(method_id=command.method), answered)
        else:
            self._connection.request("logout", client.Empty(), answered)
        return []

    # Queries.

    def _query(self, command: c.Query) -> list[e.Event]:
        if command.what == "sessions":
            return self._list_sessions(command, (), "")
        session = self._session(command)
        values = session.settings.values
        match command.what:
            case "state":
                return accepted(command, _state(session))
            case "models":
                return accepted(command, session.settings.models())
            case "commands":
                return accepted(command, values.get("commands", ()))
            case "thinking_levels":
                return accepted(command, session.settings.levels())
            case "cost":
                return accepted(command, Ledger(session.usage.total))
            case "context":
                return accepted(command, ContextReport(session.usage.context.used, session.usage.context.size))
        raise Refusal(f"ACP has no word for the question {command.what!r}")

    def _list_sessions(self, command: c.Query, cards: Sequence[SessionCard], cursor: str) -> list[e.Event]:
        if not self._connection.agent.has("list"):
            raise Refusal("this agent does not list its sessions")

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            if failure:
                return _reply(command, None, failure)
            more = [*cards, *(_card(row) for row in objects(result, "sessions"))]
            following = text(result, "nextCursor")
            if following and following != cursor:
                return self._list_sessions(command, more, following)
            return _reply(command, tuple(more), None)

        cwd = command.args.get("cwd")
        params = client.ListSessions(cwd=str(cwd) if cwd else None, cursor=cursor or None)
        self._connection.request("session/list", params, answered)
        return []


def _options(prompt: c.Prompt) -> dict[str, Any]:
    """The fields of a prompt that only polylect reads, without those at their default."""
    default = c.Prompt("", "")
    names = ("busy", "query", "verbatim", "schema", "max_cost", "max_tokens")
    return {name: value for name in names if (value := getattr(prompt, name)) != getattr(default, name)}


def _card(row: Object) -> SessionCard:
    return SessionCard(
        text(row, "sessionId"), text(row, "cwd"), text(row, "title"), _milliseconds(text(row, "updatedAt"))
    )


def _milliseconds(moment: str) -> int:
    """Milliseconds since 1970 of a moment in ISO 8601; 0 for what is none."""
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:
        return 0


def _state(session: Session) -> State:
    values = {key: str(value) for key, value in session.settings.values.items() if isinstance(value, str)}
    return State(
        session.id,
        values.get("model", ""),
        values.get("mode", ""),
        values.get("thinking", ""),
        busy=bool(session.queue.running),
        name=values.get("title", ""),
        context=session.usage.context.used or None,
    )


def _cancelled(prompts: list[c.Prompt], session: Session) -> list[e.Event]:
    return [e.TurnEnded("cancelled", turn=prompt.turn, session=session.name) for prompt in prompts]


def _reply(command: c.Command, data: Any, failure: Failure | None) -> list[e.Event]:
    if command.ref:
        return [e.Reply(command.ref, None if failure else data, failure, session=command.session)]
    return [e.Failed(failure, session=command.session)] if failure else []


_IN_A_SESSION = (
    c.Steer, c.Configure, c.Compact, c.OpenSession, c.CloseSession, c.Query, c.Authenticate
)  # fmt: skip
"""Commands that need to know the agent or its session. Prompts wait by themselves."""
_HANDLERS: dict[type[c.Command], Callable[[CommandWriter, Any], list[e.Event]]] = {
    c.Hello: CommandWriter._hello,
    c.Authenticate: CommandWriter._authenticate,
    c.OpenSession: CommandWriter._open_session,
    c.CloseSession: CommandWriter._close_session,
    c.Prompt: CommandWriter._prompt,
    c.Steer: CommandWriter._steer,
    c.Compact: CommandWriter._compact,
    c.Cancel: CommandWriter._cancel,
    c.Answer: CommandWriter._answer,
    c.HostReply: CommandWriter._host_reply,
    c.Configure: CommandWriter._configure,
    c.Query: CommandWriter._query,
}
