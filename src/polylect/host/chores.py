"""What an agent does beside: answers of a policy, tools of the host. An answer that comes too late is no fault."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from polylect.host.errors import EngineDied, Refused, Unsupported


class Chores:
    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}

    def do(self, work: Callable[[], Awaitable[None]], name: str = "") -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._tasks[task] = name
        task.add_done_callback(self._tasks.pop)

    def drop(self, name: str) -> None:
        """Nobody waits for this one any more."""
        for task, known in self._tasks.items():
            if known == name:
                task.cancel()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    with suppress(EngineDied, Refused, Unsupported):
        await work()
