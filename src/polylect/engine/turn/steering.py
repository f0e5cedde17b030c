"""Messages that wait to join a running turn.

A steer with `when="soon"` is delivered after the calls that run, one with `when="last"` when the turn would end. Each
is delivered once or reported as dropped. It is stored in the session when it arrives, so that it survives a restart.
"""

from typing import Literal

from msgspec.structs import replace

from polylect.vocab.answers import QueueMode
from polylect.vocab.commands import Steer

When = Literal["soon", "last"]
STEER = "steer-"
"""How the id of such a message begins, which stands where a prompt has its turn."""


class SteerQueue:
    """The messages that wait, by id."""

    def __init__(self) -> None:
        self._waiting: dict[str, Steer] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, id: str, steer: Steer) -> None:
        self._waiting[id] = steer

    def texts(self, when: When) -> tuple[str, ...]:
        """The texts that wait for this moment."""
        return tuple(steer.text for steer in self._waiting.values() if steer.when == when)

    def next(self, when: When, mode: QueueMode) -> list[tuple[str, Steer]]:
        """The first message for this moment, or all of them. They wait until `delivered` is called."""
        queued = [(id, steer) for id, steer in self._waiting.items() if steer.when == when]
        return queued if mode == "all" else queued[:1]

    def delivered(self, id: str) -> None:
        del self._waiting[id]

    def find(self, text: str, when: When) -> str:
        """The id of the first message with this text that waits for this moment; empty if there is none."""
        waiting = self._waiting.items()
        return next((id for id, steer in waiting if (steer.text, steer.when) == (text, when)), "")

    def promote(self, id: str) -> None:
        """Let a message be delivered soon, after all others that will be."""
        self._waiting[id] = replace(self._waiting.pop(id), when="soon")

    def drop(self, *, keep: bool) -> list[str]:
        """Remove all messages, or with `keep` only those that must not wait for another turn. Returns their ids."""
        dropped = [id for id, steer in self._waiting.items() if not (keep and steer.idle == "keep")]
        for id in dropped:
            del self._waiting[id]
        return dropped
