"""A session's log on disk: append-only JSON Lines, and its repair after a crash."""

import os
import time
from collections.abc import Callable

import msgspec

from polylect.engine.folder import Folder
from polylect.vocab.entries import Body, Entry, Opened
from polylect.vocab.errors import SessionError
from polylect.wire import jsonl

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter
_decode = msgspec.json.Decoder(Entry).decode


class FileStore:
    """The log of a locked folder. Nothing is written before the first thing is said."""

    def __init__(self, folder: Folder, *, cwd: str, new_id: Callable[[], str]) -> None:
        self.session = folder.session
        self._folder = folder
        self._cwd = cwd
        self._new_id = new_id
        self._file = _open(folder.log)
        self.entries, self.damaged = _load(self._file)
        self._last = self.entries[-1].id if self.entries else ""
        self._unsynced = False

    def append(self, *bodies: Body) -> None:
        if not self._last:
            bodies = (Opened(self.session, self._cwd), *bodies)
        at = time.time_ns() // 1_000_000
        last, lines = self._last, []
        for body in bodies:
            entry = Entry(self._new_id(), last, at, body)
            lines.append(jsonl.dump(entry))
            last = entry.id
        self._write(b"".join(lines))
        self._last = last

    def _write(self, data: bytes) -> None:
        """All of it or none of it: what a full disk left half written is taken back."""
        before = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, before)
            raise SessionError(f"cannot write the session log {self._folder.log}: {error.strerror}") from error
        self._unsynced = True

    def sync(self) -> None:
        if self._unsynced:
            self._unsynced = False
            _sync(self._file)

    def spill(self, text: str) -> str:
        path = os.path.join(self._folder.path, "spill", self._new_id() + ".txt")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path

    def close(self) -> None:
        empty = os.fstat(self._file).st_size == 0  # not: has no readable entries
        os.close(self._file)
        self._folder.close(discard=empty)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SessionError(f"cannot open the session log {path}: {error.strerror}") from error


def _load(file: int) -> tuple[list[Entry], int]:
    """All readable entries, and the number of lines that were not. A torn last line is cut off."""
    data = b""
    while piece := os.pread(file, 1 << 24, len(data)):
        data += piece
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.ftruncate(file, whole)
    entries, damaged = [], 0
    for line in data[:whole].split(b"\n"):
        if not line:
            continue
        try:
            entries.append(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            damaged += 1
    return entries, damaged


class MemoryStore:
    """A session that nobody keeps."""

    def __init__(self, folder: str) -> None:
        self.session = ""
        self.entries: list[Entry] = []
        self._folder = folder
        self._spilled = ""

    def append(self, *bodies: Body) -> None:
        pass

    def sync(self) -> None:
        pass

    def spill(self, text: str) -> str:
        import tempfile  # 12 ms, and only for output that is too long

        self._spilled = self._spilled or tempfile.mkdtemp(prefix="polylect-", dir=self._folder or None)
        descriptor, path = tempfile.mkstemp(suffix=".txt", dir=self._spilled)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path

    def close(self) -> None:
        if self._spilled:
            import shutil  # loaded by tempfile anyway

            shutil.rmtree(self._spilled, ignore_errors=True)
