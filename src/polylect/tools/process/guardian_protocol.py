"""The bytes between the engine, the guardian and its wardens. `guardian.py` lists who sends what.

    pack(("/bin/ls", "-l"), "/w", {"A": "1"})     4 bytes of length, then  /w NUL 2 NUL /bin/ls NUL -l NUL A=1 NUL

The guardian runs on a bare interpreter, so this module imports nothing that takes time.
"""

import os
from _collections_abc import Mapping, Sequence

INTERRUPT = b"i"
CLEAR = b"c"
COMMAND = b"c"
"""Comes with the descriptors of a new command."""


def pack(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> bytes:
    """A NUL ends each field, as it does for the kernel; four bytes of length come first."""
    fields = [cwd, str(len(argv)), *argv, *(f"{key}={value}" for key, value in env.items())]
    if any("\0" in field for field in fields):
        raise ValueError("NUL in a command")
    body = b"".join(os.fsencode(field) + b"\0" for field in fields)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    cwd, count, *rest = body.split(b"\0")[:-1]
    argv, env = rest[: int(count)], {}
    for pair in rest[int(count) :]:
        key, _, env[key] = pair.partition(b"=")
    return cwd, argv, env
