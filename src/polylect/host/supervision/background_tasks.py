"""Tasks that an agent runs beside its turns: the answers of a policy, the calls of the host's tools.

Their results go to the engine as commands. An engine that no longer wants one refuses it, or is gone; both are ignored,
because nobody waits for such a task.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from polylect.host.errors import EngineDied, Refused, Unsupported


class BackgroundTasks:
    """The tasks of one agent, some of them with a name."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}

    def start(self, work: Callable[[], Awaitable[None]], name: str = "") -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._tasks[task] = name
        task.add_done_callback(self._tasks.pop)

    def cancel_named(self, name: str) -> None:
        """Cancels the tasks of this `name`."""
        for task, task_name in self._tasks.items():
            if task_name == name:
                task.cancel()

    def cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    with suppress(EngineDied, Refused, Unsupported):
        await work()
