"""What files were before calls changed them, and putting them back."""

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from polylect.engine import whole
from polylect.vocab.answers import Rewound
from polylect.vocab.entries import Entry, FileKept, Said, TurnOpened
from polylect.vocab.errors import SessionError, ToolError
from polylect.vocab.ports import Store


@runtime_checkable
class Shelf(Protocol):
    """A store that also keeps files."""

    def keep(self, data: bytes) -> str:
        """Under which name."""
        ...

    def kept(self, blob: str) -> bytes | None: ...


class Checkpoints:
    """The files of one session, each as it was before it was first changed after a message."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, turn: str, paths: Iterable[str]) -> None:
        """Before these are changed. Raises ToolError, so that nothing is changed that could not be put back."""
        if not isinstance(self._store, Shelf):
            return
        for path in paths:
            if _kept_already(path, self._store.entries):
                continue
            try:
                found = _read(path)
                blob = self._store.keep(found.data) if found else ""
                self._store.append(FileKept(turn, path, blob, found.mode if found else 0))
            except _NoFile:
                continue  # whatever it is, the call will not change it
            except (OSError, SessionError) as error:
                raise ToolError(f"{path} could not be kept as it is, so it was not changed: {error}") from error

    def rewind(self, to: str, *, dry_run: bool) -> Rewound:
        """Put every file back to what it was before this message. Raises SessionError."""
        states = [(kept.path, self._content(kept), _now(kept.path)) for kept in _after(to, self._store.entries)]
        changed = [(path, before, now) for path, before, now in states if before != now]
        lines = [_counted(now.data if now else b"", before.data if before else b"") for _, before, now in changed]
        if not dry_run:
            for path, before, _ in changed:
                _put_back(path, before)
        return Rewound(tuple(path for path, *_ in changed), sum(come for come, _ in lines), sum(go for _, go in lines))

    def _content(self, kept: FileKept) -> "_File | None":
        if not kept.blob:
            return None
        data = self._store.kept(kept.blob) if isinstance(self._store, Shelf) else None
        if data is None:
            raise SessionError(f"what {kept.path} was is no longer there")
        return _File(data, kept.mode)


class _File(Struct, frozen=True):
    data: bytes
    mode: int


class _NoFile(Exception):
    """A folder, a pipe, a device."""


def _kept_already(path: str, entries: Sequence[Entry]) -> bool:
    """Since the last message: what came between has changed it."""
    for entry in reversed(entries):
        match entry.body:
            case FileKept(path=kept) if kept == path:
                return True
            case _ if _is_message(entry):
                return False
    return False


def _after(to: str, entries: Sequence[Entry]) -> list[FileKept]:
    """For each file the first state since that message, which is named by its turn or its entry."""
    found = [number for number, entry in enumerate(entries) if _is_message(entry) and to in _names(entry)]
    if not found:
        raise SessionError(f"{to!r} is not a message of the person's in this session")
    kept: dict[str, FileKept] = {}
    for entry in entries[found[-1] :]:
        if isinstance(entry.body, FileKept):
            kept.setdefault(entry.body.path, entry.body)
    return list(kept.values())


def _is_message(entry: Entry) -> bool:
    match entry.body:
        case TurnOpened():
            return True
        case Said(message, turn=""):
            return message.role == "user"
        case _:
            return False


def _names(entry: Entry) -> tuple[str, ...]:
    return (entry.id, entry.body.turn) if isinstance(entry.body, TurnOpened) else (entry.id,)


def _counted(now: bytes, before: bytes) -> tuple[int, int]:
    """Lines that come, and lines that go."""
    from difflib import SequenceMatcher  # 4 ms, and only for those who go back

    old, new = now.splitlines(), before.splitlines()
    steps = [step for step in SequenceMatcher(None, old, new).get_opcodes() if step[0] != "equal"]
    return sum(end - start for *_, start, end in steps), sum(end - start for _, start, end, _, _ in steps)


# Files. A path is a real one: it was resolved when the call was judged.


def _read(path: str) -> _File | None:
    """None if there is none."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # before it is opened: that alone has effects on some devices
            raise _NoFile(path)
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(file, "rb") as stream:
        return _File(stream.read(), stat.S_IMODE(os.fstat(file).st_mode))


def _now(path: str) -> _File | None:
    try:
        return _read(path)
    except (OSError, _NoFile) as error:
        raise SessionError(f"{path} cannot be put back: it is no longer a file that can be read") from error


def _put_back(path: str, before: _File | None) -> None:
    folder = os.path.dirname(path)
    try:
        if before is None:
            return os.unlink(path)
        os.makedirs(folder, exist_ok=True)
        if os.path.realpath(folder) != folder:
            raise SessionError(f"{path} cannot be put back: {folder} leads elsewhere now")
        whole.write(path, (before.data,), before.mode)
    except OSError as error:
        raise SessionError(f"{path} cannot be put back: {error.strerror}") from error
