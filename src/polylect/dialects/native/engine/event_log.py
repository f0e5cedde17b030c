"""Numbers the events of one session and keeps the last of them, so that a host that has missed some can get them again.

The engine's codec has one for each session of its connection. What is kept is bounded in bytes; a host that asks for
older events is told so, and can read the conversation by `query` instead.
"""

from collections import deque

MAX_KEPT = 1024 * 1024
"""Bytes of the lines that are kept, as long as a host has not said that it wants more."""


class EventLog:
    """The lines of one session, numbered from 1.

    Args:
        limit: How many bytes of lines are kept; the last line is always kept.
    """

    def __init__(self, limit: int = MAX_KEPT) -> None:
        self.last = 0
        """The number of the last event."""
        self._limit = limit
        self._size = 0
        self._lines: deque[bytes] = deque()

    def number(self, line: bytes) -> bytes:
        """Add an event, the line of which begins with `{`. Returns the line with its number."""
        self.last += 1
        numbered = b'{"seq":%d,%b' % (self.last, line[1:])
        self.keep(numbered)
        return numbered

    def keep(self, line: bytes) -> None:
        """Keep a line that has its number, and forget the oldest lines that are too many."""
        self._lines.append(line)
        self._size += len(line)
        while self._size > self._limit and len(self._lines) > 1:
            self._size -= len(self._lines.popleft())

    def note(self, line: bytes, number: int) -> None:
        """Note a line that was written by other means, with this number."""
        self.last = number
        self.keep(line)

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; one more than the last if none is."""
        return self.last - len(self._lines) + 1

    def after(self, number: int) -> list[bytes] | None:
        """The lines after this number; None if some of them are no longer kept, or if there was no such number."""
        if not self.first - 1 <= number <= self.last:
            return None
        return list(self._lines)[number - self.first + 1 :]
