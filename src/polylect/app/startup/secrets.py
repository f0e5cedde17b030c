"""Hides the credentials that this process was started with from the processes that it starts.

/proc shows the environment and the arguments of a process to others of the same user. `conceal` overwrites the
credentials in both, right after the start. `seal` closes the memory of the process, before the first child starts. What
children get in their own environment is decided in `system/child_environment.py`. Not protected: the memory of the
process where commands run as root without a sandbox.
"""

import os
from collections.abc import Collection, Iterator

_ENDINGS = ("_API_KEY", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_ACCESS_TOKEN", "_SESSION_TOKEN", "_AUTH_TOKEN")
_NAMES = (
    *("API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS", "POLYLECT_ACP_TOKEN"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
)
_FLAGS = (b"--api-key", b"-k")
_DUMPABLE = 4  # of prctl(2)
_MIN_LENGTH = 8
"""Shorter values are not searched for: they may occur elsewhere by chance."""


def is_secret(name: str) -> bool:
    return name in _NAMES or name.endswith(_ENDINGS)


def conceal(keys: Collection[str] = ()) -> None:
    """Removes credentials from `os.environ` and overwrites them in what /proc shows of this process.

    `keys` are further values to overwrite, such as keys from flags. The caller needs its own copy of the environment.
    """
    values = {value.encode() for value in keys}
    values |= {os.fsencode(os.environ.pop(name)) for name in list(os.environ) if is_secret(name)}
    long_enough = {value for value in values if len(value) >= _MIN_LENGTH}
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:  # not Linux: other processes are not shown them there
        return
    try:
        for begin, end in (fields[45:47], fields[47:49]):  # the arguments and the environment, see proc(5)
            for offset, length in _find_secrets(os.pread(memory, int(end) - int(begin), int(begin)), long_enough):
                os.pwrite(memory, b"*" * length, int(begin) + offset)
    except OSError:
        return
    finally:
        os.close(memory)


def seal() -> None:
    """Makes the process undumpable: from now on only root can read its memory and its environment in /proc."""
    import ctypes  # 2 ms, and only where a child is started

    try:
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # not Linux: reading the memory of others takes rights there that a command does not have


def _find_secrets(block: bytes, secrets: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yields offset and length of each secret in a block of NUL-terminated strings."""
    offset, previous = 0, b""
    for text in block.split(b"\0"):
        name, _, value = text.partition(b"=")
        if text in secrets or previous in _FLAGS:
            yield offset, len(text)
        elif value and (value in secrets or name in _FLAGS or is_secret(name.decode("latin-1"))):
            yield offset + len(text) - len(value), len(value)
        offset, previous = offset + len(text) + 1, text
