"""Turns that wait for each other: an engine does one after the other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from polylect.host.errors import EngineDied

if TYPE_CHECKING:
    from polylect.host.turn import Turn


class Line:
    """Those that were begun and have not ended, in their order: the first one runs. Nobody may hold it any more."""

    def __init__(self) -> None:
        self._order: dict[str, None] = {}
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def __iter__(self) -> "Iterator[Turn]":
        """Those that somebody still holds."""
        return iter(list(self._turns.values()))

    @property
    def busy(self) -> bool:
        return bool(self._order)

    def get(self, id: str) -> "Turn | None":
        return self._turns.get(id)

    def join(self, turn: "Turn") -> None:
        self._turns[turn.id] = turn
        self._order[turn.id] = None
        self._call_first()

    def leave(self, id: str) -> None:
        self._turns.pop(id, None)
        self._order.pop(id, None)
        self._call_first()

    def place(self, id: str) -> int:
        """0 if it runs, more if it waits for others, -1 if it has not begun or has ended."""
        return list(self._order).index(id) if id in self._order else -1

    def fail(self, death: EngineDied) -> None:
        """None of them will go on."""
        failed = list(self)
        self._turns.clear()
        self._order.clear()
        for turn in failed:
            turn.fail(death)

    def _call_first(self) -> None:
        if (first := next(iter(self._order), None)) and (turn := self._turns.get(first)):
            turn.called()
