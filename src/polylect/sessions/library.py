"""The sessions of one sessions folder: creating, resuming, forking, listing, importing and exporting them.

`FileLibrary` is the engine's port `Library`. It turns errors of folders and files into SessionError.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from polylect.sessions import folder, log
from polylect.sessions.folder import Folder, FolderError
from polylect.sessions.replay import Replay, is_typed_message
from polylect.sessions.store import FileStore
from polylect.vocab.answers import SessionCard
from polylect.vocab.entries import Entry, Opened
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Store

_log = logging.getLogger(__name__)


class FileLibrary:
    """The sessions below `root`. New ones, and those taken over, are about `workspace`."""

    def __init__(
        self, root: str, workspace: str, new_id: Callable[[], str], name: Callable[[], str] = folder.new_id
    ) -> None:
        self._root = root
        self._workspace = workspace
        self._new_id = new_id
        self._name = name
        """What a new session is called."""

    def within(self, root: str) -> "FileLibrary":
        return FileLibrary(root, self._workspace, self._new_id, self._name)

    def create(self, parent: str = "") -> FileStore:
        place = _locked_folder(folder.create, self._root, self._name(), self._workspace)
        return self._store(place, parent)

    def resume(self, target: str) -> FileStore:
        if not target:
            raise SessionError("which session? Name its id, or the path of its file")
        path = os.path.join(self._workspace, os.path.expanduser(target))
        known = os.sep not in target and os.path.exists(os.path.join(self._root, target))
        if known or target == "latest" or not os.path.lexists(path):
            if os.sep in target:
                raise SessionError(f"there is no session file {target}")
            return self._store(_locked_folder(folder.resume, self._root, target, self._workspace))
        if place := _session_folder(path, self._root):
            return self._store(_locked_folder(folder.resume, *os.path.split(place), self._workspace))
        return self._import_file(path)

    def bytes_to_read(self, target: str) -> int:
        """Bytes that would be read to resume it; none if there is nothing to resume."""
        path = os.path.join(self._workspace, os.path.expanduser(target))
        try:
            if os.sep not in target and (target == "latest" or os.path.exists(os.path.join(self._root, target))):
                return folder.bytes_to_read(self._root, folder.find_session(self._root, target, self._workspace))
            place = _session_folder(path, self._root)
            return folder.bytes_to_read(*os.path.split(place)) if place else os.path.getsize(path)
        except (OSError, FolderError):
            return 0

    def fork(self, store: Store, at: str = "") -> FileStore:
        if not store.entries and not at:
            return self.create()
        parent, entry = fork_place(store.session, store.entries, at)
        fork = self.create()
        try:
            fork.fork(parent, entry)
        except BaseException:
            fork.close()
            raise
        return fork

    def sessions(self, cwd: str = "") -> Sequence[SessionCard]:
        from polylect.sessions import catalogue  # only where sessions are listed

        return [
            SessionCard(
                summary.session,
                summary.workspace,
                summary.name,
                summary.active,
                summary.messages,
                summary.words,
                summary.archived,
            )
            for summary in catalogue.listing(self._root, os.path.realpath(cwd) if cwd else "")
        ]

    def export(self, store: Store, path: str) -> str:
        # 10 ms, and only for those who export.
        from polylect.sessions.formats import html_page, json_document, markdown, omp
        from polylect.sessions.formats.conversation import conversation_of

        forms = {".html": html_page.pieces, ".md": markdown.pieces, ".json": json_document.pieces, ".jsonl": omp.pieces}
        path = path or f"polylect-session-{store.session}.html"
        if "\0" in path:
            raise SessionError(f"{path!r} is no path: it holds a NUL")
        place = os.path.join(self._workspace, os.path.expanduser(path))
        export = forms.get(os.path.splitext(place)[1].lower())
        if export is None:
            raise SessionError(f"{path}: the ending says what to write; endings are {', '.join(forms)}")
        try:
            write_out(self._root, place, export(conversation_of(store, self._workspace)))
        except OSError as error:
            raise SessionError(f"cannot write {path}: {error.strerror}") from error
        return path

    def _import_file(self, path: str) -> FileStore:
        """Another program's conversation becomes a new session here. Its file is only read."""
        from polylect.sessions.formats import detect  # 15 ms, and only for those who come from elsewhere
        from polylect.sessions.formats.conversation import WrongFormat

        try:
            if why := folder.why_unreadable(path):
                raise SessionError(f"{path} is not a session file: it {why}")
            imported = detect.read(path)
        except WrongFormat as error:
            raise SessionError(str(error)) from None
        except OSError as error:
            raise SessionError(f"cannot read {path}: {error.strerror}") from error
        for note in imported.notes:
            _log.warning("%s: %s", path, note)
        store = self.create()
        try:
            store.append_at(imported.bodies)
            store.sync()
        except BaseException:
            store.close()
            raise
        return store

    def _store(self, place: Folder, parent: str = "") -> FileStore:
        return FileStore(place, cwd=self._workspace, new_id=self._new_id, parent=parent)


def write_out(root: str, path: str, pieces: Iterable[bytes]) -> None:
    """Write an export to a file outside of all sessions, atomically. Raises SessionError or OSError."""
    place = os.path.realpath(path)
    if place.startswith(os.path.realpath(root) + os.sep) or _session_folder(place, root):
        raise SessionError(f"{path}: what is there belongs to a session")
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        return _write_atomically(place, pieces)
    if not stat.S_ISREG(mode):  # a pipe would keep us waiting for good
        raise SessionError(f"{path}: what is there is no file that can be written anew")
    _write_atomically(place, pieces, stat.S_IMODE(mode))


def _write_atomically(path: str, pieces: Iterable[bytes], mode: int | None = None) -> None:
    """Replace the file at `path` by these pieces: a crash leaves the old content or the new one, never a mixture.

    `mode` is for the new file; None for the default. Raises OSError with the name of the file; then the old content is
    still there.
    """
    draft = os.path.join(os.path.dirname(path), f".polylect-{os.urandom(6).hex()}.tmp")
    try:
        with open(draft, "xb") as file:
            file.writelines(pieces)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException as error:
        with suppress(OSError):  # it was never made, or the folder is read-only
            os.unlink(draft)
        if isinstance(error, OSError):
            error.filename = path  # nobody has heard of the draft
        raise


def read_log(root: str, session: str) -> log.Log:
    """The log of a session. Raises SessionError if there is none."""
    try:
        return log.read_path(os.path.join(folder.path_of(root, session), "log.jsonl"))
    except FileNotFoundError:
        raise SessionError(f"Session '{session}' not found in {root}. See polylect sessions") from None


def stored_fork_place(root: str, session: str, at: str = "") -> tuple[str, str]:
    """Where a session that is not open is forked; see `fork_place`."""
    session_log = read_log(root, session)
    if why := log.unusable(session_log):
        raise SessionError(f"Session '{session}' cannot be forked: {why}")
    before, _ = log.ancestry(folder.path_of(root, session), session_log.first)
    return fork_place(session, before + session_log.entries, at)


def fork_place(session: str, entries: Sequence[Entry], at: str) -> tuple[str, str]:
    """Where a fork branches off: the session, which may be an ancestor, and the id of its last shared entry.

    `at` is the id of the message that the fork leaves out; empty for the end. Raises SessionError.
    """
    end = len(entries)
    if at:
        replay = Replay(entries)
        marks = zip(replay.messages, replay.marks, strict=True)
        if not any(entry and entry.id == at and is_typed_message(entry, message) for message, entry in marks):
            raise SessionError(f"{at!r} is not a message of the person's in session {session!r}")
        end = next(number for number, entry in enumerate(entries) if entry.id == at)
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        if number < end:
            return session, entry.id
        if isinstance(entry.body, Opened) and entry.body.parent:
            session = entry.body.parent
    raise SessionError(f"the beginning of session {session!r} is damaged. Try: polylect sessions repair {session}")


def _session_folder(path: str, root: str) -> str:
    """The session folder that this path names, by itself or by its log; empty if it names none."""
    path = os.path.realpath(path)
    place = path if os.path.isdir(path) else os.path.dirname(path)
    file = os.path.join(place, "log.jsonl")
    if path not in (place, file) or not os.path.isfile(file):
        return ""
    if os.path.dirname(place) == os.path.realpath(root):
        return place
    try:
        with open(file, "rb") as stream:
            return place if log.entry_of(stream.readline(log.MAX_LINE)) else ""
    except OSError:
        return ""


def _locked_folder(get: Callable[[str, str, str], Folder], root: str, session: str, workspace: str) -> Folder:
    try:
        return get(root, session, workspace)
    except FolderError as error:
        raise SessionError(str(error)) from None
