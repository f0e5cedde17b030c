"""Files with outputs that are too long for the model, beside the log.

The model gets the path and may read the file. A file whose path is not in the log is removed, because no one can know
of it: when the session is closed, or when it is opened again after a crash.
"""

import os
from collections.abc import Callable, Iterable

from polylect.system.plain_files import names_in
from polylect.vocab.content import ToolResult
from polylect.vocab.entries import Body, Entry, MessageAdded, Opened, ShellRan
from polylect.vocab.ports import Store

_FOLDER, _END = "/spill/", ".txt"


class Spills:
    """The long outputs of one session."""

    def __init__(self, folder: str, new_id: Callable[[], str]) -> None:
        self._folder = folder
        self._new_id = new_id
        self._unlogged: set[str] = set()
        """Made by this process, and not yet in the log."""

    def write(self, text: str) -> str:
        """Write an output to a new file and return its path."""
        name = self._new_id() + _END
        path = os.path.join(self._folder, name)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._unlogged.add(name)
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path

    def mark_logged(self, body: Body) -> None:
        """Note the files that an entry of the log names, so that they stay."""
        if self._unlogged:
            self._unlogged -= _named(body)

    def sweep(self, entries: Iterable[Entry]) -> list[str]:
        """Remove the files that these entries do not name. Returns their paths."""
        names = set() if os.path.islink(self._folder) else set(names_in(self._folder))  # not ours, where a link leads
        for entry in entries if names else ():
            names -= _named(entry.body)
        return self._remove(names)

    def close(self) -> None:
        self._remove(self._unlogged)

    def _remove(self, names: Iterable[str]) -> list[str]:
        paths = [os.path.join(self._folder, name) for name in names]
        for path in paths:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        return paths


def spill_folders(store: Store) -> list[str]:
    """The existing folders of long outputs of a session and of the sessions it was forked from."""
    if not store.file:
        return []
    own = os.path.dirname(store.file)
    opened = (entry.body for entry in store.entries if isinstance(entry.body, Opened))
    others = [os.path.join(os.path.dirname(own), os.path.basename(body.parent)) for body in opened if body.parent]
    return [path for place in (own, *others) if os.path.isdir(path := os.path.join(place, "spill"))]


def _named(body: Body) -> set[str]:
    """The file names in an entry; without the folder, which may have been moved."""
    parts = (part for text in _texts(body) if _FOLDER in text for part in text.split(_FOLDER)[1:])
    return {part.partition(_END)[0] + _END for part in parts}


def _texts(body: Body) -> list[str]:
    match body:
        case MessageAdded(message):
            return [block.output for block in message.content if isinstance(block, ToolResult)]
        case ShellRan(result):
            return [result.path]
        case _:
            return []
