"""The stores of a session: a log on disk, or memory only.

Both implement the port `Store`. The log is append-only JSON Lines. A write is complete or taken back, and what a crash
left of the last line is removed when the log is opened, because it was never acknowledged.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from polylect.sessions import log
from polylect.sessions.blobs import Blobs, blob_name
from polylect.sessions.folder import Folder
from polylect.sessions.replay import PARENT, Replay
from polylect.sessions.spills import Spills
from polylect.system.clock_and_ids import now_ms
from polylect.vocab.content import Message
from polylect.vocab.entries import Body, Configured, Entry, MessageAdded, Opened, TurnClosed
from polylect.vocab.errors import SessionError, StorageError
from polylect.vocab.escape import escape_controls
from polylect.vocab.ports import Store
from polylect.vocab.text_size import text_size
from polylect.wire import jsonl

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter
_log = logging.getLogger(__name__)


class FileStore:
    """The log of a locked folder. The file stays empty until the first message.

    `cwd` is the workspace. `parent` is a host's own name for the session this one continues; nothing is shared with it.
    """

    def __init__(self, folder: Folder, *, cwd: str, new_id: Callable[[], str], parent: str = "") -> None:
        self.session = folder.session
        self._folder = folder
        self._cwd = cwd
        self._parent = parent
        self._new_id = new_id
        self._file = _open(folder)
        self._unsynced = False
        self._spills = Spills(os.path.join(folder.path, "spill"), new_id)
        try:
            self._load()
        except BaseException:
            os.close(self._file)
            folder.close()
            raise

    def _load(self) -> None:
        session_log = log.read(self._file)
        if why := log.unusable(session_log):
            raise SessionError(f"Session '{self.session}' cannot be gone on with: {why}")
        self._mend(session_log)
        before, folders = log.ancestry(self._folder.path, session_log.first)
        self._blobs = Blobs([os.path.join(path, "blobs") for path in (self._folder.path, *folders)])
        self.entries: list[Entry] = before + session_log.entries
        self.damaged = len(session_log.faults)
        self._last = session_log.entries[-1].id if session_log.entries else ""
        if session_log.faults or (session_log.torn and not session_log.entries):
            message = (
                "session %s: %d lines of its log cannot be read and are left out. Try: polylect sessions repair %s"
            )
            _log.warning(message, self.session, len(session_log.faults) or 1, self.session)
        else:  # what is named by a line that we cannot read has to stay
            self._blobs.sweep(session_log.entries)
            self._spills.sweep(session_log.entries)
        match session_log.first:
            case Entry(body=Opened(cwd=cwd)) if cwd != self._cwd:
                cwds = escape_controls(cwd), escape_controls(self._cwd)  # `polylect sessions` prints it as it is
                _log.warning("session %s was about %s and goes on in %s", self.session, *cwds)

    def _mend(self, session_log: log.Log) -> None:
        """Remove an incomplete last line; it was never acknowledged. If only its newline is missing, add that."""
        if isinstance(last := log.entry_of(session_log.torn), Entry):
            self._write(b"\n")
            session_log.entries.append(last)
        elif session_log.torn:
            os.ftruncate(self._file, session_log.size)

    # Writing.

    def append(self, *bodies: Body) -> None:
        now = now_ms()
        self.append_at([(now, body) for body in bodies])

    def append_at(self, bodies: Sequence[tuple[int, Body]]) -> None:
        """Append bodies with their times, in milliseconds since 1970: for imports."""
        self._check_log_exists()
        if not self._last and bodies:
            bodies = [*((bodies[0][0], body) for body in self._opening()), *bodies]
        last, added = self._last, []
        for at, body in bodies:
            added.append(Entry(self._new_id(), last, at, self._stored(body)))
            last = added[-1].id
        self._write(b"".join(map(jsonl.dump, added)))
        for entry in added:
            self._spills.mark_logged(entry.body)
        self.entries += added
        self._last = last

    def _opening(self) -> Iterator[Body]:
        yield Opened(self.session, self._cwd)
        if self._parent:
            yield Configured({PARENT: self._parent})

    def fork(self, parent: str, entry: str) -> None:
        """Start as a fork: everything up to this entry of another session is read from there. Raises SessionError."""
        assert not self._last, "a session is forked before anything is said in it"
        opened = Entry(self._new_id(), entry, now_ms(), Opened(self.session, self._cwd, parent=parent))
        log.ancestry(self._folder.path, opened)
        self._write(jsonl.dump(opened))
        self._load()

    def go_back(self, entry: str) -> None:
        """Append after this earlier entry from now on. What came after it stays in the log as a branch."""
        self._last = entry
        self.append(Configured({}))
        self.append(*(TurnClosed(turn, "cancelled") for turn in Replay(self.entries).waiting))

    def _stored(self, body: Body) -> Body:
        if not isinstance(body, MessageAdded):
            return body
        try:
            message = self._blobs.store_images(body.message)
        except OSError as error:
            raise StorageError(f"cannot keep a picture beside {self._folder.log}: {error.strerror}") from error
        return body if message is body.message else replace(body, message=message)

    def _check_log_exists(self) -> None:
        """Raise SessionError if the log was deleted: the system would accept writes and lose them."""
        if not os.fstat(self._file).st_nlink:
            message = f"the session log {self._folder.log} was deleted, so nothing more can be kept in it"
            raise SessionError(f"{message}. Go on in another session")

    def _write(self, data: bytes) -> None:
        """Write all of it or nothing: what a full disk left is truncated."""
        before = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, before)
            raise StorageError(f"cannot write the session log {self._folder.log}: {error.strerror}") from error
        self._unsynced = True

    def sync(self) -> None:
        if self._unsynced:
            self._unsynced = False
            self._blobs.sync()
            _sync(self._file)

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    # Beside the log.

    @property
    def file(self) -> str:
        return self._folder.log

    def fill(self, message: Message) -> Message:
        """The message with its images loaded."""
        return self._blobs.fill(message)

    def store_blob(self, data: bytes) -> str:
        """Store bytes beside the log and return their name. Raises StorageError."""
        self._check_log_exists()
        try:
            return self._blobs.store(data)
        except OSError as error:
            raise StorageError(f"cannot keep a file beside {self._folder.log}: {error.strerror}") from error

    def get_blob(self, blob: str) -> bytes | None:
        return self._blobs.find(blob)

    def spill(self, text: str) -> str:
        return self._spills.write(text)

    def close(self) -> None:
        status = os.fstat(self._file)
        os.close(self._file)
        self._spills.close()
        self._folder.close(discard=status.st_size == 0 and status.st_nlink > 0)  # not: has no readable entries


def _open(folder: Folder) -> int:
    try:
        return os.open(folder.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        folder.close(discard=not os.path.exists(folder.log))
        raise SessionError(f"cannot open the session log {folder.log}: {error.strerror}") from error


class MemoryStore:
    """A session that is not kept.

    Long outputs go below `folder`, or to a temporary folder. Those of a sub-agent go to the store `beside`.
    """

    file = ""

    def __init__(self, folder: str, session: str = "", *, beside: Store | None = None) -> None:
        self.session = session
        self._beside = beside
        self.entries: list[Entry] = []
        self.size = 0
        self._folder = folder
        self._spilled = ""
        self._blobs: dict[str, bytes] = {}

    def append(self, *bodies: Body) -> None:
        now = now_ms()
        for body in bodies:
            last = self.entries[-1].id if self.entries else ""
            self.entries.append(Entry(str(len(self.entries) + 1), last, now, body))
            self.size += text_size(body)

    def fill(self, message: Message) -> Message:
        return message

    def store_blob(self, data: bytes) -> str:
        name = blob_name(data)
        self._blobs[name] = data
        return name

    def get_blob(self, blob: str) -> bytes | None:
        return self._blobs.get(blob)

    def sync(self) -> None:
        pass

    def spill(self, text: str) -> str:
        if self._beside:
            return self._beside.spill(text)
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
