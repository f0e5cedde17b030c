"""Lists sessions: for `polylect sessions`, and for the query `sessions` of hosts.

There is no index to keep in step. Of each log only an outline is decoded: the kinds of entries, their order and roles.
That is enough to count messages as `replay.py` does with the whole log; a test compares the two.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from polylect.sessions import folder, log
from polylect.sessions.folder import FolderError
from polylect.sessions.replay import current, message_text
from polylect.vocab.entries import Configured, Entry, MessageAdded, Opened

Kind = TypeVar("Kind")
_WORDS = 80


class SessionSummary(Struct, frozen=True, omit_defaults=True):
    """One session in a list. `active` is the time of the last write, in milliseconds since 1970."""

    session: str
    workspace: str
    active: int
    messages: int
    size: int
    words: str = ""
    """How the person began."""
    name: str = ""
    parent: str = ""
    """The session it was forked from. The messages it took over are counted."""
    archived: bool = False


def listing(root: str, workspace: str = "") -> list[SessionSummary]:
    """All sessions, or those of one workspace, the most recently active first."""
    summaries = (summarise(root, name) for name in names(root) if not workspace or _workspace(root, name) == workspace)
    return sorted((session for session in summaries if session), key=lambda session: -session.active)


def broken_logs(root: str) -> list[str]:
    """The logs that are not read, each with the reason: `PATH is no file`."""
    logs = (os.path.join(root, name, "log.jsonl") for name in sorted(names(root)))
    return [f"{path} {why}" for path in logs if (why := folder.why_unreadable(path))]


def summarise(root: str, session: str) -> SessionSummary | None:
    """The summary of one session; None if nothing was ever said in it."""
    path = folder.path_of(root, session)
    try:
        file = log.opened(os.path.join(path, "log.jsonl"))
    except OSError:
        return None
    try:
        status = os.fstat(file)
        outline = _LogOutline(log.Lines(log.pieces(file)))
    finally:
        os.close(file)
    if not status.st_size:
        return None
    active = status.st_mtime_ns // 1_000_000
    outlines = [*_inherited(path, outline.outlines), *outline.outlines]
    messages, first = _conversation(outlines)
    columns = (messages, status.st_size, first, outline.name, outline.parent, outline.archived)
    return SessionSummary(session, _workspace(root, session), active, *columns)


def forks(root: str, session: str) -> list[str]:
    """The ids of the sessions that were forked from this one."""
    return [name for name in names(root) if (opened := _opened(root, name)) and opened.parent == session]


class _Block(Struct):
    """A block of a message; only their number matters."""


class _Message(Struct, frozen=True):
    role: str = ""
    content: list[_Block] = []


class _Body(Struct):
    type: str
    turn: str = ""
    message: _Message = _Message()
    parent: str = ""


class _Outline(Struct):
    """An entry without its content, except for the first words of the user."""

    id: str
    parent: str
    body: _Body
    words: str = ""


_decode = msgspec.json.Decoder(_Outline).decode


class _LogOutline:
    """What can be read from a log without decoding all of it."""

    def __init__(self, lines: log.Lines) -> None:
        self.outlines: list[_Outline] = []
        self.name = self.parent = ""
        self.archived = False
        for line in lines:
            try:
                outline = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self.outlines.append(outline)
            if outline.body.type == "opened":
                self.parent = outline.body.parent
            elif outline.body.message.role == "user" and (said := _body(line, MessageAdded)):
                outline.words = " ".join(message_text(said.message)[: 4 * _WORDS].split())[:_WORDS]
            elif outline.body.type == "configured" and (configured := _body(line, Configured)):
                self.name = str(configured.settings.get("name", self.name))
                self.archived = bool(configured.settings.get("archived", self.archived))


def _inherited(path: str, outlines: Sequence[_Outline]) -> list[_Outline]:
    """The entries that a fork shares with the sessions it came from, as far as these still exist."""
    before: list[_Outline] = []
    seen = {path}
    while outlines and (parent := outlines[0].body.parent):
        last, path = outlines[0].parent, os.path.join(os.path.dirname(path), os.path.basename(parent))
        if path in seen:
            break
        seen.add(path)
        try:
            with open(log.opened(os.path.join(path, "log.jsonl")), "rb") as file:
                outlines = _LogOutline(log.Lines(log.pieces(file.fileno()))).outlines
        except OSError:
            break
        end = next((number for number, outline in enumerate(outlines, 1) if outline.id == last), 0)
        before = [*outlines[:end], *before]
    return before


def _conversation(outlines: Sequence[_Outline]) -> tuple[int, str]:
    """The number of messages, and the first words of the user. A prompt counts once its turn has started."""
    messages, first = 0, ""
    waiting: dict[str, _Outline] = {}
    for outline in current(outlines):
        body, said = outline.body, outline
        match body.type:
            case "said" if body.message.role == "user" and body.turn:
                waiting[body.turn] = outline
                continue
            case "turn_opened" if body.turn in waiting:
                said = waiting.pop(body.turn)
            case "turn_closed":
                waiting.pop(body.turn, None)
                continue
            case "opened":
                waiting.clear()
                continue
            case "said" | "shell_ran":
                pass
            case _:
                continue
        messages += bool(said.body.message.content) or body.type == "shell_ran"
        first = first or said.words
    return messages, first


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
    """Names below `root` that can be session ids. Names with a leading dot are sessions being deleted."""
    try:
        entries = os.listdir(root)
    except FileNotFoundError:
        return
    for name in entries:
        try:
            folder.path_of(root, name)
        except FolderError:
            continue
        yield name


def _workspace(root: str, session: str) -> str:
    return folder.workspace_of(os.path.join(root, session))
