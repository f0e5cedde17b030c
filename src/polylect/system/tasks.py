"""Tasks that run beside whoever started them.

The event loop holds its tasks only weakly, so somebody has to hold them until they end. Engine and MCP servers use
`TaskSet` for work that nobody awaits: slow queries, background agents, servers that are being stopped.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TaskSet:
    """Holds tasks until they end."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts `work` as a task, which is returned."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancels every task that runs."""
        for task in self._running:
            task.cancel()

    async def finished(self, timeout: float | None = None) -> bool:
        """Waits for the tasks that run now, at most `timeout` seconds. False if nothing was running."""
        running = set(self._running)
        if running:
            await asyncio.wait(running, timeout=timeout)
        return bool(running)
