"""Answers for the ends of processes, as a program of its own that outlives the engine by moments (P1).

The engine starts one guardian. For each call the guardian forks a warden, and the warden starts the command. Both are
subreapers: an orphan below them becomes their child, wherever it hid (setsid, double fork), so a warden without
children is a call without survivors. A warden holds the call's channel to the engine; when that closes, for whatever
reason, it ends its tree. The guardian does the same for all of them, and for the orphans of a warden that was killed;
a warden that was stopped goes on at once, and a guardian as soon as the engine needs it or dies. Both are in one
session, which no command can join: that is how the engine tells wardens from what they watch over.

    engine to guardian    a byte with descriptors: the call's channel, its stdout, its stderr, perhaps its stdin
    engine to warden      the request; then INTERRUPT (ask, then insist) or nothing but its end (kill)
    warden to engine      lines: `warden PID`; `failed ERRNO`, or `started PID REACH`, `ended CODE`, `clear`
    guardian to engine    CLEAR, when all has ended

Runs on the bare standard library, because its start is part of the first command's time.
"""

import _socket  # `socket` itself takes 8 ms to import
import errno
import os
import select
import sys
from contextlib import suppress
from time import monotonic

from polylect.tools.process.descriptors import receive_descriptors
from polylect.tools.process.guardian_protocol import CLEAR, INTERRUPT, unpack
from polylect.tools.process.process_tree import (
    adopt_orphans,
    descendants,
    kill_tree,
    outlive_stops,
    signal_each,
    signal_group,
)
from polylect.tools.sandbox.fence import FENCE, read_fence

with suppress(ImportError, AttributeError, OSError):  # no ctypes, or not Linux: there is no such fence then
    from polylect.tools.sandbox.landlock import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Collection
else:
    import _signal as signal  # `signal` itself imports enum, 5 ms

LEFTOVER_GRACE = 0.2
KILL_GRACE = 5.0
"""After this, a process that even SIGKILL does not end (it hangs in the kernel, or is not ours) is given up."""

LADDER = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.7), (signal.SIGKILL, KILL_GRACE))
TOP_RUNG = LADDER[-1:]


# Waiting.


class Bell:
    """Rings when the peer speaks, when a child ends or stops, and when the parent dies."""

    def __init__(self, peer: _socket.socket) -> None:
        self._peer = peer.fileno()
        self._rings, rope = os.pipe()
        os.set_blocking(self._rings, False)
        os.set_blocking(rope, False)
        for number in (signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._peer, select.POLLIN)
        self._poll.register(self._rings, select.POLLIN)

    def wait(self, seconds: float | None = None) -> bool:
        """Until it rings or the time is up. True if the peer has something to say, which may be its end."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        with suppress(BlockingIOError):
            os.read(self._rings, 4096)
        return any(number == self._peer for number, _ in ready)

    def ignore_peer(self) -> None:
        with suppress(KeyError):
            self._poll.unregister(self._peer)


def reap(*, revive: bool = False) -> tuple[dict[int, int], bool]:
    """Exit codes of the children that have ended, and whether any are left. Those that were stopped can be revived."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | (os.WUNTRACED if revive else 0))
        except ChildProcessError:
            return ended, False
        if not pid:
            return ended, True
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGCONT)
        else:
            ended[pid] = os.waitstatus_to_exitcode(status)


# Ending.


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


def _receive(channel: _socket.socket) -> bytes:
    """The request, or nothing if the engine went away before it was whole."""
    size = int.from_bytes(channel.recv(4, _socket.MSG_WAITALL), "big")
    body = channel.recv(size, _socket.MSG_WAITALL)
    return body if len(body) == size else b""


def attend(channel: _socket.socket, out: int, err: int, stdin: int = -1) -> None:
    """One call, from its start to the end of the last process it left behind."""
    whole = adopt_orphans()
    outlive_stops()
    bell = Bell(channel)
    _say(channel, f"warden {os.getpid()}")
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


def _outlast(child: int, channel: _socket.socket, bell: Bell) -> int:
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


def _say(channel: _socket.socket, line: str) -> None:
    with suppress(OSError):  # the engine is gone, which the bell tells as well
        channel.sendall(line.encode() + b"\n")


def _hear(channel: _socket.socket) -> bytes:
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
    engine = _socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a warden must not hold the engine's line open
    parent = os.getppid()
    bell = Bell(engine)
    adopt_orphans()
    outlive_stops()
    wardens: set[int] = set()
    while os.getppid() == parent:  # it may die and leave its sockets to others
        if bell.wait():
            call = _accept(engine)
            if not call:
                break
            wardens.add(_appoint(engine, *call))
        ended, _ = reap(revive=True)
        wardens -= ended.keys()
        if any(ended.values()):  # a warden failed, and its orphans are ours now
            _kill_all_but(wardens)
    end_tree(bell)
    with suppress(OSError):
        engine.send(CLEAR)
    os._exit(0)


def _kill_all_but(wardens: "Collection[int]") -> None:
    kill_tree(spared=lambda pid, _: pid in wardens)


def _accept(engine: _socket.socket) -> list[int]:
    """The descriptors of the next call; none once the engine is gone."""
    try:
        return receive_descriptors(engine, 1, 4)[1]
    except OSError:
        return []


def _appoint(engine: _socket.socket, channel: int, *streams: int) -> int:
    warden = os.fork()
    if not warden:
        try:
            engine.close()
            attend(_socket.socket(fileno=channel), *streams)
            os._exit(0)
        except BaseException:  # noqa: BLE001  a bug of ours; the guardian takes over what this warden leaves
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    for descriptor in (channel, *streams):
        os.close(descriptor)
    return warden
