"""Emits `Alive` events while a turn runs and nothing else is emitted.

Some hosts give up a turn that is silent (AionUi after 15 seconds), so the engine promises a frame at least every
`heartbeat` seconds (L3). Every event of the engine passes through `emit`, which notes that something was sent;
`TurnQueue` runs `beat` beside each turn.
"""

import asyncio
from collections.abc import Callable, Mapping

from polylect.vocab.events import Alive, ArgsDelta, ContextUsed, Event, ToolOutput

_QUIET = (ToolOutput, ArgsDelta, ContextUsed)
"""Events that some dialects cannot say: they do not count as a sign of life. Nor does what sub-agents say."""


class Heartbeat:
    """Passes events on to `output` and watches for silence."""

    def __init__(self, output: Callable[[Event], None]) -> None:
        self.output = output
        self._emitted = 0

    def emit(self, event: Event) -> None:
        """Send one event."""
        if not event.agent and not isinstance(event, _QUIET):
            self._emitted += 1
        self.output(event)

    async def beat(self, turn: str, most: float, running: Mapping[str, str]) -> None:
        """Emit `Alive` whenever a turn has been silent for half of `most` seconds. Zero turns it off. Runs until
        cancelled.
        """
        while most:
            before = self._emitted
            await asyncio.sleep(most / 2)
            if self._emitted == before:
                call, name = next(iter(running.items()), ("", ""))
                self.emit(Alive(call, name, turn=turn))
