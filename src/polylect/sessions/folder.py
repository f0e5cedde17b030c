"""Where sessions live on disk: finding, creating and locking the folder of a session.

    <home>/sessions/<id>/log.jsonl   the conversation, append-only
                         workspace   the folder it is about
                         lock        held by the one process that writes
                         spill/      output too long for the model
                         blobs/      images and checkpointed files, named by their hash

Only one process may write to a session; the lock enforces it. Start-up uses this module before `ready`, so it imports
almost nothing.
"""

import fcntl
import os
import stat
from _json import make_scanner  # all of `json` that is needed here, and loaded anyway

VERSION = 1
"""Of the logs that can be gone on with: that of vocab.entries, which would be too much to import here."""
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_MAX_ID = 128
_SET_HOME = "Set POLYLECT_HOME to a folder you can write"


LONG = 4 * 1024 * 1024
"""Bytes of logs from which on reading them takes so long that others should be heard meanwhile: 50 ms and more."""
_MAX_LOG = 1024 * 1024 * 1024
"""Bytes of a log that is read: four times what a session may have."""
_FIRST = 64 * 1024
"""Bytes in which the first line of a log ends."""


class FolderError(Exception):
    """The session cannot be used. The text says why and what to do."""


class NoSuchSession(FolderError):
    """There is no session of this id."""


class SessionExists(FolderError):
    """A new session cannot have this id, because it is taken."""


class SessionInUse(FolderError):
    """The session is open already; `holder` is the process that has it, as it has written its number."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


class Folder:
    """The folder of a session, locked for this process until `close`."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.session = os.path.basename(path)
        self._lock = lock

    @property
    def log(self) -> str:
        return os.path.join(self.path, "log.jsonl")

    def close(self, *, discard: bool = False) -> None:
        """Release the lock; with `discard`, remove a folder in which nothing was ever said."""
        if discard:
            for name in ("log.jsonl", "workspace", "lock"):
                _remove(os.path.join(self.path, name))
            for name in ("spill", "blobs", ""):
                try:
                    os.rmdir(os.path.join(self.path, name))
                except OSError:
                    pass  # it was never made, or something was kept here after all
        os.close(self._lock)


def sessions_root(env: dict[str, str]) -> str:
    """The folder of all sessions: POLYLECT_HOME, or the XDG state folder."""
    home = env.get("POLYLECT_HOME")
    if not home:
        state = env.get("XDG_STATE_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local", "state")
        home = os.path.join(state, "polylect")
    return os.path.join(os.path.abspath(home), "sessions")


def new_id() -> str:
    return os.urandom(6).hex()


def create(root: str, session: str, workspace: str) -> Folder:
    """Create and lock the folder of a new session. Raises FolderError, also if the id is in use."""
    path = path_of(root, session)
    folder = None
    while folder is None:  # whoever had it before may be removing it just now
        try:
            for place in (os.path.dirname(root), root, path):  # `makedirs` would make all but the last for everybody
                os.makedirs(place, mode=0o700, exist_ok=True)
        except OSError as error:
            raise FolderError(f"cannot make the session folder {path}: {error.strerror}. {_SET_HOME}") from None
        folder = _lock(path)
    about = os.path.join(path, "workspace")
    for file_path in (folder.log, about):
        if why := why_unreadable(file_path):
            folder.close()
            raise FolderError(f"{file_path} {why}, so no session can be kept there")
    if _has_content(folder.log):
        folder.close()
        raise SessionExists(f"Session ID '{session}' already exists. Use --resume {session} to go on with it")
    try:
        with open(about, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(workspace)
    except OSError as error:
        folder.close(discard=True)
        raise FolderError(f"cannot write to the session folder {path}: {error.strerror}") from None
    return folder


def find_session(root: str, session: str, workspace: str) -> str:
    """The id of an existing session; `latest` is the most recently active one of this workspace. Raises FolderError."""
    if session == "latest":
        session = _latest(root, workspace)
    try:
        log = os.path.join(path_of(root, session), "log.jsonl")
    except FolderError as error:
        raise NoSuchSession(str(error)) from None
    if why := why_unreadable(log):
        raise FolderError(f"{log} {why}, so there is no session to go on with")
    if not _has_content(log):
        raise NoSuchSession(f"Session '{session}' not found in {root}. `polylect sessions` lists them")
    return session


def resume(root: str, session: str, workspace: str) -> Folder:
    """Lock the folder of an existing session. Raises FolderError."""
    session = find_session(root, session, workspace)
    folder = _lock(path_of(root, session))
    if folder is None:
        raise NoSuchSession(f"Session '{session}' not found in {root}. `polylect sessions` lists them")
    try:
        os.close(os.open(folder.log, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        folder.close()
        raise FolderError(f"cannot open the session log {folder.log}: {error.strerror}") from None
    return folder


def is_held(root: str, session: str, *, by: int) -> bool:
    """Whether the process `by` has this session open."""
    try:
        resume(root, session, "").close()
    except SessionInUse as error:
        return error.holder == str(by)
    except FolderError:
        pass
    return False


def check_resumable(root: str, session: str) -> None:
    """Raise FolderError if the session cannot be resumed, as far as the first lines of the logs show.

    Only a log with a damaged first line is read to its end.
    """
    message = f"Session '{session}' cannot be gone on with"
    opened, seen = _opened(path_of(root, session)), {session}
    if isinstance(version := opened.get("version"), int) and version > VERSION:
        raise FolderError(f"{message}: {written_later(version)}")
    if not isinstance(opened.get("session"), str) or not isinstance(opened.get("cwd"), str):
        from polylect.sessions.log import read_path, unusable  # 40 ms, and only for such a log

        if why := unusable(read_path(os.path.join(path_of(root, session), "log.jsonl"))):
            raise FolderError(f"{message}: {why}")
    while isinstance(parent := opened.get("parent"), str) and parent and parent not in seen:
        path = os.path.join(root, os.path.basename(parent))
        if not _has_content(os.path.join(path, "log.jsonl")):
            raise FolderError(f"{message}: {parent_missing(parent)}")
        seen.add(parent)
        opened = _opened(path)


def bytes_to_read(root: str, session: str) -> int:
    """Bytes to read for resuming a session: its log and those of the sessions it came from."""
    total, seen = 0, {""}
    while session not in seen:
        seen.add(session)
        path = os.path.join(root, os.path.basename(session))
        try:
            total += os.stat(os.path.join(path, "log.jsonl")).st_size
        except OSError:
            pass  # whoever reads it will see
        session = str(_opened(path).get("parent") or "")
    return total


def check_resumable_path(path: str) -> None:
    """Like `check_resumable`, for a session that is named by a path, which may be another program's file."""
    place = path if os.path.isdir(path) else os.path.dirname(path)
    log = os.path.join(place, "log.jsonl")
    if path in (place, log) and os.path.isfile(log):
        return check_resumable(*os.path.split(place))
    if not os.path.isfile(path):
        raise FolderError(f"{path} is no session file: it is no file at all")
    lines = _beginning(path).split(b"\n")
    if os.path.getsize(path) <= _FIRST and not any(isinstance(_value(line), dict) for line in lines):
        raise FolderError(f"{path} is no session file: none of its lines is an object in JSON. Nothing was changed")


def written_later(version: int) -> str:
    message = f"it was written by a later polylect (its log has version {version}, this one knows {VERSION})"
    return f"{message}. Update polylect; until then `polylect sessions export` reads what can be read"


def parent_missing(parent: str) -> str:
    return f"it was forked from session {parent!r}, which is no longer there"


class _JsonDefaults:
    """The options of the JSON scanner of the standard library, with their default values."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _opened(path: str) -> dict[str, object]:
    """The body of the log's first entry; empty if it is damaged."""
    entry = _value(_beginning(os.path.join(path, "log.jsonl")).partition(b"\n")[0])
    body = entry.get("body") if isinstance(entry, dict) else None
    return body if isinstance(body, dict) and body.get("type") == "opened" else {}


def _beginning(path: str) -> bytes:
    """The first bytes of a regular file; nothing if there is none. A pipe is not waited for."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb", buffering=0) as file:
            return file.read(_FIRST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _value(line: bytes) -> object:
    try:
        value: object = make_scanner(_JsonDefaults())(line.decode().lstrip("\ufeff \t\r"), 0)[0]  # type: ignore[arg-type]
    except (ValueError, StopIteration, RecursionError, SystemError):  # the last where json's own error is not loaded
        return None
    return value


def is_id(session: str) -> bool:
    """Whether a session can have this id."""
    return 0 < len(session) <= _MAX_ID and _SAFE.issuperset(session) and not session.startswith(".")


def path_of(root: str, session: str) -> str:
    """The folder of a session. Raises FolderError for an id that could lead elsewhere."""
    if not is_id(session):
        raise FolderError(
            f"bad session id {session!r}: use 1 to {_MAX_ID} letters, digits, '-', '_' or '.', not starting with '.'"
        )
    return os.path.join(root, session)


def _lock(path: str) -> Folder | None:
    """Lock the folder; None if it was removed meanwhile."""
    lock = os.path.join(path, "lock")
    if os.path.islink(path):
        raise FolderError(f"the session folder {path} is a link; sessions are kept where they are")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(f"cannot lock the session folder {path}: {error.strerror}. {_SET_HOME}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        process = f"process {holder}" if holder else "another process"  # one that has just begun it
        raise SessionInUse(
            f"Session '{os.path.basename(path)}' is in use by {process}. End that one, or start another session", holder
        ) from None
    try:
        held = os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except FileNotFoundError:
        held = False
    if not held:  # of a file that is gone
        os.close(descriptor)
        return None
    try:
        os.ftruncate(descriptor, os.write(descriptor, b"%d\n" % os.getpid()))  # it is never empty again
    except OSError as error:
        Folder(path, descriptor).close(discard=not _has_content(os.path.join(path, "log.jsonl")))
        raise FolderError(f"cannot lock the session folder {path}: {error.strerror}. {_SET_HOME}") from None
    return Folder(path, descriptor)


def _latest(root: str, workspace: str) -> str:
    candidates: list[tuple[float, str]] = []
    try:
        names = os.listdir(root)
    except OSError:
        names = []
    for name in names:
        log = os.path.join(root, name, "log.jsonl")
        if _has_content(log) and workspace_of(os.path.join(root, name)) == workspace:
            candidates.append((os.stat(log).st_mtime_ns, name))
    if not candidates:
        raise NoSuchSession(f"No sessions found for {workspace}. Start one without --resume")
    return max(candidates)[1]


def workspace_of(path: str) -> str:
    """The workspace of the session in this folder; empty if its file cannot be read."""
    return _beginning(os.path.join(path, "workspace")).decode("utf-8", "surrogateescape")


def why_unreadable(log: str) -> str:
    """Why a log that exists is not read: no file (a reader would wait for a pipe for good), or too large. Else empty.

    A sparse file of any size takes no room on the disk, but minutes to read.
    """
    try:
        status = os.stat(log)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "is no file"
    return f"is larger than {_MAX_LOG} bytes" if status.st_size > _MAX_LOG else ""


def _has_content(log: str) -> bool:
    try:
        return os.stat(log).st_size > 0 and os.path.isfile(log)
    except OSError:
        return False


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
