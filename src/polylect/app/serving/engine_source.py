"""What serving needs of an engine, and of what opens one: our own (`own_source.py`), or a bridge (`bridge.py`)."""

from collections.abc import Callable, Mapping
from typing import Protocol

from polylect.app.serving.stdio import Outgoing
from polylect.vocab.commands import Command
from polylect.vocab.events import Event

Emit = Callable[[Event], None]


class ServedEngine(Protocol):
    """An engine with a conversation. Its methods are those of `Engine`."""

    @property
    def session_id(self) -> str: ...

    def handle(self, command: Command) -> None: ...

    def input_closed(self, *, stop: bool) -> None: ...

    async def settled(self) -> None: ...

    async def close(self) -> None: ...


class EngineSource(Protocol):
    """Opens the engine of the first conversation of a process."""

    async def open(self, emit: Emit, out: Outgoing) -> ServedEngine:
        """Returns when the engine takes commands, and the host may be told that it is ready.

        Raises PolylectError. What was opened by then is closed, also if the task is cancelled.

        Args:
            emit: Gets every event.
            out: The way to the host, which may be full.
        """

    def begin(self) -> None:
        """Commands reach the engine now."""

    def warm_up(self) -> None:
        """Loads what the first request needs and `ready` did not."""

    async def close(self, lost: Mapping[str, int]) -> None:
        """Called when the engine is closed. `lost` is how often the codec had no frame for an event, by its name."""
