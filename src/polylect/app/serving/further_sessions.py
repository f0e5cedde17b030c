"""Further conversations on the connection of the first: each is an engine of its own in the same process.

A host opens one by `OpenSession` with a `session` that is not in use, and addresses it by that in every command; its
events carry the same. Each has the flags of the process and the settings of its own folder, with one exception: that
the first folder is trusted says nothing about another. `serve.py` passes commands here that are not for the first
conversation. Every command with a `ref` gets its reply, also while an engine opens or closes.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.start import dialect_start, sessions_root
from polylect.sessions import folder
from polylect.system.tasks import TaskSet
from polylect.vocab.commands import AddServer, CloseSession, Command, OpenSession, Prompt
from polylect.vocab.content import Failure
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, Failed, Reply, TurnEnded

if TYPE_CHECKING:
    from polylect.app.serving.bridge import Bridge
    from polylect.app.startup.start import Start
    from polylect.bridge.bridged_engine import BridgedEngine
    from polylect.engine.engine import Engine

_OF_THE_FIRST = ("session_id", "resume", "continue", "fork", "session_file", "resume_at", "name")
"""Flags that say which session the process begins with."""
_CODES = {
    "NoSuchFolder": "bad_folder",
    "NoSuchSession": "no_such_session",
    "SessionExists": "session_exists",
    "SessionInUse": "session_in_use",
    "NotConfigured": "not_configured",
}
"""The codes of the failures that a host may want to tell apart, by their types; `session` for any other."""
_ATTEMPTS, _PAUSE = 20, 0.1
"""How often, and after how many seconds, it is looked whether a session that another connection has left is free."""
Emit = Callable[[Event], None]


class NoSuchFolder(PolylectError):
    """A session cannot be about a folder that is not there."""


class FurtherSessions:
    """All conversations of a connection but the first.

    `start` is the start of the process; `emit` gets every event; `wait_writable` waits while the host reads too slowly.
    The engines are those of `bridge`, or our own.
    """

    def __init__(
        self,
        start: "Start",
        emit: Emit,
        wait_writable: Callable[[], Awaitable[None]],
        bridge: "Bridge | None" = None,
    ) -> None:
        self._start = start
        self._bridge = bridge
        self._emit = emit
        self._wait_writable = wait_writable
        self._sessions: dict[str, _FurtherSession] = {}
        self._tasks = TaskSet()
        self._closing = False

    def handle(self, command: Command) -> None:
        """Handles a command of a session. One that comes while the session is being ended waits until it has ended."""
        session = self._sessions.get(command.session)
        if session is not None and session.ending.is_set():
            session.held.append(command)
        elif session is not None:
            session.handle(command)
        elif self._closing:
            self._refuse(command, Failure("closing", "the engine is ending", "engine"))
        elif isinstance(command, OpenSession):
            session = _FurtherSession(command, self._start, self._emit_for, self._bridge)
            self._sessions[command.session] = session
            self._tasks.start(self._run(session))
        else:
            message = f"there is no session {command.session!r} here: open it with open_session and this `session`"
            self._refuse(command, Failure("unknown_session", message, "host"))

    async def end(self, name: str) -> None:
        """Ends a session, if it is open; returns when it has ended."""
        if session := self._sessions.get(name):
            session.ending.set()
            await session.ended.wait()

    def input_closed(self, *, stop: bool) -> None:
        """The host sends no more commands; see `Engine.input_closed`."""
        for session in self._sessions.values():
            session.input_closed(stop=stop)

    async def settled(self) -> None:
        """Returns once nothing runs or waits in any of them."""
        for session in list(self._sessions.values()):
            await session.settled()

    async def close(self) -> None:
        """Ends all of them."""
        self._closing = True
        for session in self._sessions.values():
            session.ending.set()
        await self._tasks.finished()

    async def _run(self, session: "_FurtherSession") -> None:
        try:
            await session.run(self._wait_writable)
        finally:
            del self._sessions[session.id]
            session.ended.set()
            for command in session.held:
                self.handle(command)

    def _emit_for(self, session: str) -> Emit:
        return lambda event: self._emit(replace(event, session=session))

    def _refuse(self, command: Command, failure: Failure) -> None:
        event = Reply(command.ref, failure=failure) if command.ref else Failed(failure)
        self._emit(replace(event, session=command.session))


class _FurtherSession:
    def __init__(
        self, opening: OpenSession, start: "Start", emit_for: Callable[[str], Emit], bridge: "Bridge | None"
    ) -> None:
        self.id = opening.session
        self.ending = asyncio.Event()
        self.ended = asyncio.Event()
        self.held: list[Command] = []
        """Commands that came while it was being ended."""
        self._opening = opening
        self._start = start
        self._bridge = bridge
        self._emit = emit_for(self.id)
        self._engine: Engine | BridgedEngine | None = None
        self._early: list[Command] = []
        """Commands that came before the engine was open."""
        self._opened = asyncio.Event()
        self._closing: CloseSession | None = None
        self._input_closed: bool | None = None

    def handle(self, command: Command) -> None:
        if isinstance(command, CloseSession) and not command.delete:
            self._closing = command
            self.ending.set()
        elif self._engine and isinstance(command, OpenSession) and self._names_this(command):
            self._reply_opened(command, self._engine)
        elif self._engine:
            self._engine.handle(command)
        else:
            self._early.append(command)

    def input_closed(self, *, stop: bool) -> None:
        self._input_closed = stop
        if self._engine:
            self._engine.input_closed(stop=stop)

    async def settled(self) -> None:
        await self._opened.wait()
        if self._engine:
            await self._engine.settled()

    async def run(self, wait_writable: Callable[[], Awaitable[None]]) -> None:
        """Opens the engine, and closes it when `ending` is set."""
        try:
            _check_folders(self._opening)
            await self._wait_until_free()
            async with self._opened_engine(wait_writable) as engine:
                self._begin(engine)
                await self.ending.wait()
        except PolylectError as error:
            self._fail(str(error).removeprefix("polylect cannot start: "), _CODES.get(type(error).__name__, "session"))
        except Exception as error:
            if self._opened.is_set():
                raise
            self._fail(f"{type(error).__name__}: {error}", "internal_error")
        finally:
            self._engine = None
            self._opened.set()
        if self._closing and self._closing.ref:
            self._emit(Reply(self._closing.ref))

    async def _wait_until_free(self) -> None:
        """Waits while this process itself ends the session that is to be opened: its client has just come back with
        another connection."""
        if not self._start.values.get("listen") or self._opening.how == "new" or self._bridge:
            return
        env = self._start.env
        root = sessions_root(config.gather(dict(self._start.options), env, env.get("HOME", os.sep), []), env)
        for _ in range(_ATTEMPTS):
            if not folder.is_held(root, self._opening.target or self.id, by=os.getpid()):
                return
            await asyncio.sleep(_PAUSE)

    def _opened_engine(
        self, wait_writable: Callable[[], Awaitable[None]]
    ) -> "AbstractAsyncContextManager[Engine | BridgedEngine]":
        if self._bridge:
            return self._bridge.opened(self._opening, self._emit, wait_writable)
        from polylect.app.serving.own_engine import open_resolved, resolve  # only where there are several sessions

        values, _ = resolve(_options(self._start, self._opening), self._start.env)
        secrets.conceal(keys(values))
        return open_resolved(
            values, self._start.env, self._emit, wait_writable=wait_writable, own_process=True, share_servers=True
        )

    def _begin(self, engine: "Engine | BridgedEngine") -> None:
        self._engine = engine
        self._emit(replace(engine.ready(), session=""))
        self._reply_opened(self._opening, engine)
        for server in () if self._bridge else self._opening.servers:
            engine.handle(AddServer(server))
        early, self._early = self._early, []
        for command in early:
            engine.handle(command)
        if self._input_closed is not None:
            engine.input_closed(stop=self._input_closed)
        self._opened.set()

    def _names_this(self, command: OpenSession) -> bool:
        """Whether a command opens the session that is open here: then what runs goes on."""
        return command.how in ("resume", "load") and command.target in ("", self.id)

    def _reply_opened(self, command: OpenSession, engine: "Engine | BridgedEngine") -> None:
        if command.ref:
            self._emit(Reply(command.ref, engine.opened()))

    def _fail(self, why: str, code: str) -> None:
        """Nothing was opened: every command so far gets its answer, and every prompt its end."""
        failure = Failure(code, f"the session cannot be opened: {why}", "host")
        for command in (self._opening, *self._early):
            if command.ref:
                self._emit(Reply(command.ref, failure=failure))
            elif isinstance(command, Prompt):
                self._emit(TurnEnded("error", failure=failure, turn=command.turn))


def _check_folders(opening: OpenSession) -> None:
    """Raises NoSuchFolder."""
    for path in filter(None, (opening.cwd, *opening.folders)):
        if "\0" in path or not os.path.isdir(path):
            raise NoSuchFolder(f"{path}: there is no such folder")


def _options(start: "Start", opening: OpenSession) -> dict[str, object]:
    """The flags of the process, with the session and the folder that the command names."""
    options = {name: value for name, value in start.options.items() if name not in _OF_THE_FIRST}
    workspace = str(start.values.get("workspace") or "")
    options["workspace"] = opening.cwd or workspace
    if (wire := dialect_start(start.values)) and not wire.FIRST_SESSION:
        options["keep_mode"] = options["show_replaced"] = True
    if opening.cwd and opening.cwd != workspace:
        options.pop("trust_workspace", None)
        options.pop("folders", None)
    if opening.system_prompt:
        options["append_system_prompt"] = [*config.texts(options, "append_system_prompt"), opening.system_prompt]
    if opening.folders:
        options["folders"] = list(opening.folders)
    match opening.how:
        case "new":
            options["session_id"] = opening.session
        case "fork":
            options |= {"session_id": opening.session, "resume": opening.target or start.session, "fork": True}
        case _:
            options["resume"] = opening.target or opening.session
    return options
