"""The standard input of a child process, as a file without a name that nobody can change any more (a sealed memfd).

A named temporary file would not do: every sandboxed command can write in /tmp, so a command in the background could
rewrite what a hook is about to judge, and the file would stay there after `kill -9` of the engine.
"""

import fcntl
import os

# Of fcntl.h; Python names them since 3.9, but only where its libc did.
_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # no further seals, no shrinking, no growing, no writing


def stdin_file(data: bytes) -> int:
    """A descriptor, open for reading from the start of `data`. The caller closes it."""
    if not hasattr(os, "memfd_create"):
        return _unlinked_file(data)
    descriptor = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unlinked_file(data: bytes) -> int:
    """Where there is no file in memory (macOS): one whose name is gone before the data is in it."""
    import tempfile  # 12 ms

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        descriptor = os.dup(file.fileno())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
