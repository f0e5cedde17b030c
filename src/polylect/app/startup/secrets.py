"""Keeps the credentials that this process was started with from everything it starts.

What /proc shows of the environment and the arguments we were started with is overwritten; and before the first child
starts, the process is closed to others of the same user. What children find in their own environment is decided in
`system/child_environment.py`. Not guarded: the memory of the process where commands run as root without a sandbox.
"""

import os
from collections.abc import Collection, Iterator

_ENDINGS = ("_API_KEY", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_ACCESS_TOKEN", "_SESSION_TOKEN", "_AUTH_TOKEN")
_NAMES = (
    *("API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
)
_FLAGS = (b"--api-key", b"-k")
_DUMPABLE = 4  # of prctl(2)
_TELLING = 8
"""A value as short as this may stand somewhere else by chance."""


def is_secret(name: str) -> bool:
    return name in _NAMES or name.endswith(_ENDINGS)


def conceal(keys: Collection[str] = ()) -> None:
    """Forget credentials where others could find them. The caller has its own copy of the environment."""
    secret = {value.encode() for value in keys}
    secret |= {os.fsencode(os.environ.pop(name)) for name in list(os.environ) if is_secret(name)}
    telling = {value for value in secret if len(value) >= _TELLING}
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:  # not Linux: there, nobody else is shown them
        return
    try:
        for begin, end in (fields[45:47], fields[47:49]):  # the arguments and the environment, see proc(5)
            for place, length in _found(os.pread(memory, int(end) - int(begin), int(begin)), telling):
                os.pwrite(memory, b"*" * length, int(begin) + place)
    except OSError:
        return
    finally:
        os.close(memory)


def seal() -> None:
    """From now on only root can read our memory, or anything in /proc that could give a key away."""
    import ctypes  # 2 ms, and only where something is started

    try:
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # not Linux: there, reading the memory of others takes rights that a command does not have


def _found(block: bytes, secrets: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Where in a list of strings that end with NUL there are secrets, and how long they are."""
    place, before = 0, b""
    for text in block.split(b"\0"):
        name, _, value = text.partition(b"=")
        if text in secrets or before in _FLAGS:
            yield place, len(text)
        elif value and (value in secrets or name in _FLAGS or is_secret(name.decode("latin-1"))):
            yield place + len(text) - len(value), len(value)
        place, before = place + len(text) + 1, text
