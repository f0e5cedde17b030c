"""Commands that are answered later, and the failures that unexpected exceptions become.

A handler that returns `LATER` has accepted the command and emits its one `Reply` itself. An exception in our own code
becomes a `Failure` as well, so that the host never waits in vain (L2).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec

from polylect.system.tasks import TaskSet
from polylect.vocab.content import Failure
from polylect.vocab.errors import SessionError, StorageError

LATER = Failure("later", "", "engine")
"""Returned for a command that was taken and whose one `Reply` comes when its work is done."""
P = ParamSpec("P")
_log = logging.getLogger(__name__)


def fault(error: Exception) -> Failure:
    """Log an unexpected exception and make a failure of it for whoever asked."""
    _log.error("a command failed", exc_info=error)
    if isinstance(error, OSError):
        return Failure("storage", f"the system refused it: {error}", "user")
    message = f"internal error: {type(error).__name__}: {error}. The session is intact; please report this"
    return Failure("internal", message, "engine")


def session_failure(error: SessionError) -> Failure:
    """A failure of storage belongs to the user, who can mend the disk; all other session errors are the engine's."""
    stored = isinstance(error, StorageError)
    return Failure("storage" if stored else "session", str(error), "user" if stored else "engine")


def attempted(take: Callable[P, Failure | None], *args: P.args, **kwargs: P.kwargs) -> Failure | None:
    """Call a handler; an exception becomes its failure."""
    try:
        return take(*args, **kwargs)
    except SessionError as error:
        return session_failure(error)
    except Exception as error:  # noqa: BLE001  (a command is answered, whatever our own code does)
        return fault(error)


class BackgroundTasks(TaskSet):
    """Work that no turn waits for, such as exports and slow queries. Each task replies for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = asyncio.Semaphore(1)
        """Exports run one at a time: each of them holds a whole conversation in memory."""

    async def close(self) -> None:
        """Cancel all of it and wait for its end."""
        await asyncio.sleep(0)  # its first step: work that never began could not say that it has ended
        self.cancel()
        await self.finished()
