"""Runs the user's own code: with a deadline, where it cannot hold anybody up, and so that no fault of it gets out."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from threading import Thread
from typing import Any

from msgspec import Struct

from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import HookContext


class Fault(Exception):
    """The user's own code failed; the text says how."""


class _Act(Struct):
    """What runs now, and who runs it."""

    context: HookContext
    task: asyncio.Task[Any] | None
    deadline: asyncio.Timeout


_now: ContextVar[_Act | None] = ContextVar("act", default=None)


class Stage:
    """Where code speaks that belongs to no turn, and how that of a turn finds back to it."""

    def __init__(self, session: HookContext) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()

    @property
    def context(self) -> HookContext:
        """Work that code has left behind may outlive its turn, so it speaks for the session."""
        act = _now.get()
        return act.context if act and (not self._in_loop() or act.task is asyncio.current_task()) else self._session

    async def run(
        self, act: Callable[..., Any], *given: Any, context: HookContext | None = None, timeout: float
    ) -> Any:
        """What it returns. Raises Fault. The time that a person takes to answer does not count."""
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(timeout) as deadline:
                token = _now.set(_Act(context or self._session, task, deadline))
                try:
                    return await _called(act, *given)
                finally:
                    _now.reset(token)
        except asyncio.CancelledError:
            if task and task.cancelling():
                raise
            raise Fault("it was cancelled from inside") from None
        except TimeoutError as error:
            if deadline.expired():
                raise Fault(f"it took longer than {timeout:g} s") from None
            raise Fault(f"TimeoutError: {error}") from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise Fault(f"{type(error).__name__}: {error}") from error

    def emit(self, event: Event) -> None:
        """Also from a thread."""
        context = self.context
        if self._in_loop():
            context.emit(event)
        else:
            self._loop.call_soon_threadsafe(context.emit, event)

    async def ask(self, question: Ask) -> Answer:
        act, context = _now.get(), self.context
        if act is None or context is self._session or (when := act.deadline.when()) is None:
            return await context.ask(question)
        left = when - self._loop.time()
        act.deadline.reschedule(None)
        try:
            return await context.ask(question)
        finally:
            act.deadline.reschedule(self._loop.time() + left)

    def _in_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


async def _called(act: Callable[..., Any], *given: Any) -> Any:
    """What is not a coroutine may block, and gets a thread."""
    returned = act(*given) if inspect.iscoroutinefunction(act) else await _in_thread(act, *given)
    return await returned if inspect.isawaitable(returned) else returned


async def _in_thread(act: Callable[..., Any], *given: Any) -> Any:
    """A daemon's: nobody waits at the end for code that never comes back."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error if isinstance(error, Exception) else Fault(f"{type(error).__name__}: {error}"))

    def work() -> None:
        result: Any = None
        fault: BaseException | None = None
        try:
            result = context.run(act, *given)
        except StopIteration as error:  # no future takes this one
            fault = Fault(repr(error))
        except BaseException as error:  # noqa: BLE001  (told to whoever waits)
            fault = error
        with suppress(RuntimeError):  # the engine has ended meanwhile
            loop.call_soon_threadsafe(settle, result, fault)

    Thread(target=work, name="extension", daemon=True).start()
    return await done
