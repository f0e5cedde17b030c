"""The sessions of a connection: how each is opened, and to which of them a message of the agent belongs.

Agents send updates for a session before they have answered the request that opens it. Such messages are held, and
read in order after the answer. A session that is loaded replays its past first; gemini goes on with that after its
answer, so that a loaded session is ready only when nothing has come for a moment (`due`, `wake`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from polylect.dialects.acp.frames import client
from polylect.dialects.acp.host.connection import Connection
from polylect.dialects.acp.host.handshake import Opening, open_request, unreachable
from polylect.dialects.acp.host.session import Session
from polylect.dialects.acp.host.settings import Settings
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object, objects, text
from polylect.dialects.prompt_queue import PromptQueue
from polylect.vocab import events as e
from polylect.vocab.answers import SessionOpened
from polylect.vocab.content import Abilities, Failure
from polylect.vocab.grammar.complete import Completer

_QUIET_MS = 80
_MOST_MS = 5000
"""How long a loaded session has to be quiet until its replay counts as complete, and the most that is waited."""

Held = Callable[[], list[e.Event]]
"""Reads a message that was held."""


class _Drain(Struct):
    """A replay whose answer has come and that may go on."""

    session: Session
    opening: Opening
    since: int
    last: int


class Sessions:
    """The sessions that are open or being opened.

    Args:
        connection: The connection.
        main: Prompts and completion of the main session.
        first: How the first session is opened.
        wishes: Settings of the first session, made before it counts as ready.
        mode_ids: What the agent calls our modes.
        on_open: Is called with each session that can be used; returns what follows.
        cannot_start: Is called if the first session cannot be opened; returns what follows.
    """

    def __init__(
        self,
        connection: Connection,
        main: tuple[PromptQueue, Completer],
        first: Opening,
        wishes: Mapping[str, Any],
        mode_ids: Mapping[str, str],
        on_open: Callable[[Session], list[e.Event]],
        cannot_start: Callable[[Failure], list[e.Event]],
    ) -> None:
        self._connection = connection
        self._on_open, self._cannot_start = on_open, cannot_start
        self._first, self._wishes, self._mode_ids = first, wishes, mode_ids
        self._queue, self._completer = main
        self._sessions: dict[str, Session] = {}
        """By our names. The main session is there from the beginning, so that prompts can wait for it."""
        self._left: set[str] = set()
        """Ids of sessions that the host has closed, or gone on from. What still comes for them is passed over."""
        self._before: Session | None = None
        """The main session while another one is opened in its place."""
        self._opening = 0
        self._held: list[tuple[str, Held]] = []
        """Messages for sessions that are not known yet, in order."""
        self._drains: list[_Drain] = []
        self.ready = False
        self.main = self._make(first)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, name: str) -> Session | None:
        """The session that a command means: by our name for it, or by its id on the wire."""
        return self._sessions.get(name) or next((one for one in self if one.id == name and name), None)

    def of(self, id: str) -> Session | None:
        """The session, or the parent session of the sub-agent, that the wire calls so; None while it is opened.

        In the middle of a recording the first id is that of the main session. Any other id that was not announced is
        taken for a sub-agent: there are several drafts of how these are announced.
        """
        for session in self:
            if session.knows(id):
                for drain in self._drains:
                    if drain.session is session:
                        drain.last = self._connection.env.now()
                return session
        if self._opening:
            return None
        if self.main.id:
            self.main.add_child(id)
        else:
            self.main.opened(id, ours=self._connection.agent.ours)
        return self.main

    def is_left(self, id: str) -> bool:
        """Whether the host has no more to do with the session of this id."""
        return id in self._left

    def hold(self, id: str, read: Held) -> None:
        self._held.append((id, read))

    def _make(self, opening: Opening) -> Session:
        """A session that the wire has no id for yet."""
        main = not opening.name
        session = Session(
            opening.name,
            "",
            Settings(self._mode_ids),
            self._connection.env,
            queue=self._queue if main else PromptQueue(),
            completer=self._completer if main else Completer(self._connection.env.new_id),
        )
        self._sessions[opening.name] = session
        if main:
            self.main = session
        return session

    def _register(self, opening: Opening, id: str) -> Session:
        """The session of this name gets its id. The main one is replaced only by one that a command opens."""
        session = before = self.main
        if opening.ref:
            session = self._make(opening)
        if session is not before and not opening.name:
            self._before = before
        self._left.discard(id)
        session.opened(id, ours=self._connection.agent.ours)
        return session

    def _restore(self, session: Session) -> None:
        """A session could not be opened. Where it was to be the main one, that before it goes on."""
        self.remove(session)
        if self._before and session is self.main:
            self.main = self._sessions[""] = self._before
        self._before = None

    def _leave(self) -> None:
        """The main session has another one in its place: it is closed, so that others can open it."""
        before, self._before = self._before, None
        if before is None or before.id in ("", self.main.id):
            return
        self._left.add(before.id)
        if self._connection.agent.has("close"):
            close = client.OneSession(session_id=before.id)
            self._connection.request("session/close", close, lambda result, failure: [])

    def remove(self, session: Session) -> None:
        self._left.add(session.id)
        if self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    # Opening.

    def open_first(self) -> list[e.Event]:
        """Opens the session of the connection, once the agent is known."""
        try:
            return self.open(self._first)
        except Refusal as refusal:
            return self._cannot_start(Failure(refusal.code, str(refusal), "host"))

    def open(self, opening: Opening) -> list[e.Event]:
        """Opens a session. Its reply, or for the first one `Ready`, comes later. Raises Refusal."""
        agent = self._connection.agent
        if opening.target == "latest":
            return self._open_latest(opening)
        method, params = open_request(opening, agent)
        session = None
        if method == "session/load":
            session = self._register(opening, opening.target)
            session.replay = "show" if opening.how == "load" else "drop"
        self._opening += 1

        def answered(result: Object, failure: Failure | None) -> list[e.Event]:
            return self.opened(opening, session, result, failure)

        self._connection.request(method, params, answered)
        return [
            e.ServerChanged(server.name, "failed", reason=f"this agent connects to no {server.transport} servers")
            for server in unreachable(opening.servers, agent)
        ]

    def note_opening(self, opening: Opening) -> Callable[[Object, Failure | None], list[e.Event]]:
        """Our own end has sent the request by other means."""
        self._opening += 1
        session = self._register(opening, opening.target) if opening.how == "load" else None
        if session:
            session.replay = "show"
        return lambda result, failure: self.opened(opening, session, result, failure)

    def _open_latest(self, opening: Opening) -> list[e.Event]:
        """Goes on with the newest session of this folder, or begins one."""
        if not self._connection.agent.has("list"):
            raise Refusal("this agent does not list its sessions: name the one to go on with by its id")

        def listed(result: Object, failure: Failure | None) -> list[e.Event]:
            rows = sorted(objects(result, "sessions"), key=lambda row: text(row, "updatedAt"))
            target = text(rows[-1], "sessionId") if rows else ""
            how: Literal["new", "resume"] = "resume" if target else "new"
            try:
                return self.open(_replaced(opening, how, target))
            except Refusal as refusal:
                return self._failed(opening, Failure(refusal.code, str(refusal), "host"))

        self._connection.request("session/list", client.ListSessions(cwd=opening.cwd), listed)
        return []

    def opened(
        self, opening: Opening, session: Session | None, result: Object, failure: Failure | None
    ) -> list[e.Event]:
        """The request that opens a session was answered."""
        self._opening -= 1
        if failure is not None:
            if session:
                self._restore(session)
            return [*self._failed(opening, failure), *self._release()]
        id = text(result, "sessionId") or opening.target
        if session is None:
            session = self._register(opening, id)
            session.replay = "show" if opening.how == "fork" and self._is_held(id) else ""
        session.settings.opened(result)
        before = self._release()
        if not session.replay:
            return [*self._complete(opening, session), *before]
        now = self._connection.env.now()
        self._drains.append(_Drain(session, opening, now, now))
        return [*before, *session.replay_answered()]

    def _is_held(self, id: str) -> bool:
        """Whether something came for a session before it was opened; opencode replays a fork so."""
        return any(session == id for session, _ in self._held)

    def _release(self) -> list[e.Event]:
        """Reads the messages that were held and whose session is known now; all of them if no other is opened."""
        held, self._held = self._held, []
        events: list[e.Event] = []
        for id, read in held:
            known = not self._opening or any(session.knows(id) for session in self)
            events += read() if known else []
            if not known:
                self._held.append((id, read))
        return events

    def _failed(self, opening: Opening, failure: Failure) -> list[e.Event]:
        if opening.ref:
            return [e.Reply(opening.ref, failure=failure, session=opening.name)]
        return self._cannot_start(failure)

    def _complete(self, opening: Opening, session: Session) -> list[e.Event]:
        """The session can be used: makes the settings that were wished for, then says so."""
        if opening.ref or not self._wishes:
            return self._announce(opening, session)
        wishes, self._wishes = list(self._wishes.items()), {}
        left = [len(wishes)]
        failures: list[Failure] = []

        def applied(change: Any) -> Callable[[Object, Failure | None], list[e.Event]]:
            def answered(result: Object, failure: Failure | None) -> list[e.Event]:
                left[0] -= 1
                if failure:
                    failures.append(failure)
                else:
                    session.settings.applied(change, result)
                if left[0]:
                    return []
                return self._cannot_start(failures[0]) if failures else self._announce(opening, session)

            return answered

        try:
            changes = [session.settings.change(session.id, key, value) for key, value in wishes]
        except Refusal as refusal:
            return self._cannot_start(Failure(refusal.code, str(refusal), "host"))
        for change in changes:
            self._connection.request(change[0], change[1], applied(change))
        return []

    def _announce(self, opening: Opening, session: Session) -> list[e.Event]:
        if opening.ref:
            self._leave()
            opened = e.Reply(opening.ref, SessionOpened(session.id), session=opening.name)
            changed = [] if session.name else [e.SettingChanged("session", session.id)]
            return [*changed, opened, *self._on_open(session)]
        self.ready = True
        return [self._ready(session), *self._on_open(session)]

    def _ready(self, session: Session) -> e.Ready:
        agent, settings = self._connection.agent, session.settings
        names = ("list", "resume", "close", "delete", "fork")
        extras = {
            "agent": agent.name,
            "sessions": tuple(name for name in names if agent.has(name)) + (("load",) if agent.loads else ()),
            "steering": agent.steering,
        }
        abilities = Abilities(
            thinking=bool(settings.levels()),
            effort_levels=settings.levels(),
            modes=settings.modes(),
            images=agent.takes("image"),
            extras=extras,
        )
        return e.Ready(agent.version, settings.model, settings.mode or "default", abilities, session=session.id)

    # Replays.

    def due(self) -> int | None:
        """Milliseconds until `wake` has to be called; None for never."""
        now = self._connection.env.now()
        return min((max(0, _deadline(drain) - now) for drain in self._drains), default=None)

    def wake(self) -> list[e.Event]:
        """Ends the replays that have been quiet for long enough."""
        now = self._connection.env.now()
        over = [drain for drain in self._drains if _deadline(drain) <= now]
        self._drains = [drain for drain in self._drains if drain not in over]
        return [
            event
            for drain in over
            for event in (*drain.session.end_replay(), *self._complete(drain.opening, drain.session))
        ]


def _deadline(drain: _Drain) -> int:
    return min(drain.last + _QUIET_MS, drain.since + _MOST_MS)


def _replaced(opening: Opening, how: Literal["new", "resume"], target: str) -> Opening:
    return Opening(how, target, opening.cwd, opening.folders, opening.servers, opening.name, opening.ref)
