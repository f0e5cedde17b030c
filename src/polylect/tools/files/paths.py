"""Keeps file tools inside the workspace and the granted folders, whatever symlinks say (P2).

A path is resolved once, in the engine, before the permission check: by `real_path`, which a tool's `touches` calls. The
resolved path travels with the call (`ToolContext.touched`), and `opened_parent` opens it step by step without following
a symlink. So a symlink that is created after the check leads nowhere.

The worker process imports this module too: nothing here may import more than the standard library.
"""

import errno
import os
from _collections_abc import Iterator, Sequence, Set

from polylect.system.bare_contextlib import contextmanager
from polylect.system.plain_files import opened_parent
from polylect.vocab.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from polylect.vocab.ports import ToolContext

PROC = "/proc"
LONGEST = 4096
"""Bytes of a path. The kernel accepts no longer one, and the time to resolve one grows with its length."""

_MOST_LINKS = 40
"""Symlinks to missing files that are followed in one path, as many as the kernel follows."""
_OWN_FILES = "/proc/self/fd"
_OPENAT2, _FROM_HERE, _NO_MAGIC_LINKS = 437, -100, 2
_PATH_ONLY: int = getattr(os, "O_PATH", 0)


# Resolving.


def real_path(path: str, workspace: str) -> str:
    """Absolute, with symlinks resolved as far as the path exists. Raises ToolError for what cannot be a path."""
    try:
        whole = os.path.join(workspace, os.path.expanduser(path)) if len(path) <= LONGEST else path
        if len(os.fsencode(whole)) > LONGEST:
            raise ToolError(f"The path is longer than {LONGEST} bytes, which no file can have: {path[:80]}...")
        if "\0" in whole:
            raise ValueError("NUL in a path")
        return _resolved(whole) if _PATH_ONLY and os.path.isdir(_OWN_FILES) else os.path.realpath(whole)
    except ValueError:
        raise ToolError(f"Not a path: {path[:200]!r}") from None


def _resolved(path: str) -> str:
    """Resolve by asking the kernel, because the time of `os.path.realpath` is quadratic in the length."""
    for _ in range(_MOST_LINKS):
        place, rest = _existing_part(path)
        if not rest:
            return place
        try:
            target = os.readlink(os.path.join(place, rest[0]))  # a link to something missing
        except OSError:
            names, rest = _missing_part(rest)
            if not rest:
                return os.path.join(place, *names)
            path = "/".join((place, *rest)) if rest[0] != ".." else "/".join((os.path.dirname(place), *rest[1:]))
        else:
            path = "/".join((os.path.join(place, target), *rest[1:]))
    return os.path.normpath(path)


def _missing_part(parts: list[str]) -> tuple[list[str], list[str]]:
    """The names of missing folders, with each `..` applied. Where `..` leads back above them, the parts that follow
    it."""
    names: list[str] = []
    for at, part in enumerate(parts):
        if part != "..":
            names.append(part)
            continue
        if not names:
            return [], parts[at:]
        names.pop()
        if not names:
            return [], parts[at + 1 :]
    return names, []


def _existing_part(path: str) -> tuple[str, list[str]]:
    """The real path of the longest part that exists, and the names after it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    present, missing = 0, len(parts) + 1  # of the first so many parts: these exist, these do not
    place = "/"
    at = len(parts)
    while present < at < missing:
        if (real := _real("/" + "/".join(parts[:at]))) is None:
            missing = at
        else:
            place, present = real, at
        at = (present + missing) // 2
    return place, parts[present:]


def _real(path: str) -> str | None:
    """The real path of an existing file. None if it does not exist or cannot be reached."""
    try:
        file = os.open(path, _PATH_ONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        real = os.readlink(f"{_OWN_FILES}/{file}")
    finally:
        os.close(file)
    if real != path and _follows_proc(path):
        return PROC
    return real if real.startswith("/") else os.path.join(PROC, real)  # a pipe or socket that only /proc names


def _follows_proc(path: str) -> bool:
    """Whether a link like `/proc/self/fd/3` is on the way: it leads to what this process has open, by no name of it."""
    import ctypes  # 3 ms, and only for paths with a link
    import struct

    how = struct.pack("=QQQ", _PATH_ONLY | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(_OPENAT2, _FROM_HERE, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if file >= 0:
        os.close(file)
    return file < 0 and ctypes.get_errno() == errno.ELOOP


def real_paths(args: "dict[str, Any]", key: str, workspace: str, default: str = "") -> tuple[str, ...]:
    """The result of `touches` for a tool with one path. Empty where `run` will refuse the argument."""
    path = args.get(key) or default
    try:
        return (real_path(path, workspace),) if isinstance(path, str) and path else ()
    except ToolError:
        return ()


# Checking.


def is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def is_hidden(path: str, hidden: Set[str], opened: Sequence[str]) -> bool:
    """Whether the innermost of the hidden and opened places around a real path is a hidden one."""
    place = path
    while place not in hidden:
        if place == (place := os.path.dirname(place)):
            return False
    return not any(len(other) >= len(place) and is_inside(path, (other,)) for other in opened)


def admit(path: str, context: "ToolContext") -> str:
    """The resolved path of a call that may touch it. `path` is the argument of the model, for messages. Raises
    ToolError."""
    if not context.touched:
        real_path(path, context.workspace)  # says why it is no path
        raise ToolError(f"Not a path: {path[:200]!r}")
    real = context.touched[0]
    if is_inside(real, (PROC,)):
        # It would show our own process: its environment and the keys in it, whatever was granted (P5).
        raise ToolError(f"{path} belongs to the system's processes and is no file. Look at it with Bash.")
    if not is_inside(real, context.roots):
        raise ToolError(
            f"{path} is outside the workspace ({context.workspace}) and nothing there was granted to this call. "
            "Use a path inside the workspace, or ask the user for access."
        )
    return real


def relative(real: str, workspace: str) -> str:
    """The path relative to the workspace, or absolute if it is outside."""
    return os.path.relpath(real, workspace) if is_inside(real, (workspace,)) else real


# Opening.


@contextmanager
def opened_folder(real: str) -> Iterator[int]:
    """A folder by its real path, as a descriptor, reached as `opened_parent` does."""
    with opened_parent(os.path.join(real, "x")) as (folder, _):
        yield folder
