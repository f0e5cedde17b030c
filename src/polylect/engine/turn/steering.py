"""Messages that wait to join a turn: soon, after the calls under way, or last, before it would end."""

from collections.abc import Callable
from typing import Literal

from polylect.vocab.answers import QueueMode
from polylect.vocab.commands import Steer

When = Literal["soon", "last"]
STEER = "steer-"
"""How the id of such a message begins, which stands where a prompt has its turn."""


class SteerQueue:
    """Two queues. Each message is delivered once or dropped visibly; until then it can be seen to wait.

    The session has it by its id from when it was taken, so that it outlives the engine.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Steer] = {}
        self.changed: Callable[[], None] = lambda: None
        """To be called when what waits has changed."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, id: str, steer: Steer) -> None:
        self._waiting[id] = steer

    def texts(self, when: When) -> tuple[str, ...]:
        return tuple(steer.text for steer in self._waiting.values() if steer.when == when)

    def next(self, when: When, mode: QueueMode) -> list[tuple[str, Steer]]:
        """The first of a queue, or all of it. They wait until they have been delivered."""
        queued = [(id, steer) for id, steer in self._waiting.items() if steer.when == when]
        return queued if mode == "all" else queued[:1]

    def delivered(self, id: str) -> None:
        del self._waiting[id]

    def drop(self, *, keep: bool) -> list[str]:
        """Let go of what waits, but with `keep` not of what may wait while no turn runs. Which ones were dropped."""
        dropped = [id for id, steer in self._waiting.items() if not (keep and steer.idle == "keep")]
        for id in dropped:
            del self._waiting[id]
        return dropped
