"""Saying events, and a sign of life when there has been nothing to say for a while."""

import asyncio
from collections.abc import Callable, Mapping

from polylect.vocab.events import Alive, ArgsDelta, ContextUsed, Event, ToolOutput

_QUIET = (ToolOutput, ArgsDelta, ContextUsed)
"""Events that some dialects cannot say: they do not count as a sign of life. Nor does what sub-agents say."""


class Heartbeat:
    def __init__(self, output: Callable[[Event], None]) -> None:
        self.output = output
        self._emitted = 0

    def emit(self, event: Event) -> None:
        if not event.agent and not isinstance(event, _QUIET):
            self._emitted += 1
        self.output(event)

    async def beat(self, turn: str, most: float, running: Mapping[str, str]) -> None:
        """While a turn runs, a host hears something at least every `most` seconds. Zero is no promise."""
        while most:
            before = self._emitted
            await asyncio.sleep(most / 2)
            if self._emitted == before:
                call, name = next(iter(running.items()), ("", ""))
                self.emit(Alive(call, name, turn=turn))
