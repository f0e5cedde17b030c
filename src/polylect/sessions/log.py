"""Reading a session's log: what each line of it is, however it was left behind."""

import errno
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from msgspec import Struct

from polylect.sessions.folder import is_not_a_file, parent_gone, written_later
from polylect.vocab.entries import VERSION, Entry, Opened
from polylect.vocab.errors import SessionError

MAX_LINE = 256 * 1024 * 1024
"""A longer line is damaged: the longest that is ever accepted has a quarter of this."""
_PIECE = 1 << 22
_BEGINNING = b'{"id":"'
_decode: Callable[[bytes], Entry] = msgspec.json.Decoder(Entry).decode


class _UnknownEntry(Struct):
    """An entry by its outline."""

    id: str
    parent: str
    at: int
    body: dict[str, Any]


_decode_foreign = msgspec.json.Decoder(_UnknownEntry).decode


class Fault(Struct, frozen=True):
    """A line that cannot be used. What is `foreign` is an entry all the same: somebody else can read it."""

    line: int
    kind: Literal["damaged", "foreign"]
    start: bytes


class Log(Struct, frozen=True):
    """What a log holds. `size` is where its last whole line ends; `torn` is what stands after that."""

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
    """Nothing of a log that is read is garbage, and looking for it takes a quarter of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@gc_paused()
def read(file: int) -> Log:
    """Reads an open file from its start; its position does not matter and is not moved."""
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
    """Raises OSError also for what is no file: a pipe would keep us waiting for good."""
    if is_not_a_file(path):
        raise OSError(errno.EINVAL, "it is no file", path)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def read_path(path: str) -> Log:
    file = opened(path)
    try:
        return read(file)
    finally:
        os.close(file)


def unusable(session_log: Log) -> str:
    """Why nothing may be added to it; empty if that is in order."""
    if session_log.version > VERSION:
        return written_later(session_log.version)
    if not session_log.entries and (session_log.faults or not _may_begin(session_log.torn)):
        lines = len(session_log.faults) + bool(session_log.torn)
        message = f"none of the {lines} lines of its log can be read. Nothing was changed"
        return f"{message}: polylect sessions repair saves what can be made out, or begin another session"
    return ""


def _may_begin(torn: bytes) -> bool:
    """Whether this is how the first line of a log looks when it was cut off: then nothing was acknowledged.

    A power cut may leave zeros where something was to be written.
    """
    written = torn.rstrip(b"\0")
    return written.startswith(_BEGINNING) or _BEGINNING.startswith(written)


def ancestry(path: str, opened: Entry | None) -> tuple[list[Entry], list[str]]:
    """What a session took over when it was forked, and the folders of the sessions it came from, the nearest first."""
    before: list[Entry] = []
    folders: list[str] = []
    while opened and isinstance(opened.body, Opened) and opened.body.parent:
        name, last = opened.body.parent, opened.parent
        path = os.path.join(os.path.dirname(path), os.path.basename(name))
        try:
            entries = read_path(os.path.join(path, "log.jsonl")).entries
        except OSError:
            raise SessionError(parent_gone(name)) from None
        end = next((number for number, entry in enumerate(entries, 1) if entry.id == last), 0)
        if not end or path in folders:
            message = f"the entry {last!r} of session {name!r}, where it was forked, cannot be read"
            raise SessionError(f"{message}. Try: polylect sessions repair {name}")
        before = entries[:end] + before
        folders.append(path)
        opened = entries[0]
    return before, folders


def entry_of(line: bytes) -> Entry | _UnknownEntry | None:
    """The entry; the outline of one that only a later version understands; or None if it is neither."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _version(entry: _UnknownEntry | None) -> int:
    """Even an `opened` whose shape has changed says its version."""
    version = entry.body.get("version") if entry and entry.body.get("type") == "opened" else None
    return version if isinstance(version, int) else 0


class Lines:
    """Whole lines out of pieces of any size. In the end `size` says where they ended, and `rest` is what was left.

    A line that is too long comes as its beginning.
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
