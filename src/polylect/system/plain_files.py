"""Opens files by a path that was checked before: the file that was checked is the one that is opened.

A path is resolved first (`os.path.realpath`) and then checked: is it in the project, do rules deny it? If it were
opened by its name afterwards, it could be another file, because somebody has put a link in its place. `opened_parent`
takes each step of the path without following a link. `open_resolved` opens only regular files: a pipe would block, and
opening a device can have effects.

Instructions, commands, agents and attached files are read with `open_resolved`; file tools use `opened_parent`, also in
the worker, so nothing but small modules of the standard library is imported here.
"""

import errno
import os
import stat
from _collections_abc import Iterator

from polylect.system.bare_contextlib import contextmanager, suppress

# O_PATH needs no permission to list a folder that is only passed through.
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


def names_in(folder: str) -> list[str]:
    """The names of what is in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


@contextmanager
def opened_parent(real: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder of a real path as a descriptor, and the name in it.

    A real path has no symlinks. Each step is taken without following one, so a folder that was swapped for a symlink
    after the check leads nowhere instead of outside. With `make`, missing folders are made on the way.
    """
    parent, name = os.path.split(real)
    here = os.open("/", _FOLDER)
    try:
        for step in filter(None, parent.split("/")):
            there = _enter(step, here, make)
            os.close(here)
            here = there
        yield here, name
    finally:
        os.close(here)


def open_resolved(path: str) -> int:
    """A descriptor of the regular file at this absolute path without links.

    Raises OSError, also where a part of the path has become a link; `strerror` is worded for people.
    """
    with opened_parent(path) as (folder, name):
        _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        file = os.open(name, _FILE, dir_fd=folder)
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


def _enter(step: str, here: int, make: bool) -> int:
    try:
        return os.open(step, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(step, dir_fd=here)
    except FileExistsError:
        pass  # another call made it meanwhile
    return os.open(step, _FOLDER, dir_fd=here)
