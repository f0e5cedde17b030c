"""Answers for the ends of processes, as a program of its own that outlives the engine by moments (P1).

The engine starts one guardian. For each call the guardian forks a warden, and the warden starts the command. Both are
subreapers: an orphan below them becomes their child, wherever it hid (setsid, double fork), so a warden without
children is a call without survivors. A warden holds the call's channel to the engine; when that closes, for whatever
reason, it ends its tree. The guardian does the same for all of them, and for the orphans of a warden that was killed.

    engine to guardian    a byte with descriptors: the call's channel, its stdout, its stderr, perhaps its stdin
    engine to warden      the request; then INTERRUPT (ask, then insist) or nothing but its end (kill)
    warden to engine      lines: `failed ERRNO`, or `started PID REACH`, `ended CODE`, `clear`

Runs on the bare standard library, because its start is part of the first command's time.
"""

import errno
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic

from polylect.tools.handover import INTERRUPT, unpack
from polylect.tools.sandbox_fence import FENCE, read_fence

prctl: Callable[..., int] | None
try:
    import ctypes

    from polylect.tools.sandbox_landlock import confine

    prctl = ctypes.CDLL(None).prctl
except (ImportError, AttributeError, OSError):  # no ctypes, or not Linux: only process groups can be ended
    prctl = None

LEFTOVER_GRACE = 0.2
KILL_GRACE = 5.0
"""After this, a process that even SIGKILL does not end (it hangs in the kernel, or is not ours) is given up."""

LADDER = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.7), (signal.SIGKILL, KILL_GRACE))
TOP_RUNG = LADDER[-1:]

PROC = "/proc"
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl(2)


# Waiting.


class Bell:
    """Rings when the peer speaks, when a child ends, and when the engine dies without closing its sockets."""

    def __init__(self, peer: socket.socket) -> None:
        self.orphaned = False
        self._peer = peer.fileno()
        self._rings, rope = os.pipe()
        os.set_blocking(self._rings, False)
        os.set_blocking(rope, False)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._peer, select.POLLIN)
        self._poll.register(self._rings, select.POLLIN)

    def wait(self, seconds: float | None = None) -> bool:
        """Until it rings or the time is up. True if the peer has something to say, which may be its end."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        with suppress(BlockingIOError):
            self.orphaned |= signal.SIGUSR1 in os.read(self._rings, 4096)
        return any(number == self._peer for number, _ in ready)

    def ignore_peer(self) -> None:
        with suppress(KeyError):
            self._poll.unregister(self._peer)


def reap() -> tuple[dict[int, int], bool]:
    """Exit codes of the children that have ended, and whether any are left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if not pid:
            return ended, True
        ended[pid] = os.waitstatus_to_exitcode(status)


# Ending.


def adopt_orphans() -> bool:
    """Become the parent of every orphan below. False where the system has no such thing, or no view of processes."""
    try:
        adopts = prctl is not None and prctl(_SUBREAPER, 1, 0, 0, 0) == 0
        return adopts and os.readlink(f"{PROC}/self") == str(os.getpid())
    except OSError:
        return False


def descendants(spare: Collection[int] = ()) -> set[int]:
    """Everything below this process, without the branches of those to spare."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if os.path.isdir(PROC) else ():
        if entry.isdigit():
            with suppress(OSError), open(f"{PROC}/{entry}/stat", "rb", buffering=0) as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    found: set[int] = set()
    queue = [os.getpid()]
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in spare]
        found.update(fresh)
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


def kill_tree(group: int = 0, spare: Collection[int] = ()) -> None:
    """Stop all before killing any: what is stopped cannot fork, so that even a fork bomb is caught whole."""
    stopped: set[int] = set()
    while fresh := descendants(spare) - stopped:
        signal_each(fresh, signal.SIGSTOP)
        stopped |= fresh
    if group:
        signal_group(group, signal.SIGKILL)
    signal_each(stopped, signal.SIGKILL)


def end_tree(bell: Bell, group: int = 0) -> None:
    bell.ignore_peer()
    deadline = monotonic() + KILL_GRACE
    while reap()[1] and monotonic() < deadline:
        kill_tree(group)
        _wait_for_all(bell, 0.1)


def _wait_for_all(bell: Bell, seconds: float) -> None:
    deadline = monotonic() + seconds
    while reap()[1] and monotonic() < deadline:
        bell.wait(deadline - monotonic())


# The warden.


def _receive(channel: socket.socket) -> bytes:
    """The request, or nothing if the engine went away before it was whole."""
    size = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
    body = channel.recv(size, socket.MSG_WAITALL)
    return body if len(body) == size else b""


def attend(channel: socket.socket, out: int, err: int, stdin: int = -1) -> None:
    """One call, from its start to the end of the last process it left behind."""
    whole = adopt_orphans()
    bell = Bell(channel)
    request = _receive(channel)
    if not request:
        return
    try:
        child = _spawn(request, out, err, stdin)
    except (OSError, ValueError) as fault:
        _say(channel, f"failed {getattr(fault, 'errno', 0)}")
        return
    for descriptor in (out, err, stdin):
        if descriptor >= 0:
            os.close(descriptor)
    _say(channel, f"started {child} {'tree' if whole else 'group'}")
    _say(channel, f"ended {_outlast(child, channel, bell)}")
    bell.ignore_peer()
    if not whole or reap()[1]:
        _clear_away(child, bell, whole)
    _say(channel, "clear")


def _spawn(request: bytes, out: int, err: int, stdin: int) -> int:
    cwd, argv, env = unpack(request)
    empty = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    os.chdir(cwd)
    if argv[0] == FENCE:
        return _spawn_behind_fence(argv, env, out, err, stdin)
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=[
            empty if stdin < 0 else (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _spawn_behind_fence(argv: list[bytes], env: dict[bytes, bytes], out: int, err: int, stdin: int) -> int:
    """A copy of this process fences itself in and becomes the command. The warden stays outside, out of its reach."""
    fence, command = read_fence(argv)
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            empty = os.open(os.devnull, os.O_RDONLY)
            for place, descriptor in enumerate((empty if stdin < 0 else stdin, out, err)):
                os.dup2(descriptor, place)
            for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored, signal.SIG_DFL)
            confine(fence)
            os.execve(command[0], command, env)
        except BaseException as fault:  # noqa: BLE001  whatever it is, the command must not run
            os.write(told, str(getattr(fault, "errno", 0) or errno.EIO).encode())
        finally:
            os._exit(127)
    os.close(told)
    number = os.read(heard, 16)
    os.close(heard)
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return child


def _outlast(child: int, channel: socket.socket, bell: Bell) -> int:
    """Wait for the command; once the engine says so or is gone, climb the ladder until it has ended."""
    rungs: tuple[tuple[int, float], ...] = ()
    deadline: float | None = None
    while child not in (ended := reap()[0]):
        if bell.wait(None if deadline is None else deadline - monotonic()):
            word = _hear(channel)
            rungs, deadline = (LADDER, monotonic()) if word == INTERRUPT else (TOP_RUNG, monotonic())
            if not word:
                bell.ignore_peer()
        if deadline is not None and monotonic() >= deadline:
            if not rungs:
                return -signal.SIGKILL
            (number, grace), *rest = rungs
            _press(child, number)
            rungs, deadline = tuple(rest), monotonic() + grace
    return ended[child]


def _press(child: int, number: int) -> None:
    if number == signal.SIGKILL:
        kill_tree(child)
    else:
        signal_group(child, number)


def _clear_away(child: int, bell: Bell, whole: bool) -> None:
    """What the command left running is asked, then killed."""
    signal_each(descendants(), signal.SIGTERM)
    if signal_group(child, signal.SIGTERM) and not whole:
        bell.wait(LEFTOVER_GRACE)  # orphans that are not ours end without a sound
    _wait_for_all(bell, LEFTOVER_GRACE)
    signal_group(child, signal.SIGKILL)
    end_tree(bell, child)


def _say(channel: socket.socket, line: str) -> None:
    with suppress(OSError):  # the engine is gone, which the bell tells as well
        channel.sendall(line.encode() + b"\n")


def _hear(channel: socket.socket) -> bytes:
    try:
        return channel.recv(1)
    except OSError:
        return b""


# The guardian.


def main() -> None:
    """Serve the engine at the other end of standard input until it is gone."""
    os.closerange(3, 4096)  # what a host left open for the engine is not for its commands
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    engine = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a warden must not hold the engine's line open
    bell = Bell(engine)
    if adopt_orphans() and prctl:
        prctl(_PARENT_DEATH_SIGNAL, signal.SIGUSR1, 0, 0, 0)
    wardens: set[int] = set()
    while not bell.orphaned:
        if bell.wait():
            call = _accept(engine)
            if not call:
                break
            wardens.add(_appoint(engine, *call))
        ended, _ = reap()
        wardens -= ended.keys()
        if any(ended.values()):  # a warden failed, and its orphans are ours now
            kill_tree(spare=wardens)
    end_tree(bell)
    os._exit(0)


def _accept(engine: socket.socket) -> list[int]:
    """The descriptors of the next call; none once the engine is gone."""
    try:
        _, descriptors, _, _ = socket.recv_fds(engine, 1, 4)
    except OSError:
        return []
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return descriptors


def _appoint(engine: socket.socket, channel: int, *streams: int) -> int:
    warden = os.fork()
    if not warden:
        try:
            engine.close()
            attend(socket.socket(fileno=channel), *streams)
            os._exit(0)
        except BaseException:  # noqa: BLE001  a bug of ours; the guardian takes over what this warden leaves
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    for descriptor in (channel, *streams):
        os.close(descriptor)
    return warden
