"""The command line that puts a command into bubblewrap."""

import os
from collections.abc import Sequence

from polylect.tools.sandbox_fence import Fence

# What root keeps: to work with files that are not its own, not to mount anything.
_KEPT = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID")


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
    for path, mount in sorted(_mounts(fence).items(), key=lambda pair: pair[0].split("/")):
        words += [word.replace("\0", path) for word in mount]
    return [*words, "--", *argv]


def _mounts(fence: Fence) -> dict[str, tuple[str, ...]]:
    """By place. Where one is inside another, the inner one counts; what was opened by name is stronger than hidden."""
    found: dict[str, tuple[str, ...]] = {}
    for path in fence.hidden:
        if os.path.isdir(path):
            found[path] = ("--tmpfs", "\0", "--remount-ro", "\0")
        elif os.path.exists(path):
            found[path] = ("--ro-bind", "/dev/null", "\0")
    found |= dict.fromkeys(fence.readable, ("--ro-bind-try", "\0", "\0"))
    return found | dict.fromkeys(fence.writable, ("--bind-try", "\0", "\0"))
