"""Checkpoints: the content of files before calls change them, and restoring it.

Before a call changes files, `engine/turn/calls.py` saves them here; the command `Rewind` restores them. Paths are the
real paths that were judged with the call. The `Worker` reads and writes the files and follows no link on the way, so a
folder that was replaced by a link since then is refused.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from polylect.vocab.answers import Rewound
from polylect.vocab.entries import Entry, FileSaved, MessageAdded, TurnOpened
from polylect.vocab.errors import SessionError, ToolError
from polylect.vocab.ports import FileState, Store


@runtime_checkable
class BlobStore(Protocol):
    """A store that can also keep the content of files."""

    def store_blob(self, data: bytes) -> str:
        """Store these bytes and return their name."""
        ...

    def get_blob(self, blob: str) -> bytes | None: ...


class Files(Protocol):
    """Reads and restores files; a `Worker` does."""

    async def file_state(self, path: str) -> FileState | None: ...

    async def restore(self, path: str, state: FileState | None) -> None: ...

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]: ...


class Checkpoints:
    """The checkpointed files of one session: each as it was before its first change after a message."""

    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self._files = files

    async def save(self, turn: str, paths: Iterable[str]) -> None:
        """Save these files before they are changed. Raises ToolError, so that the change does not happen."""
        if not isinstance(self._store, BlobStore):
            return
        for path in paths:
            if _saved_already(path, self._store.entries):
                continue
            try:
                state = await self._files.file_state(path)
            except ToolError:
                continue  # a folder, a pipe, a device: the call will not change it
            except OSError as error:
                raise _unsaved(path, error) from error
            try:
                blob = self._store.store_blob(state.data) if state else ""
                self._store.append(FileSaved(turn, path, blob, state.mode if state else 0))
            except (OSError, SessionError) as error:
                raise _unsaved(path, error) from error

    async def rewind(self, to: str, *, dry_run: bool) -> Rewound:
        """Restore every file to its content before this message; with `dry_run` only say which.

        `to` is the id of a turn or of an entry. Raises SessionError.
        """
        changed: list[tuple[str, FileState | None]] = []
        come = go = 0
        for saved in _after(to, self._store.entries):
            before, now = self._content(saved), await self._current_state(saved.path)
            if before != now:
                changed.append((saved.path, before))
                lines = await self._files.count_changes(now.data if now else b"", before.data if before else b"")
                come, go = come + lines[0], go + lines[1]
        if not dry_run:
            for path, before in changed:
                await self._restore(path, before)
        return Rewound(tuple(path for path, _ in changed), come, go)

    def _content(self, saved: FileSaved) -> FileState | None:
        if not saved.blob:
            return None
        data = self._store.get_blob(saved.blob) if isinstance(self._store, BlobStore) else None
        if data is None:
            raise SessionError(f"what {saved.path} was is no longer there")
        return FileState(data, saved.mode)

    async def _current_state(self, path: str) -> FileState | None:
        try:
            return await self._files.file_state(path)
        except (OSError, ToolError) as error:
            raise SessionError(f"{path} cannot be put back: {_reason(error)}") from error

    async def _restore(self, path: str, before: FileState | None) -> None:
        try:
            await self._files.restore(path, before)
        except (OSError, ToolError) as error:
            raise SessionError(f"{path} cannot be put back: {_reason(error)}") from error


def _unsaved(path: str, error: Exception) -> ToolError:
    return ToolError(f"{path} could not be kept as it is, so it was not changed: {error}")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _saved_already(path: str, entries: Sequence[Entry]) -> bool:
    """Whether this file was saved since the last message."""
    for entry in reversed(entries):
        match entry.body:
            case FileSaved(path=saved_path) if saved_path == path:
                return True
            case _ if _is_message(entry):
                return False
    return False


def _after(to: str, entries: Sequence[Entry]) -> list[FileSaved]:
    """For each file its first saved state after this message."""
    numbers = [number for number, entry in enumerate(entries) if _is_message(entry) and to in _names(entry)]
    if not numbers:
        raise SessionError(f"{to!r} is not a message of the person's in this session")
    first_states: dict[str, FileSaved] = {}
    for entry in entries[numbers[-1] :]:
        if isinstance(entry.body, FileSaved):
            first_states.setdefault(entry.body.path, entry.body)
    return list(first_states.values())


def _is_message(entry: Entry) -> bool:
    match entry.body:
        case TurnOpened():
            return True
        case MessageAdded(message, turn=""):
            return message.role == "user"
        case _:
            return False


def _names(entry: Entry) -> tuple[str, ...]:
    return (entry.id, entry.body.turn) if isinstance(entry.body, TurnOpened) else (entry.id,)
