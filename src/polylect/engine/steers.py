"""Messages that wait to join a turn: soon, after the calls under way, or last, before it would end."""

from collections.abc import Callable
from typing import Literal

from polylect.vocab.answers import QueueMode
from polylect.vocab.commands import Steer
from polylect.vocab.content import Message

When = Literal["soon", "last"]


class Steers:
    """Two queues. Each message is delivered once or dropped visibly; until then it can be seen to wait."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Steer, Message]] = []
        self.changed: Callable[[], None] = lambda: None
        """To be called when what waits has changed."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, steer: Steer, message: Message) -> None:
        self._waiting.append((steer, message))

    def texts(self, when: When) -> tuple[str, ...]:
        return tuple(steer.text for steer, _ in self._waiting if steer.when == when)

    def next(self, when: When, mode: QueueMode) -> list[tuple[Steer, Message]]:
        """The first of a queue, or all of it. They wait until they have been delivered."""
        queued = [pair for pair in self._waiting if pair[0].when == when]
        return queued if mode == "all" else queued[:1]

    def delivered(self, pair: tuple[Steer, Message]) -> None:
        self._waiting = [one for one in self._waiting if one is not pair]

    def drop(self, *, keep: bool) -> int:
        """Let go of what waits, but with `keep` not of what may wait while no turn runs. How many were dropped."""
        kept = [pair for pair in self._waiting if keep and pair[0].idle == "keep"]
        dropped = len(self._waiting) - len(kept)
        self._waiting = kept
        return dropped
