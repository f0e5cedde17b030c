"""Selects the lines of a text that Read shows at a time, and numbers them.

The text arrives in pieces of any size, and no more than one page of it is held in memory. A page ends at the requested
number of lines or at 100 000 bytes; its note then says with which offset to go on. Called by `worker/reading.py`.
"""

import os

MOST = 100_000
"""Bytes shown at a time."""
_CHUNK = 256 * 1024


class Page:
    """The lines of a text from the line with the number `first` on, at most `limit` of them (0: as many as fit).

    With `from_end`, the text consists of the last `from_end` lines of a file, which are numbered from its end.
    """

    def __init__(self, first: int, limit: int, *, from_end: int = 0) -> None:
        self.lines: list[str] = []
        self.number = 0
        """Lines passed so far, shown or not."""
        self.note = ""
        self.full = False
        self._skipped = max(0, first - 1)
        self._limit = limit
        self._from_end = from_end
        self._room = MOST
        self._rest = b""

    def add(self, data: bytes) -> None:
        breaks = data.count(b"\n")
        if breaks and self.number + breaks < self._skipped:  # all of it is before the page
            self.number += breaks
            self._rest = data[data.rfind(b"\n") + 1 :]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._add_line(line)
        if len(self._rest) > self._room and self.number >= self._skipped:
            self._add_line(self._rest)
        elif self.number < self._skipped:
            self._rest = self._rest[:1]  # of a skipped line one byte is enough to count it

    def end(self) -> None:
        if self._rest:
            self._add_line(self._rest)

    def _add_line(self, line: bytes) -> None:
        if self.full:
            return
        self.number += 1
        if self.number <= self._skipped:
            return
        if len(line) > self._room:
            self._stop(line)
            return
        self._room -= len(line) + 8
        self._append(line)
        if len(self.lines) == self._limit:
            self.full = True

    def _stop(self, line: bytes) -> None:
        self.full = True
        if self.lines:
            self.note = f"\n\n(There is more: go on with offset {self._label(self.number)}.)"
            return
        self._append(line[: self._room])
        self.note = f"\n\n(Line {self._label(self.number)} is cut here."
        if self.number != self._from_end:
            self.note += f" The next one is at offset {self._label(self.number + 1)}."
        self.note += ")"

    def _label(self, number: int) -> int:
        """What a line is called, here and as an offset: its number, from the end a negative one."""
        return number - 1 - self._from_end if self._from_end else number

    def _append(self, line: bytes) -> None:
        text = line.removesuffix(b"\r").decode(errors="replace")
        label = self._label(self.number)
        self.lines.append(f"{label:6d}\t{text.removeprefix(chr(0xFEFF)) if label == 1 else text}")


def find_last_lines(file: int, size: int, count: int) -> tuple[int, int]:
    """The position at which the last `count` lines of a file begin, and how many there are. Reads only the end."""
    lines, at = 0, size
    while at > 0:
        begin = max(0, at - _CHUNK)
        data = os.pread(file, at - begin, begin)
        if at == size:
            data = data.removesuffix(b"\n")  # the end of the last line, not the beginning of another
        breaks = data.count(b"\n")
        if lines + breaks >= count:
            cut = len(data)
            for _ in range(count - lines):
                cut = data.rfind(b"\n", 0, cut)
            return begin + cut + 1, count
        lines, at = lines + breaks, begin
    return 0, lines + 1 if size else 0
