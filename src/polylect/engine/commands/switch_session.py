"""Opens another session in a running engine, and rewinds files to an earlier state.

`OpenSession` starts, resumes or forks a session. The new session is opened first; only then is the running turn stopped
and the old session closed, so that a failure changes nothing. Commands that arrive meanwhile are held (`HeldCommands`).
Long logs are read in a thread, so that the host is served meanwhile (L4).
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from polylect.engine.commands.background import LATER, fault
from polylect.engine.commands.configure import BadSetting
from polylect.engine.commands.context import CommandContext
from polylect.engine.commands.user_shell import UserShell
from polylect.engine.turn import thinking
from polylect.engine.turn.compaction import Compactor
from polylect.sessions.folder import LONG
from polylect.sessions.replay import Replay, current, message_text
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import Rewound, SessionOpened
from polylect.vocab.commands import OpenSession, Prompt, Rewind
from polylect.vocab.content import Failure
from polylect.vocab.entries import Body, MessageAdded, TurnOpened
from polylect.vocab.errors import SessionError
from polylect.vocab.events import PlanChanged, SettingChanged
from polylect.vocab.ports import Library, Store

T = TypeVar("T")


class SessionSwitch:
    """Goes to other sessions. `on_entered` is called when one was entered and its settings are restored."""

    def __init__(self, context: CommandContext, shell: UserShell, on_entered: Callable[[], None]) -> None:
        self._context = context
        self._agent = context.agent
        self._shell = shell
        self._on_entered = on_entered

    def open_session(self, command: OpenSession, *, keep: bool = False) -> Failure | None:
        """Switch to another session. With `keep` the waiting prompts move along; otherwise they are dropped."""
        if problem := self._problem(command):
            return problem
        if command.within and self._is_open_in(command.within):
            session = self._agent.session
            opened = SessionOpened(session.id, session.store.file, resumed=bool(session.messages))
            self._context.reply(command, opened)
            return LATER
        if self._is_long(command):
            self._context.held.hold()
            self._context.background.start(self._read_and_switch(command, keep=keep))
            return LATER
        try:
            session = self._session(command)
        except SessionError as error:
            return Failure("session", str(error), "host")
        self._switch(command, session, keep=keep)
        return LATER

    def _switch(self, command: OpenSession, session: Session, *, keep: bool) -> None:
        self._context.held.hold()
        waiting = self._context.turns.take_waiting() if keep else []
        self._context.turns.drop()
        self._context.turns.stop_and_run_exclusive(self._enter(command, session, waiting))

    def _is_long(self, command: OpenSession) -> bool:
        """Whether reading the logs takes long, as far as the library can tell before it opens them."""
        bytes_to_read: Callable[[str], int] = getattr(self._agent.library, "bytes_to_read", lambda target: 0)
        return command.how != "new" and bytes_to_read(command.target or self._agent.session.id) > LONG

    async def _read_and_switch(self, command: OpenSession, *, keep: bool) -> None:
        """Read the session in a thread, then switch (L4)."""
        reading = asyncio.create_task(run_in_thread(self._session, command))
        try:
            session = await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.add_done_callback(self._close_unused)
            raise
        except Exception as error:  # noqa: BLE001  (it is answered, whatever our own code does)
            known = isinstance(error, SessionError)
            self._context.reply(command, failure=Failure("session", str(error), "host") if known else fault(error))
            return self._context.held.release()
        self._switch(command, session, keep=keep)

    def _close_unused(self, read: asyncio.Task[Session]) -> None:
        """Close a session that was read although the engine is ending."""
        if not read.cancelled() and not read.exception() and read.result() is not self._agent.session:
            read.result().store.close()

    def _problem(self, command: OpenSession) -> Failure | None:
        workspace = self._agent.settings.workspace
        if path := next((path for path in (command.cwd, command.target) if "\0" in path), ""):
            return Failure("session", f"{path!r} is no path: it holds a NUL", "host")
        if command.cwd and _real(workspace, command.cwd) != workspace:
            return Failure("session", f"this engine works in {workspace}; for another folder start another one", "host")
        if command.folders or command.servers:
            return Failure("unsupported", "folders and servers are added by commands of their own", "host")
        if self._agent.library is None and command.how != "new":
            return Failure("session", "sessions are not kept here, so there is no other one to go to", "host")
        return None

    def _is_open_in(self, root: str) -> bool:
        """Whether the open session is one of this folder."""
        file = self._agent.session.store.file
        folder = os.path.dirname(os.path.dirname(file))
        return bool(file) and os.path.realpath(folder) == _real(self._agent.settings.workspace, root)

    def _session(self, command: OpenSession) -> Session:
        """Open the session. Raises SessionError; then nothing has changed."""
        agent = self._agent
        if agent.library is None:
            return Session(MemoryStore("", agent.new_id()))
        if command.within:
            library = agent.library.within(_real(agent.settings.workspace, command.within))
            newest = next((card.id for card in library.sessions(agent.settings.workspace) if card.messages), "")
            return Session(library.resume(newest) if newest else library.create())
        current = agent.session.store
        there = not command.target or self._names_session(current, command.target)
        if command.how in ("resume", "load") and command.target and there:
            return agent.session
        store = _opened(agent.library, command, current if there else None)
        try:
            return Session(store)
        except BaseException:
            store.close()
            raise

    def _names_session(self, store: Store, target: str) -> bool:
        """Whether `target` is this session: by id, log, folder, or as the latest one."""
        workspace, library = self._agent.settings.workspace, self._agent.library
        if target == "latest" and library:
            return next((card.id for card in library.sessions(workspace)), "") == store.session
        places = (store.file, os.path.dirname(store.file)) if store.file else ()
        return target == store.session or _real(workspace, target) in map(os.path.realpath, places)

    async def _enter(self, command: OpenSession, session: Session, waiting: list[Prompt]) -> None:
        opened, failure = None, None
        try:
            opened = await self._entered(command, session, waiting)
        except Exception as error:  # noqa: BLE001  (else what is held would never be heard)
            failure = fault(error)
        self._context.turns.after_current(lambda: self._context.reply(command, opened, failure))
        self._context.turns.after_current(self._context.held.release)

    async def _entered(self, command: OpenSession, session: Session, waiting: list[Prompt]) -> SessionOpened:
        agent, old = self._agent, self._agent.session
        left = _forked_prompt(old, command)
        # Agents in the background worked for the old session.
        await _uncancelled(self._context.running_agents.cancel_and_wait())
        if session is not old:
            self._shell.cancel()  # what the user started there is told there, and nowhere else
            await _uncancelled(self._shell.finished())
            for leave in [getattr(tool, "leave_session", None) for tool in list(agent.tools.values())]:
                if leave:
                    await _uncancelled(leave())
        self._context.turns.drop()
        self._context.turns.end_dropped()
        self._context.turns.drop_steers(keep=False)
        if agent.todos:
            self._agent.emit(PlanChanged(()))
        agent.use_session(session)
        if command.within and agent.library:
            agent.library = agent.library.within(_real(agent.settings.workspace, command.within))
        for prompt in waiting:
            with suppress(SessionError):
                session.accept(prompt.turn, old.withdraw(prompt.turn))
                self._context.turns.add(prompt)
        if old.store is not session.store:
            with suppress(SessionError):
                old.expire_suspended()
            old.store.close()
        self._agent.emit(SettingChanged("session", session.id))
        if session.name != old.name:
            self._agent.emit(SettingChanged("name", session.name))
        self.restore()
        self._on_entered()
        resumed = bool(command.within and session.messages)
        return SessionOpened(session.id, session.store.file, left, resumed=resumed)

    def restore(self) -> None:
        """Set the model and thinking level that the session was used with, if they still exist."""
        agent = self._agent
        info = agent.provider.info(agent.settings.model)
        now = {"model": f"{agent.provider.name}/{info.name}", "thinking": thinking.current(agent.settings, info)}
        names = {f"{card.provider}/{card.name}" for card in agent.models.cards()} if agent.models else set()
        for key, value in now.items():
            stored = agent.session.settings.get(key)
            if stored not in (None, "", value) and (key != "model" or stored in names):
                with suppress(BadSetting, SessionError):
                    self._context.changes.apply({key: stored})

    def rewind(self, command: Rewind) -> Failure | None:
        if self._context.turns.busy:
            return Failure("busy", "a turn is running: stop it first, or wait for its end", "host", retryable=True)
        if command.what == "conversation":
            return self._rewind_conversation(command)
        if not self._agent.settings.checkpoints:
            return Failure("checkpoints", "what files were is not kept here: checkpoints are switched off", "host")
        self._context.turns.run_exclusive(self._rewind(command))
        return LATER

    def _rewind_conversation(self, command: Rewind) -> Failure | None:
        """Take a prompt and all after it out of the conversation; the log keeps them as a branch."""
        agent, store = self._agent, self._agent.session.store
        if not isinstance(store, FileStore):
            return Failure("unsupported", "sessions are not kept here, so there is no way back", "host")
        line = current(store.entries)
        opened = [entry for entry in line if entry.body == TurnOpened(command.to)]
        texts = [_prompt_text(entry.body) for entry in line if _is_prompt_of(entry.body, command.to)]
        if not opened or not texts:
            return Failure("target_not_found", f"there is no prompt {command.to!r} in this conversation", "host")
        store.go_back(opened[-1].parent)
        agent.session = Session(store)
        agent.compactor = Compactor(agent)
        self._context.reply(command, Rewound(prompt=texts[-1]))
        return LATER

    async def _rewind(self, command: Rewind) -> None:
        work = self._agent.checkpoints.rewind(command.to, dry_run=command.dry_run)
        failure, rewound = None, None
        try:
            rewound = await _uncancelled(work)
        except SessionError as error:
            failure = Failure("session", str(error), "host")
        except Exception as error:  # noqa: BLE001  (it is answered, whatever our own code does)
            failure = fault(error)
        self._context.turns.after_current(lambda: self._context.reply(command, rewound, failure))


def _opened(library: Library, command: OpenSession, current: Store | None) -> Store:
    match command.how:
        case "new":
            return library.create(command.parent)
        case "resume" | "load":
            return library.resume(command.target)
        case "fork" if current:
            return library.fork(current, command.at)
        case "fork":
            other = library.resume(command.target)
            try:
                return library.fork(other, command.at)
            finally:
                other.close()


def _real(workspace: str, path: str) -> str:
    """The real path, relative to the workspace and not to the folder of the process."""
    return os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))


async def _uncancelled(work: Coroutine[None, None, T]) -> T:
    """Run this work to its end, even if the waiting task is cancelled."""
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


def _is_prompt_of(body: Body, turn: str) -> bool:
    return isinstance(body, MessageAdded) and body.turn == turn and body.message.role == "user"


def _prompt_text(body: Body) -> str:
    return message_text(body.message) if isinstance(body, MessageAdded) else ""


def _forked_prompt(old: Session, command: OpenSession) -> str:
    """The text of the message at which a fork branches off."""
    if command.how != "fork" or not command.at:
        return ""
    points = Replay(old.store.entries).fork_points()
    return next((point.text for point in points if point.entry == command.at), "")
