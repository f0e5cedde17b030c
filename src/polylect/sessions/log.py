"""Reads a session's log: one entry a line, whatever state a crash left it in.

A line that cannot be decoded is reported as a fault and does not end the reading. Entries of a later version are
recognised by their outline and are left alone. `store.py` opens logs with it, `repair.py` and `catalogue.py` inspect
them.
"""

import errno
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from msgspec import Struct

from polylect.sessions.folder import parent_missing, why_unreadable, written_later
from polylect.vocab.entries import VERSION, Entry, Opened
from polylect.vocab.errors import SessionError

MAX_LINE = 256 * 1024 * 1024
"""A longer line is damaged: the longest that is ever accepted has a quarter of this."""
_PIECE = 1 << 22
_BEGINNING = b'{"id":"'
_decode: Callable[[bytes], Entry] = msgspec.json.Decoder(Entry).decode


class _UnknownEntry(Struct):
    """An entry of a kind that this version does not know."""

    id: str
    parent: str
    at: int
    body: dict[str, Any]


_decode_foreign = msgspec.json.Decoder(_UnknownEntry).decode


class Fault(Struct, frozen=True):
    """A line that cannot be used. A `foreign` one is an entry that a later version can read."""

    line: int
    kind: Literal["damaged", "foreign"]
    start: bytes


class Log(Struct, frozen=True):
    """The content of a log. `size` is where its last complete line ends; `torn` is what follows it."""

    entries: list[Entry]
    faults: list[Fault]
    version: int
    size: int
    torn: bytes

    @property
    def first(self) -> Entry | None:
        return self.entries[0] if self.entries else None


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection: reading a log makes no garbage, and looking for it takes a quarter of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@gc_paused()
def read(file: int) -> Log:
    """Read an open file from its start, without moving its position."""
    lines = Lines(pieces(file))
    entries: list[Entry] = []
    faults: list[Fault] = []
    version = VERSION
    for number, line in enumerate(lines, 1):
        entry = entry_of(line)
        if isinstance(entry, Entry):
            entries.append(entry)
            if isinstance(entry.body, Opened):
                version = max(version, entry.body.version)
        elif line.strip():
            faults.append(Fault(number, "foreign" if entry else "damaged", line[:80]))
            version = max(version, _version(entry))
    return Log(entries, faults, version, lines.size, lines.rest)


def opened(path: str) -> int:
    """Open a log for reading. Raises OSError, also for what is no regular file or too large."""
    if why := why_unreadable(path):
        raise OSError(errno.EINVAL, f"it {why}", path)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def read_path(path: str) -> Log:
    file = opened(path)
    try:
        return read(file)
    finally:
        os.close(file)


def unusable(session_log: Log) -> str:
    """Why nothing may be appended to this log; empty if it may."""
    if session_log.version > VERSION:
        return written_later(session_log.version)
    if not session_log.entries and (session_log.faults or not _may_begin(session_log.torn)):
        lines = len(session_log.faults) + bool(session_log.torn)
        message = f"none of the {lines} lines of its log can be read. Nothing was changed"
        return f"{message}: polylect sessions repair saves what can be made out, or begin another session"
    return ""


def _may_begin(torn: bytes) -> bool:
    """Whether these bytes are the start of a first line that was cut off, so that nothing was acknowledged.

    A power cut may leave zeros where something was to be written.
    """
    written = torn.rstrip(b"\0")
    return written.startswith(_BEGINNING) or _BEGINNING.startswith(written)


def ancestry(path: str, opened: Entry | None) -> tuple[list[Entry], list[str]]:
    """The entries that a fork shares with earlier sessions, and their folders, nearest first. Raises SessionError."""
    before: list[Entry] = []
    folders: list[str] = []
    while opened and isinstance(opened.body, Opened) and opened.body.parent:
        name, last = opened.body.parent, opened.parent
        path = os.path.join(os.path.dirname(path), os.path.basename(name))
        try:
            entries = read_path(os.path.join(path, "log.jsonl")).entries
        except OSError:
            raise SessionError(parent_missing(name)) from None
        end = next((number for number, entry in enumerate(entries, 1) if entry.id == last), 0)
        if not end or path in folders:
            message = f"the entry {last!r} of session {name!r}, where it was forked, cannot be read"
            raise SessionError(f"{message}. Try: polylect sessions repair {name}")
        before = entries[:end] + before
        folders.append(path)
        opened = entries[0]
    return before, folders


def entry_of(line: bytes) -> Entry | _UnknownEntry | None:
    """The entry in this line, the outline of one of a later version, or None."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _version(entry: _UnknownEntry | None) -> int:
    """The version in an `opened` entry whose shape is unknown."""
    version = entry.body.get("version") if entry and entry.body.get("type") == "opened" else None
    return version if isinstance(version, int) else 0


class Lines:
    """Splits chunks of any size into complete lines.

    Afterwards `size` is where they ended and `rest` is what followed. Of a line that is too long only the beginning
    comes.
    """

    def __init__(self, pieces: Iterable[bytes], max_line: int = MAX_LINE) -> None:
        self._pieces = pieces
        self._max_line = max_line
        self.size = 0
        self.rest = b""

    def __iter__(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        held = length = 0
        for piece in self._pieces:
            *ended, rest = piece.split(b"\n")
            for end in ended:
                self.size += length + len(end) + 1
                yield b"".join((*parts, end)) if parts else end
                parts.clear()
                held = length = 0
            length += len(rest)
            if held <= self._max_line:
                parts.append(rest)
                held += len(rest)
        self.rest = b"".join(parts)


def pieces(file: int) -> Iterator[bytes]:
    at = 0
    while piece := os.pread(file, _PIECE, at):
        at += len(piece)
        yield piece
