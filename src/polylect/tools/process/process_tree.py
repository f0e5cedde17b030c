"""Finds and signals all processes below a process, and adopts orphans.

Linux gives the orphans of a subreaper's descendants to the subreaper (`adopt_orphans`). So a process that detached
itself (setsid, double fork) is still below the guardian, and `descendants` finds it in /proc. `kill_tree` stops all of
them before it kills any, because a stopped process cannot fork.

Used by the guardian and, when that was killed, by the engine (`guardian_client.py`).
"""

import os
from _collections_abc import Callable, Collection

from polylect.system.bare_contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` itself imports enum, 5 ms

PROC = "/proc"
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl(2)

Spared = Callable[[int, int], bool]
"""Gets the pid and the session of a process. Whether it and everything below it is left alone."""


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes  # 2 ms, and only where something is started

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):  # no ctypes, or not Linux
        return False


def adopt_orphans() -> bool:
    """Become the parent of every orphan below this process. False where the system cannot do that or has no /proc."""
    try:
        return _prctl(_SUBREAPER, 1) and os.readlink(f"{PROC}/self") == str(os.getpid())
    except OSError:
        return False


def continue_when_parent_dies() -> None:
    """Have the kernel send SIGCONT when the parent dies, so that this process goes on even if somebody stopped it."""
    _prctl(_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def _spare_none(pid: int, session: int) -> bool:
    return False


def descendants(roots: Collection[int] = (), spared: Spared = _spare_none) -> set[int]:
    """The pids below these processes, or below this one, without those that are `spared` and all below them."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if os.path.isdir(PROC) else ():
        if entry.isdigit():
            with suppress(OSError), open(f"{PROC}/{entry}/stat", "rb", buffering=0) as file:
                _, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
                if not spared(int(entry), int(session)):
                    children.setdefault(int(parent), []).append(int(entry))
    pids: set[int] = set()
    queue = list(roots or (os.getpid(),))
    while queue:
        fresh = set(children.get(queue.pop(), ())) - pids
        pids |= fresh
        queue += fresh
    return pids


def signal_group(group: int, number: int) -> bool:
    """Signal a process group. True if it has a process."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_each(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_tree(group: int = 0, roots: Collection[int] = (), spared: Spared = _spare_none) -> set[int]:
    """Stop all processes, then kill them; returns their pids. A stopped process cannot fork, so a fork bomb ends
    too."""
    stopped: set[int] = set()
    while fresh := descendants(roots, spared) - stopped:
        signal_each(fresh, signal.SIGSTOP)
        stopped |= fresh
    if group:
        signal_group(group, signal.SIGKILL)
    signal_each(stopped, signal.SIGKILL)
    return stopped
