"""Which sessions there are. There is no index: looking through a thousand of them takes half a second."""

import os
from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct

from polylect.engine import folder, log
from polylect.engine.folder import FolderError
from polylect.engine.recall import words
from polylect.vocab.entries import Configured, Entry, Opened, Said

Kind = TypeVar("Kind")
_WORDS = 80
_HEAD = 300
"""A line says what it is in its first bytes; the rest of it may be long."""
_SAID, _CONFIGURED = b'"body":{"type":"said"', b'"body":{"type":"configured"'


class Listed(Struct, frozen=True, omit_defaults=True):
    """A session at a glance. `active` is when it was last written, in milliseconds since 1970."""

    session: str
    workspace: str
    active: int
    messages: int
    size: int
    words: str = ""
    """How the person began."""
    name: str = ""
    parent: str = ""
    """The session it was forked from. The messages it took over are not counted."""


def listing(root: str, workspace: str = "") -> list[Listed]:
    """All sessions, or those of a workspace; the most recently active first."""
    found = (glance(root, name) for name in names(root) if not workspace or _workspace(root, name) == workspace)
    return sorted((session for session in found if session), key=lambda session: -session.active)


def strange(root: str) -> list[str]:
    """What stands where a log should be, and is none that could be looked into."""
    logs = (os.path.join(root, name, "log.jsonl") for name in sorted(names(root)))
    return [path for path in logs if folder.is_strange(path)]


def glance(root: str, session: str) -> Listed | None:
    """None if nothing was ever said in it."""
    path = folder.path_of(root, session)
    try:
        file = log.opened(os.path.join(path, "log.jsonl"))
    except OSError:
        return None
    try:
        status = os.fstat(file)
        told = _Told(log.Lines(log.pieces(file)))
    finally:
        os.close(file)
    if not status.st_size:
        return None
    active = status.st_mtime_ns // 1_000_000
    said = (told.messages, status.st_size, told.words, told.name, told.parent)
    return Listed(session, _workspace(root, session), active, *said)


def forks(root: str, session: str) -> list[str]:
    """The sessions that were forked from this one."""
    return [name for name in names(root) if (found := _opened(root, name)) and found.parent == session]


class _Told:
    """What can be said of a log without understanding all of it."""

    def __init__(self, lines: log.Lines) -> None:
        self.messages = 0
        self.words = self.name = self.parent = ""
        for number, line in enumerate(lines):
            if number == 0 and (opened := _body(line, Opened)):
                self.parent = opened.parent
            elif _SAID in line[:_HEAD]:
                self.messages += 1
                if not self.words and (said := _body(line, Said)) and said.message.role == "user":
                    self.words = " ".join(words(said.message)[: 4 * _WORDS].split())[:_WORDS]
            elif _CONFIGURED in line[:_HEAD] and (configured := _body(line, Configured)):
                self.name = str(configured.settings.get("name", self.name))


def _opened(root: str, name: str) -> Opened | None:
    try:
        with open(log.opened(os.path.join(root, name, "log.jsonl")), "rb") as file:
            return _body(file.readline(), Opened)
    except OSError:
        return None


def _body(line: bytes, kind: type[Kind]) -> Kind | None:
    entry = log.entry_of(line)
    return entry.body if isinstance(entry, Entry) and isinstance(entry.body, kind) else None


def names(root: str) -> Iterator[str]:
    """Names that can be sessions: what begins with a dot is being deleted."""
    try:
        found = os.listdir(root)
    except FileNotFoundError:
        return
    for name in found:
        try:
            folder.path_of(root, name)
        except FolderError:
            continue
        yield name


def _workspace(root: str, session: str) -> str:
    return folder.workspace_of(os.path.join(root, session))
