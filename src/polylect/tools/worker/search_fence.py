"""Keeps a search inside the folder that it is about, by Landlock.

ripgrep walks by name: a folder that a command swaps for a link in the middle of a search would be followed. Behind this
fence nothing outside the searched folder can be opened, whatever its name leads to. It stands inside the sandbox of the
worker, and also where there is none. Where the kernel has no Landlock there is no such fence.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress

from polylect.tools.files.paths import opened_folder

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _READ_FILE, _READ_DIR = 1, 4, 8
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many kinds of access to files each version of Landlock knows; later ones know at least 16."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")

_libc = ctypes.CDLL(None, use_errno=True)


def make_fence(folder: int, real: str, program: str) -> int:
    """A ruleset that lets a process read below this folder and run this program. -1 where there is no Landlock."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return -1
    rights = (1 << _RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", rights, 3, 3)  # files; TCP; abstract sockets and signals
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = int(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    if ruleset < 0:
        return -1
    _allow(ruleset, folder, _READ_FILE | _READ_DIR)
    if program:
        _allow_files(ruleset, (program,), _READ_FILE | _EXECUTE)
    _allow_files(ruleset, _ignore_files(real), _READ_FILE)
    return ruleset


def enter_fence(ruleset: int) -> None:
    """From now on, in this process. Raises OSError, and then nothing must be searched."""
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or _libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _ignore_files(real: str) -> Sequence[str]:
    """What says in the folders above which files are ignored."""
    above: list[str] = []
    while real != (real := os.path.dirname(real)):
        above += (os.path.join(real, name) for name in _IGNORE_FILES)
    return above


def _allow_files(ruleset: int, paths: Sequence[str], rights: int) -> None:
    for path in paths:
        folder, name = os.path.split(path)
        with suppress(OSError), opened_folder(os.path.realpath(folder)) as place:
            file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    _allow(ruleset, file, rights)
            finally:
                os.close(file)


def _allow(ruleset: int, place: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, place)
    if _libc.syscall(_ADD_RULE, ruleset, 1, rule, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
