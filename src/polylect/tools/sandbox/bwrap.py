"""The command line that puts a command into bubblewrap.

What is hidden is covered by a mount: an empty folder, or /dev/null. Such a mount hides a path, not the thing itself,
and ends with the command. So the folders between a place that can be written and what is hidden or opened in it become
mounts too (`_pins`): the kernel refuses to rename or remove a mount. Thus no command can carry what is hidden away to a
path that the next command would see, nor put a link to elsewhere where the next command gets a folder to write in.
bubblewrap finds by name what it mounts, and follows links. The price is that renaming a file out of or into such a
folder works as between two file systems: `mv` copies.

Called by `Sandbox.argv` before every command.
"""

import os
from collections.abc import Collection, Iterator, Sequence

from polylect.tools.sandbox.fence import Fence

# What root keeps: to work with files that are not its own, not to mount anything.
_KEPT = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID")
_EMPTY = ("--tmpfs",)
_KERNEL = ("sysrq-trigger", "acpi", "bus", "driver", "dynamic_debug", "fs", "irq", "mtrr", "scsi")
"""Below /proc, beside `sys`: settings of the whole machine. bubblewrap 0.8 leaves all of them writable for root."""


def bwrap_argv(program: str, fence: Fence, argv: Sequence[str]) -> list[str]:
    """Everything read-only, processes, messages and terminals of its own, few devices; then, from the outside in, what
    the fence says."""
    words = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc"]
    for name in ("sys", *(name for name in _KERNEL if os.geteuid() == 0 and os.path.exists(f"/proc/{name}"))):
        words += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
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
    opened = {path: ("--ro-bind-try", path) for path in fence.readable}
    opened |= {path: ("--bind-try", path) for path in fence.writable}
    hidden = set(fence.hidden) - opened.keys()
    covers: dict[str, tuple[str, ...]] = {}
    pins: dict[str, tuple[str, ...]] = {}
    places = hidden | opened.keys()
    for path in places:
        pins |= {folder: ("--bind-try", folder) for folder in _pins(path, places, fence.writable)}
    for path in hidden:
        if _nearest(os.path.dirname(path), places) in hidden:
            continue  # what is around it is hidden already
        if os.path.isdir(path):
            covers[path] = _EMPTY
        elif os.path.exists(path):
            covers[path] = ("--ro-bind", "/dev/null")
    return pins | covers | opened


def _pins(path: str, places: Collection[str], writable: Collection[str]) -> Iterator[str]:
    """The folders above it that a command could rename: those in a place that can be written."""
    while (path := os.path.dirname(path)) != "/":
        if path not in places and _nearest(path, places) in writable:
            yield path


def _nearest(path: str, places: Collection[str]) -> str:
    """The innermost of the places that the path is, or is inside of; empty if there is none."""
    while path not in places:
        if path == "/":
            return ""
        path = os.path.dirname(path)
    return path
