"""Reading files whose path has been judged: the file that was checked is the one that is opened.

A path is resolved first (`os.path.realpath`) and then judged: does it lie in the project, do rules deny it? Opened by
its name afterwards, it could be another file, because somebody has put a link in its place. `open_resolved` takes each
step of the path without following a link, and opens nothing but regular files: a pipe would hold us up, and merely
opening a device can have effects. Instructions, commands, agents and attached files are read with it.
"""

import errno
import os
import stat
from contextlib import suppress

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 16
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def real_path(path: str) -> str:
    """As `os.path.realpath`, which raises FileNotFoundError if a link disappears between two of its steps.

    Somebody who keeps exchanging links must not be able to make the engine fail, so it is tried again. Empty if the
    path keeps changing.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return os.path.realpath(path)
    return ""


def open_resolved(path: str) -> int:
    """A descriptor of the regular file at this absolute path without links.

    Raises OSError, also where a part of the path has become a link; `strerror` is worded for people.
    """
    parent, name = os.path.split(path)
    folder = os.open("/", _FOLDER)
    try:
        for step in filter(None, parent.split("/")):
            inner = os.open(step, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        file = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _check_regular(os.fstat(file), path)  # it may be another one by now
    except OSError:
        os.close(file)
        raise
    return file


def read_resolved(path: str, most: int) -> bytes:
    """The first `most` bytes of a regular file. Raises OSError as `open_resolved` does."""
    with open(open_resolved(path), "rb") as file:
        return file.read(most)


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
