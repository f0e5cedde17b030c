"""Runs a function of an extension with a deadline, and turns every failure of it into an `ExtensionFault`.

A function that is not a coroutine may block, so it runs in a thread of its own, never in the event loop. While
it runs, a context variable holds the context (the turn) for which it runs: what it shows and asks goes there. Work that
it left behind after it returned speaks for the session instead. The deadline is suspended while a person answers.

`Extensions` runs every hook, command and tool of extensions through one `HookRunner`.
"""

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from msgspec import Struct

from polylect.system.threads import run_in_thread
from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import HookContext


class ExtensionFault(Exception):
    """The code of an extension failed. The text says how."""


class _Running(Struct):
    """The function that runs now: in which context and task, until when."""

    context: HookContext
    task: asyncio.Task[Any] | None
    deadline: asyncio.Timeout


_running: ContextVar[_Running | None] = ContextVar("running", default=None)


class HookRunner:
    """Runs functions of extensions, and passes on their events and questions. `session` is for code outside a turn."""

    def __init__(self, session: HookContext) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()

    @property
    def context(self) -> HookContext:
        """The context of the running function. A task that a function left behind gets that of the session."""
        act = _running.get()
        return act.context if act and (not self._in_loop() or act.task is asyncio.current_task()) else self._session

    async def run(
        self, act: Callable[..., Any], *arguments: Any, context: HookContext | None = None, timeout: float
    ) -> Any:
        """Call it and return its result. Raises ExtensionFault. The time in which a person answers does not count."""
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(timeout) as deadline:
                token = _running.set(_Running(context or self._session, task, deadline))
                try:
                    return await _call(act, *arguments)
                finally:
                    _running.reset(token)
        except asyncio.CancelledError:
            if task and task.cancelling():
                raise
            raise ExtensionFault("it was cancelled from inside") from None
        except TimeoutError as error:
            if deadline.expired():
                raise ExtensionFault(f"it took longer than {timeout:g} s") from None
            raise ExtensionFault(f"TimeoutError: {error}") from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise ExtensionFault(f"{type(error).__name__}: {error}") from error

    def emit(self, event: Event) -> None:
        """Emit an event. May be called from any thread."""
        context = self.context
        if self._in_loop():
            context.emit(event)
        else:
            self._loop.call_soon_threadsafe(context.emit, event)

    async def ask(self, question: Ask) -> Answer:
        running, context = _running.get(), self.context
        if running is None or context is self._session or (when := running.deadline.when()) is None:
            return await context.ask(question)
        left = when - self._loop.time()
        running.deadline.reschedule(None)
        try:
            return await context.ask(question)
        finally:
            running.deadline.reschedule(self._loop.time() + left)

    def _in_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


async def _call(act: Callable[..., Any], *arguments: Any) -> Any:
    """Call a coroutine function here, and any other function in a thread, because it may block."""
    if inspect.iscoroutinefunction(act):
        return await act(*arguments)
    returned = await run_in_thread(copy_context().run, act, *arguments)
    return await returned if inspect.isawaitable(returned) else returned
