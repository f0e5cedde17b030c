"""Runs blocking work in a thread of its own, outside asyncio's shared pool.

The pool of `asyncio.to_thread` has few threads, and whoever fills it (name servers that never answer, an extension's
own work) keeps everybody else from working: a turn could not be saved, so it could not end. A thread that is started
here belongs to one piece of work. Cancelling the task that waits leaves the thread behind, and neither the end of the
event loop nor that of the process waits for it.

Everything in polylect that blocks for longer than a moment goes through `run_in_thread`.
"""

import asyncio
import errno
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NoThread(OSError):
    """The system has no thread left, so the work was not begun."""


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns, or raise what it raises (RuntimeError for StopIteration). Raises NoThread, too."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def finish(set_outcome: Callable[[], None]) -> None:
        if not outcome.done():  # else nobody waits any more
            set_outcome()

    def run() -> None:
        try:
            set_outcome = partial(outcome.set_result, work(*args, **kwargs))
        except StopIteration as error:  # a future refuses it
            set_outcome = partial(outcome.set_exception, RuntimeError(repr(error)))
        except BaseException as error:  # noqa: BLE001  (raised again where the result is awaited)
            set_outcome = partial(outcome.set_exception, error)
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(finish, set_outcome)

    try:
        start_new_thread(run, ())
    except RuntimeError as fault:
        raise NoThread(errno.EAGAIN, f"no thread could be started: {fault}") from None
    return await outcome
