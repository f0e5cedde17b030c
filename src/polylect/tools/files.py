"""Reading and replacing regular files without surprises: no blocking, no half-written file, no lost change (P3)."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from polylect.tools.paths import opened_parent
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext

MOST_EDITED = 32 * 1024 * 1024
"""Bytes of a file that may be held in memory to be changed."""

_KINDS = (
    (stat.S_ISDIR, "is a folder: use Glob to see what is in it"),
    (stat.S_ISLNK, "is a symlink that leads nowhere or changed while it was followed"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)


def stamp(status: os.stat_result) -> tuple[int, int]:
    """What tells one state of a file from another."""
    return status.st_mtime_ns, status.st_size


def regular(path: str, status: os.stat_result) -> os.stat_result:
    for is_kind, words in _KINDS:
        if is_kind(status.st_mode):
            raise ToolError(f"{path} {words}")
    return status


@contextmanager
def opened_file(path: str, real: str) -> Iterator[int]:
    """A regular file, open for reading. `path` is how the model calls it."""
    with opened_parent(real) as (folder, name):
        # Looked at before, because merely opening some devices has effects, and after, because it may be another now.
        regular(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        regular(path, os.fstat(file))
        yield file
    finally:
        os.close(file)


def read_whole(path: str, real: str) -> tuple[bytes, os.stat_result]:
    with opened_file(path, real) as file:
        status = os.fstat(file)
        if status.st_size > MOST_EDITED:
            raise ToolError(f"{path} is too large to change this way ({status.st_size} bytes): use Bash")
        with open(file, "rb", closefd=False) as stream:
            return stream.read(), status


def refuse_if_changed(path: str, real: str, status: os.stat_result, context: ToolContext) -> None:
    """Whoever changed a file since this conversation saw it must not lose that change."""
    known = context.seen.get(real)
    if known is not None and known != stamp(status):
        raise ToolError(f"{path} has changed since it was read. Read it again before changing it.")


def replace(path: str, real: str, data: bytes, before: os.stat_result | None) -> tuple[int, int]:
    """Put `data` in the place of the state `before` (None: no file), whole or not at all. Gives its new stamp."""
    with opened_parent(real, make=True) as (folder, name):
        draft = f".polylect-{os.urandom(6).hex()}.tmp"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            with open(file, "wb") as stream:
                stream.write(data)
                stream.flush()
                _keep_rights(file, before)
                os.fsync(file)
                after = stamp(os.fstat(file))
            if _stamp_of(name, folder) != (stamp(before) if before else None):
                raise ToolError(f"{path} was changed by someone else just now. Read it again before changing it.")
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            raise
    return after


def _keep_rights(file: int, before: os.stat_result | None) -> None:
    if before is None:
        return
    with suppress(PermissionError):  # only root can give a file away; the mode is ours to keep in any case
        os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, stat.S_IMODE(before.st_mode))


def _stamp_of(name: str, folder: int) -> tuple[int, int] | None:
    try:
        return stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


def is_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def as_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
