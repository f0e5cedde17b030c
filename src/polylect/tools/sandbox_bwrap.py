"""The command line that puts a command into bubblewrap."""

import os
from collections.abc import Sequence

from polylect.tools.sandbox_fence import Fence

# What root keeps: to work with files that are not its own, not to mount anything.
_KEPT = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID")
_EMPTY = ("--tmpfs",)


def bwrap_argv(program: str, fence: Fence, argv: Sequence[str]) -> list[str]:
    """Everything read-only, processes of its own, few devices; then, from the outside in, what the fence says."""
    words = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid"]
    if not fence.network:
        words.append("--unshare-net")
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL"]
        for capability in _KEPT:
            words += ["--cap-add", capability]
    for name in os.listdir("/dev"):
        if name in ("dri", "kfd") or name.startswith("nvidia"):
            words += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    mounts = _mounts(fence)
    for path in sorted(mounts, key=lambda path: path.split("/")):
        words += [*mounts[path], path]
    for path in fence.hidden:
        if mounts.get(path) == _EMPTY:  # not before what is mounted inside has its place
            words += ["--remount-ro", path]
    return [*words, "--", *argv]


def _mounts(fence: Fence) -> dict[str, tuple[str, ...]]:
    """By place. Where one is inside another, the inner one counts; what was opened by name is stronger than hidden."""
    found: dict[str, tuple[str, ...]] = {}
    for path in fence.hidden:
        if os.path.isdir(path):
            found[path] = _EMPTY
        elif os.path.exists(path):
            found[path] = ("--ro-bind", "/dev/null")
    found |= {path: ("--ro-bind-try", path) for path in fence.readable}
    return found | {path: ("--bind-try", path) for path in fence.writable}
