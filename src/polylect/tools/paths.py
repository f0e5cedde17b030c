"""Where file tools may go: inside the workspace and what was granted beside it, whatever symlinks say (P2)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext

PROC = "/proc"

# Only a place to start from: O_PATH needs no permission to list a folder that we merely pass through.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def real_path(path: str, workspace: str) -> str:
    """Absolute, with symlinks resolved as far as the path exists."""
    try:
        return os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))
    except ValueError:
        raise ToolError(f"Not a path: {path!r}") from None


def real_paths(args: dict[str, Any], key: str, workspace: str, default: str = "") -> tuple[str, ...]:
    """What `touches` answers for a tool with one path: nothing where `run` will refuse the argument anyway."""
    path = args.get(key) or default
    try:
        return (real_path(path, workspace),) if isinstance(path, str) and path else ()
    except ToolError:
        return ()


def is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def admit(path: str, context: ToolContext) -> str:
    """The real path, if this call may touch it."""
    real = real_path(path, context.workspace)
    if is_inside(real, (PROC,)):
        # We would read it as ourselves: our environment, and the keys in it, whatever was granted (P5).
        raise ToolError(f"{path} belongs to the system's processes and is no file. Look at it with Bash.")
    if not is_inside(real, context.roots):
        raise ToolError(
            f"{path} is outside the workspace ({context.workspace}) and nothing there was granted to this call. "
            "Use a path inside the workspace, or ask the user for access."
        )
    return real


def relative(real: str, workspace: str) -> str:
    """As a person in the workspace would write it; absolute if it lies elsewhere."""
    return os.path.relpath(real, workspace) if is_inside(real, (workspace,)) else real


@contextmanager
def opened_parent(real: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder of a real path as a descriptor, and the name in it.

    A real path has no symlinks. Each step is taken without following one, so a folder that was swapped for a symlink
    after the check leads nowhere instead of outside.
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
