"""Reads and replaces regular files: never blocks on a pipe or device, never leaves half a file, loses no change (P3).

New content is written to a draft, which then takes the place of the file in one step. A `Stamp` tells whether somebody
else changed the file since the conversation read it: then nothing is written.

The worker uses this for files that it can reach, the engine for approved files that the worker cannot. Only the
standard library is imported, because importing more would slow down the start of a worker.
"""

import os
import stat
import sys
from _collections_abc import Iterator, Sequence

from polylect.system.bare_contextlib import contextmanager, suppress
from polylect.system.plain_files import opened_parent
from polylect.vocab.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

MOST_EDITED = 32 * 1024 * 1024
"""Bytes of a file that may be held in memory to be changed."""

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access", "security.selinux")
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
_OWN_FILES = "/proc/self/fd"
"""The path by which a file without a name gets one."""
_NOT_REGULAR = (
    (stat.S_ISDIR, "is a folder: use Glob to see what is in it"),
    (stat.S_ISLNK, "is a symlink that leads nowhere or changed while it was followed"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)


class Stamp(tuple[int, int]):
    """Identifies one state of a file: modification time and size, and the change time, which no program can set."""

    def __new__(cls, status: os.stat_result) -> "Self":
        return cls.unpacked(
            (
                *(status.st_mtime_ns, status.st_size, status.st_ctime_ns),
                *(status.st_mode, status.st_uid, status.st_gid, status.st_nlink),
            )
        )

    @classmethod
    def unpacked(cls, values: Sequence[int]) -> "Self":
        """From the list that `packed` gave. Time and size alone are enough."""
        stamp = super().__new__(cls, values[:2])
        stamp.packed = list(values)
        return stamp

    packed: list[int]
    """Modification time, size, change time, mode, owner, group, number of links."""

    def is_of(self, now: os.stat_result) -> bool:
        """Whether this is still the state of the file. New rights, owner or links alter the change time but not the
        text."""
        later = Stamp(now)
        if self != later or len(self.packed) == 2:
            return self == later
        return self.packed[2] == later.packed[2] or self.packed[3:] != later.packed[3:]


def regular(path: str, status: os.stat_result) -> os.stat_result:
    for is_kind, reason in _NOT_REGULAR:
        if is_kind(status.st_mode):
            raise ToolError(f"{path} {reason}")
    return status


@contextmanager
def opened_file(path: str, real: str) -> Iterator[int]:
    """A descriptor of a regular file, for reading. `path` is the argument of the model, for messages."""
    with opened_parent(real) as (folder, name):
        # Checked before, because opening some devices has effects, and after, because it may have been replaced.
        regular(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        regular(path, os.fstat(file))
        yield file
    finally:
        os.close(file)


def read_for_change(path: str, file: int) -> tuple[bytes, os.stat_result]:
    """The content and the status of a file that is to be changed. Raises ToolError if it is too large."""
    status = os.fstat(file)
    if status.st_size > MOST_EDITED:
        raise ToolError(f"{path} is too large to change this way ({status.st_size} bytes): use Bash")
    with open(file, "rb", closefd=False) as stream:
        return stream.read(), status


def refuse_if_changed(path: str, status: os.stat_result, known: Stamp | None) -> None:
    """Raises ToolError if the file has changed since this conversation read it."""
    if known is not None and not known.is_of(status):
        raise ToolError(f"{path} has changed since it was read. Read it again before changing it.")


def replace(path: str, real: str, data: bytes, before: Stamp | None) -> Stamp:
    """Replace the state `before` of a file (None: there is none) by `data`, whole or not at all. Returns the new
    stamp."""
    with opened_parent(real, make=True) as (folder, name), Draft(folder) as draft:
        file = draft.file
        with open(file, "wb", closefd=False) as stream:
            stream.write(data)
        if before:
            _copy_attributes(file, name, folder)
            _copy_rights(file, before)
        os.fsync(file)
        written = Stamp(os.fstat(file))
        if not _is_unchanged(before, name, folder) or not draft.publish(name, new=before is None):
            raise ToolError(f"{path} was changed by someone else just now. Read it again before changing it.")
        named = Stamp(os.fstat(file))  # giving it a name has altered the change time
    return named if named == written else written


class Draft:
    """New content before it replaces a file. Where the system supports it, the draft has no name, so a kill leaves
    nothing."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._name = ""
        if _NAMELESS and os.path.isdir(_OWN_FILES):
            with suppress(OSError):  # not on every file system
                self.file = os.open(".", _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
                return
        self._name = _draft_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.file = os.open(self._name, flags, 0o666, dir_fd=folder)

    def __enter__(self) -> "Self":
        return self

    def publish(self, name: str, *, new: bool) -> bool:
        """Give the draft this name, replacing a file. With `new`, False if there is a file of that name already."""
        if not self._name:
            first = name if new else _draft_name()
            try:
                os.link(f"{_OWN_FILES}/{self.file}", first, dst_dir_fd=self._folder)
            except FileExistsError:
                return False
            if new:
                return True
            self._name = first
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = ""
        return True

    def __exit__(self, *raised: object) -> None:
        os.close(self.file)
        if self._name:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)


def _draft_name() -> str:
    return f".polylect-{os.urandom(6).hex()}.tmp"


def _copy_rights(file: int, before: Stamp) -> None:
    mode, owner, group = before.packed[3:6]
    with suppress(PermissionError):  # only root can change the owner
        os.fchown(file, owner, group)
    os.fchmod(file, stat.S_IMODE(mode))


def _copy_attributes(file: int, name: str, folder: int) -> None:
    """Copy extended attributes, as far as the system permits. Capabilities are not copied: they were for the old
    content."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            for key in os.listxattr(old):
                if key.startswith(_KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(file, key, os.getxattr(old, key))
        finally:
            os.close(old)


def _is_unchanged(before: Stamp | None, name: str, folder: int) -> bool:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return before is None
    return before is not None and before.is_of(now)
