"""Processes by descent: becoming the parent of orphans, finding all that are below a process, ending them together."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` itself imports enum, 5 ms

PROC = "/proc"
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl(2)

Spared = Callable[[int, int], bool]
"""Whether a process, of which the number and the session are told, is left alone, and so what is below it."""


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes  # 2 ms, and only where something is started

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):  # no ctypes, or not Linux
        return False


def adopt_orphans() -> bool:
    """Become the parent of every orphan below. False where the system has no such thing, or no view of processes."""
    try:
        return _prctl(_SUBREAPER, 1) and os.readlink(f"{PROC}/self") == str(os.getpid())
    except OSError:
        return False


def outlive_stops() -> None:
    """Whoever stopped this process, it goes on when its parent dies."""
    _prctl(_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def _nobody(pid: int, session: int) -> bool:
    return False


def descendants(roots: Collection[int] = (), spared: Spared = _nobody) -> set[int]:
    """Everything below these processes, or below this one, without those to spare and all that is below them."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if os.path.isdir(PROC) else ():
        if entry.isdigit():
            with suppress(OSError), open(f"{PROC}/{entry}/stat", "rb", buffering=0) as file:
                _, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
                if not spared(int(entry), int(session)):
                    children.setdefault(int(parent), []).append(int(entry))
    found: set[int] = set()
    queue = list(roots or (os.getpid(),))
    while queue:
        fresh = set(children.get(queue.pop(), ())) - found
        found |= fresh
        queue += fresh
    return found


def signal_group(group: int, number: int) -> bool:
    """True if there was anybody in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_each(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_tree(group: int = 0, roots: Collection[int] = (), spared: Spared = _nobody) -> set[int]:
    """Stop all before killing any: what is stopped cannot fork, so that even a fork bomb is caught whole."""
    stopped: set[int] = set()
    while fresh := descendants(roots, spared) - stopped:
        signal_each(fresh, signal.SIGSTOP)
        stopped |= fresh
    if group:
        signal_group(group, signal.SIGKILL)
    signal_each(stopped, signal.SIGKILL)
    return stopped
