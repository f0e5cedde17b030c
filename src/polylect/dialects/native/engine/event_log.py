"""Numbers the events of one session and keeps the last of them, so that a host that has missed some can get them again.

The engine's codec has one for each session of its connection. What is kept is bounded in bytes; a host that asks for
older events is told so, and can read the conversation by `query` instead.
"""

from collections import deque

MAX_KEPT = 512 * 1024
"""Bytes of the lines that are kept, as long as a host has not said that it wants more."""


class EventLog:
    """The lines of one session, numbered from 1.

    Lines are stored in blocks: as objects of their own, the small lines of deltas would take twice the memory.

    Args:
        limit: How many bytes of lines are kept; the last line is always kept.
    """

    def __init__(self, limit: int = MAX_KEPT) -> None:
        self.last = 0
        """The number of the last event. Whoever uses it for a line appends that line."""
        self._limit = limit
        self._blocks: deque[tuple[int, bytes]] = deque()
        """How many lines each block has, and the lines."""
        self._count = 0
        self._size = 0
        """The lines of all blocks, and their bytes."""
        self._open: list[bytes] = []
        """What will be the next block."""
        self._open_count = 0
        self._open_size = 0

    def number(self, line: bytes) -> bytes:
        """Add a line, which begins with `{`, as the next event. Returns it with its number."""
        self.last += 1
        numbered = b'{"seq":%d,%b' % (self.last, line[1:])
        self.append(numbered)
        return numbered

    def append(self, lines: bytes, count: int = 1) -> None:
        """Keep the lines of the last `count` events, which have their numbers."""
        self._open.append(lines)
        self._open_count += count
        self._open_size += len(lines)
        if self._open_size > self._limit // 16:
            self._end_block()

    def note(self, line: bytes, number: int) -> None:
        """Note a line that was written by other means, with this number."""
        self.last = number
        self.append(line)

    def _end_block(self) -> None:
        """Join what was appended to a block, and forget the oldest blocks that are too many."""
        self._blocks.append((self._open_count, b"".join(self._open)))
        self._count += self._open_count
        self._size += self._open_size
        self._open.clear()
        self._open_count = self._open_size = 0
        while self._size > self._limit and len(self._blocks) > 1:
            count, block = self._blocks.popleft()
            self._count -= count
            self._size -= len(block)

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; one more than the last if none is."""
        return self.last - self._count - self._open_count + 1

    def after(self, number: int) -> list[bytes] | None:
        """The lines after this number; None if some of them are no longer kept, or if there was no such number."""
        if not self.first - 1 <= number <= self.last:
            return None
        lines = b"".join([*(block for _, block in self._blocks), *self._open])
        return [line + b"\n" for line in lines.split(b"\n")[number - self.first + 1 : -1]]
