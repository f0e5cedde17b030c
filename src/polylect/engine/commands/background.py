"""Commands whose answer takes time, and what is answered when our own code breaks."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import ParamSpec

from polylect.vocab.content import Failure
from polylect.vocab.errors import SessionError, StorageError

LATER = Failure("later", "", "engine")
"""Returned for a command that was taken and whose one `Reply` comes when its work is done."""
P = ParamSpec("P")
_log = logging.getLogger(__name__)


def fault(error: Exception) -> Failure:
    """What nobody has foreseen. Whoever asked is told, and the next command is taken."""
    _log.error("a command failed", exc_info=error)
    if isinstance(error, OSError):
        return Failure("storage", f"the system refused it: {error}", "user")
    message = f"internal error: {type(error).__name__}: {error}. The session is intact; please report this"
    return Failure("internal", message, "engine")


def session_failure(error: SessionError) -> Failure:
    """A disk that refuses to be written is for a person to mend; all else about sessions is ours."""
    stored = isinstance(error, StorageError)
    return Failure("storage" if stored else "session", str(error), "user" if stored else "engine")


def attempted(take: Callable[P, Failure | None], *args: P.args, **kwargs: P.kwargs) -> Failure | None:
    try:
        return take(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  (a command is answered, whatever our own code does)
        return fault(error)


class BackgroundTasks:
    """Work that nothing waits for, and that is answered for when it is done."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self.threads = asyncio.Semaphore(1)
        """Exports run one at a time: each of them holds a whole conversation in memory."""

    def start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def finished(self) -> bool:
        """Waits for all of it. False if there was nothing to wait for."""
        running = set(self._running)
        if running:
            await asyncio.wait(running)
        return bool(running)

    async def close(self) -> None:
        await asyncio.sleep(0)  # its first step: work that never began could not say that it has ended
        for task in self._running:
            task.cancel()
        await self.finished()
