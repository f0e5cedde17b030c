"""Answers commands that name no session, on a wire whose connection begins without a conversation.

A client of ACP lists, deletes and logs in before it opens anything. `serve.py` has one of these in the place of the
first engine. What takes long runs in a thread, one at a time, so that every command gets its answer in order.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from polylect.app.startup import config
from polylect.app.startup.start import CannotStart, resolve_settings, sessions_root
from polylect.sessions import folder
from polylect.sessions.library import FileLibrary
from polylect.sessions.store import FileStore
from polylect.system.clock_and_ids import new_id
from polylect.system.tasks import TaskSet
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import SessionCard
from polylect.vocab.commands import Authenticate, CloseSession, Command, Configure, Query
from polylect.vocab.content import Failure
from polylect.vocab.entries import Configured
from polylect.vocab.errors import PolylectError, SessionError
from polylect.vocab.events import Event, Failed, Reply

if TYPE_CHECKING:
    from polylect.app.serving.further_sessions import FurtherSessions
    from polylect.app.startup.start import Start


class StoredSessions:
    """All sessions on disk. `open_ones` are the conversations of this connection."""

    session_id = ""

    def __init__(self, start: "Start", open_ones: "FurtherSessions", emit: Callable[[Event], None]) -> None:
        self._start = start
        self._open_ones = open_ones
        self._emit = emit
        self._tasks = TaskSet()
        self._turn = asyncio.Lock()

    def handle(self, command: Command) -> None:
        self._tasks.start(self._answer(command))

    def input_closed(self, *, stop: bool) -> None:
        """Nothing here depends on further input."""

    async def settled(self) -> None:
        """Returns once every command is answered."""
        await self._tasks.finished()

    async def close(self) -> None:
        """Waits for what is being deleted."""
        await self._tasks.finished()

    async def _answer(self, command: Command) -> None:
        data, failure = None, None
        async with self._turn:
            try:
                data = await self._done(command)
            except folder.NoSuchSession as error:
                failure = Failure("no_such_session", str(error), "host")
            except CannotStart as error:
                failure = Failure("not_configured", str(error), "user")
            except (PolylectError, folder.FolderError, config.ConfigError) as error:
                failure = Failure("session", str(error), "host")
            except OSError as error:
                failure = Failure("session", f"{error.filename}: {error.strerror}", "host")
            except Exception as error:  # noqa: BLE001  (every command is answered, whatever our own code does)
                failure = Failure("internal_error", f"{type(error).__name__}: {error}", "engine")
        if command.ref:
            self._emit(Reply(command.ref, data, failure))
        elif failure:
            self._emit(Failed(failure))

    async def _done(self, command: Command) -> object:
        match command:
            case Query("sessions", args):
                return await run_in_thread(self._cards, str(args.get("cwd") or ""))
            case Query("status", {"session": str(target)}):
                return await run_in_thread(self._status, target)
            case Configure({"session": str(target), **settings}):
                return await run_in_thread(self._configure, target, settings)
            case CloseSession(target, delete=True):
                await run_in_thread(self._check_deletable, target)
                await self._open_ones.end(target)
                return await run_in_thread(self._delete, target)
            case Authenticate(method):
                return await run_in_thread(self._log_in if method else self._log_out)
        raise SessionError(f"{type(command).__name__} needs a session: open one first")

    def _root(self) -> str:
        """The folder of all sessions, as flags and the user's own settings name it."""
        settings = config.gather(dict(self._start.options), self._start.env, self._start.env.get("HOME", os.sep), [])
        return sessions_root(settings, self._start.env)

    def _cards(self, cwd: str) -> tuple[SessionCard, ...]:
        return tuple(FileLibrary(self._root(), "", new_id, new_id).sessions(cwd))

    def _status(self, session: str) -> str:
        """Whether a session is `open` in any process, or `saved`. Raises NoSuchSession."""
        try:
            folder.resume(self._root(), session, "").close()
        except folder.SessionInUse:
            return "open"
        return "saved"

    def _configure(self, session: str, settings: dict[str, object]) -> None:
        """Stores settings of a session. Raises FolderError, also if it is open somewhere."""
        store = FileStore(folder.resume(self._root(), session, ""), cwd="", new_id=new_id)
        try:
            store.append(Configured(settings))
        finally:
            store.close()

    def _check_deletable(self, session: str) -> None:
        """Raises SessionError. A session that cannot be deleted stays open."""
        from polylect.sessions import repair  # only where one is deleted

        repair.check_deletable(self._root(), [session])

    def _delete(self, session: str) -> None:
        from polylect.sessions import repair  # only where one is deleted

        repair.delete_all(self._root(), [session])

    def _log_in(self) -> None:
        """Checks that a provider can be used now. Logging in itself is done by `polylect login`."""
        resolve_settings(dict(self._start.options), self._start.env, [])

    def _log_out(self) -> None:
        """Removes the keys that `polylect login` has stored, as `polylect logout` does."""
        with suppress(FileNotFoundError):
            os.unlink(config.credentials_file(self._start.env))
