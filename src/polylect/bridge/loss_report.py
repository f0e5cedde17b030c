"""Counts what a bridge could not carry across in one session, with an example of each kind.

The codec of the front counts events that its wire has no frame for (`lost`); `BridgedEngine` counts commands that the
engine's wire has no word for. `app/serving/bridge.py` prints the report at the end.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import msgspec

Direction = Literal["command", "event"]
_MOST_NAMED = 6
_MOST_EXAMPLE = 200


class LossReport:
    """What was lost in one session of a bridge between a `front` wire and an `engine`."""

    def __init__(self, front: str, engine: str) -> None:
        self._front = front
        self._engine = engine
        self._counts: dict[Direction, Counter[str]] = {"command": Counter(), "event": Counter()}
        self._examples: dict[str, str] = {}

    def count(self, direction: Direction, name: str, example: str = "", times: int = 1) -> None:
        """Something of this kind did not get across."""
        self._counts[direction][name] += times
        if example:
            self._examples.setdefault(name, example[:_MOST_EXAMPLE])

    def add_events(self, lost: Mapping[str, int]) -> None:
        """What the codec of the front has counted."""
        for name, times in lost.items():
            self.count("event", name, times=times)

    def lines(self) -> list[str]:
        """At most three lines for a person; none if nothing was lost."""
        if not any(self._counts.values()):
            return []
        head = f"bridge from {self._front} to {self._engine}: not everything got across"
        titles: dict[Direction, str] = {"command": "commands refused", "event": "events not shown"}
        return [
            head,
            *(f"  {title}: {_named(self._counts[kind])}" for kind, title in titles.items() if self._counts[kind]),
        ]

    def to_json(self) -> bytes:
        """The whole report."""
        report = {
            "front": self._front,
            "engine": self._engine,
            "commands": dict(self._counts["command"]),
            "events": dict(self._counts["event"]),
            "examples": self._examples,
        }
        return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def _named(counts: Counter[str]) -> str:
    named = ", ".join(f"{name} {times} times" if times > 1 else name for name, times in counts.most_common(_MOST_NAMED))
    more = len(counts) - _MOST_NAMED
    return f"{named} and {more} more kinds" if more > 0 else named
