"""Stores the output of commands: of any length, in little memory.

`Spool` writes a stream to a file, up to 1 GiB. `Output` holds the first and the last part of a stream in memory and
starts a spool once the stream is too long for that. The model gets both ends and the path of the file. Called by Bash,
by background jobs, and by the engine for commands of the person.
"""

import os
from collections.abc import Callable
from typing import Protocol

from polylect.tools.text.truncate import Capture

MOST_ON_DISK = 1024 * 1024 * 1024
"""Bytes of one stream that are stored. A command that prints for ever must not fill the disk."""

Spill = Callable[[str], str]


class Spool:
    """A stream in a file. `total` counts all bytes, `stored` those that are in the file."""

    def __init__(self, spill: Spill) -> None:
        self.path = ""
        self.total = 0
        self.stored = 0
        self._file = -1
        self._fault = ""
        try:
            self.path = spill("")
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as fault:
            self._fail(fault)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if self._file < 0:
            return
        room = MOST_ON_DISK - self.stored
        try:
            with memoryview(data)[:room] as rest:
                at = 0
                while at < len(rest):
                    at += os.write(self._file, rest[at:])
            self.stored += at
        except OSError as fault:
            self._fail(fault)
        if self.stored < self.total:
            self.close()

    def read(self, start: int, stop: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def location(self) -> str:
        """In words: where the output is, and how much of it."""
        if not self.stored:
            return f"it could not be kept: {self._fault}"
        if self.stored < self.total:
            return f"the first {self.stored} bytes of it are in {self.path}"
        return f"all of it is in {self.path}"

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _fail(self, fault: OSError) -> None:
        self._fault = fault.strerror or str(fault)
        self.close()


class Output:
    """One stream of a command: both ends in memory, and all of it in a file once it is longer than `most`."""

    def __init__(self, spill: Spill, most: int) -> None:
        self._spill = spill
        self._most = most
        self._ends = Capture(most)
        self._spool: Spool | None = None

    @property
    def total(self) -> int:
        return self._ends.total

    def add(self, data: bytes) -> None:
        if self._spool is None and self.total + len(data) > self._most:
            self._start_spool()
        self._ends.add(data)
        if self._spool:
            self._spool.add(data)

    def text(self, most: int) -> str:
        """About `most` bytes of it, with a note of where the rest is."""
        if self.total <= most:
            return self._ends.text(most)
        return self._ends.text(most, (self._spool or self._start_spool()).location())

    def close(self) -> None:
        if self._spool:
            self._spool.close()

    def _start_spool(self) -> Spool:
        self._spool = Spool(self._spill)
        self._spool.add(self._ends.head(self.total))
        return self._spool


class Stream(Protocol):
    """An output stream that can be shown in part."""

    @property
    def total(self) -> int: ...

    def text(self, most: int) -> str: ...


def format_streams(out: Stream, err: Stream, most: int) -> str:
    """Both streams under their names, in about `most` bytes. What one does not need is left for the other."""
    room_out, room_err = max(most // 2, most - err.total), max(most // 2, most - out.total)
    return f"STDOUT:\n{out.text(room_out)}\nSTDERR:\n{err.text(room_err)}"
