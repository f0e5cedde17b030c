"""The guardian program: makes sure that no process of a command survives its call or the engine (P1).

The engine starts one guardian. For each command the guardian forks a warden, and the warden starts the command. Both
are subreapers: an orphan below them becomes their child, even if it detached itself (setsid, double fork). So a warden
without children means that nothing of its command is left. A warden holds a channel to the engine. When that closes,
for whatever reason, it kills its tree. The guardian does the same for all wardens when the engine is gone, and for the
orphans of a warden that was killed. A warden that was stopped is continued at once, a guardian when the engine needs it
or dies. Both are in one session, which no command can join: by that the engine recognises wardens.

    engine to guardian    a byte with descriptors: the call's channel, its stdout, its stderr, perhaps its stdin
    engine to warden      the request; then INTERRUPT (SIGINT, SIGTERM, SIGKILL), or the end of the channel (SIGKILL)
    warden to engine      lines: `warden PID`; `failed ERRNO`, or `started PID REACH`, `ended CODE`, `clear`
    guardian to engine    CLEAR, when all has ended

Runs on the bare standard library, because its start is part of the first command's time.
"""

import _socket  # `socket` itself takes 8 ms to import
import errno
import os
import select
import sys
from time import monotonic

from polylect.system.bare_contextlib import suppress
from polylect.tools.process import process_tree
from polylect.tools.process.descriptors import receive_descriptors
from polylect.tools.process.guardian_protocol import CLEAR, INTERRUPT, unpack
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
"""Seconds after which a process that SIGKILL does not end (it hangs in the kernel, or is not ours) is given up."""

INTERRUPT_STEPS = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.7), (signal.SIGKILL, KILL_GRACE))
KILL_STEP = INTERRUPT_STEPS[-1:]


# Waiting.


class Wakeup:
    """Waits for data from the peer, for the end or stop of a child, and for the death of the parent."""

    def __init__(self, peer: _socket.socket) -> None:
        self._peer = peer.fileno()
        self._signals, signal_pipe = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(signal_pipe, False)
        for number in (signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(signal_pipe, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._peer, select.POLLIN)
        self._poll.register(self._signals, select.POLLIN)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for one of them, or until the time is up. True if the peer has sent data or closed the channel."""
        ready = self._poll.poll(None if seconds is None else max(0, seconds) * 1000)
        with suppress(BlockingIOError):
            os.read(self._signals, 4096)
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


def end_tree(wakeup: Wakeup, group: int = 0) -> None:
    wakeup.ignore_peer()
    deadline = monotonic() + KILL_GRACE
    while reap()[1] and monotonic() < deadline:
        process_tree.kill_tree(group)
        _wait_for_all(wakeup, 0.1)


def _wait_for_all(wakeup: Wakeup, seconds: float) -> None:
    deadline = monotonic() + seconds
    while reap()[1] and monotonic() < deadline:
        wakeup.wait(deadline - monotonic())


# The warden.


def _receive(channel: _socket.socket) -> bytes:
    """The request; empty if the engine closed the channel before it was complete."""
    size = int.from_bytes(channel.recv(4, _socket.MSG_WAITALL), "big")
    body = channel.recv(size, _socket.MSG_WAITALL)
    return body if len(body) == size else b""


def run_warden(channel: _socket.socket, out: int, err: int, stdin: int = -1) -> None:
    """Run one command, from its start to the end of the last process that it left behind."""
    reaches_tree = process_tree.adopt_orphans()
    process_tree.continue_when_parent_dies()
    wakeup = Wakeup(channel)
    _send_line(channel, f"warden {os.getpid()}")
    request = _receive(channel)
    if not request:
        return
    try:
        child = _spawn(request, out, err, stdin)
    except (OSError, ValueError) as fault:
        _send_line(channel, f"failed {getattr(fault, 'errno', 0)}")
        return
    for descriptor in (out, err, stdin):
        if descriptor >= 0:
            os.close(descriptor)
    _send_line(channel, f"started {child} {'tree' if reaches_tree else 'group'}")
    _send_line(channel, f"ended {_wait_for_command(child, channel, wakeup)}")
    wakeup.ignore_peer()
    if not reaches_tree or reap()[1]:
        _end_leftovers(child, wakeup, reaches_tree)
    _send_line(channel, "clear")


def _spawn(request: bytes, out: int, err: int, stdin: int) -> int:
    cwd, argv, env = unpack(request)
    no_input = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    os.chdir(cwd)
    if argv[0] == FENCE:
        return _spawn_behind_fence(argv, env, out, err, stdin)
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=[
            no_input if stdin < 0 else (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _spawn_behind_fence(argv: list[bytes], env: dict[bytes, bytes], out: int, err: int, stdin: int) -> int:
    """Fork; the child confines itself and becomes the command. The warden stays outside, out of its reach."""
    fence, command = read_fence(argv)
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            no_input = os.open(os.devnull, os.O_RDONLY)
            for place, descriptor in enumerate((no_input if stdin < 0 else stdin, out, err)):
                os.dup2(descriptor, place)
            for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored, signal.SIG_DFL)
            confine(fence)
            os.execve(command[0], command, env)
        except BaseException as fault:  # noqa: BLE001  whatever it is, the command must not run
            os.write(write_end, str(getattr(fault, "errno", 0) or errno.EIO).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    number = os.read(read_end, 16)
    os.close(read_end)
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return child


def _wait_for_command(child: int, channel: _socket.socket, wakeup: Wakeup) -> int:
    """Wait for the command and return its exit code. When the engine interrupts or is gone, signal it until it ends."""
    steps: tuple[tuple[int, float], ...] = ()
    deadline: float | None = None
    while child not in (ended := reap()[0]):
        if wakeup.wait(None if deadline is None else deadline - monotonic()):
            message = _receive_byte(channel)
            steps, deadline = (INTERRUPT_STEPS, monotonic()) if message == INTERRUPT else (KILL_STEP, monotonic())
            if not message:
                wakeup.ignore_peer()
        if deadline is not None and monotonic() >= deadline:
            if not steps:
                return -signal.SIGKILL
            (number, grace), *rest = steps
            if number == signal.SIGKILL:
                process_tree.kill_tree(child)
            else:
                process_tree.signal_group(child, number)
            steps, deadline = tuple(rest), monotonic() + grace
    return ended[child]


def _end_leftovers(child: int, wakeup: Wakeup, reaches_tree: bool) -> None:
    """Send SIGTERM to what the command left running, then kill it."""
    process_tree.signal_each(process_tree.descendants(), signal.SIGTERM)
    if process_tree.signal_group(child, signal.SIGTERM) and not reaches_tree:
        wakeup.wait(LEFTOVER_GRACE)  # we get no signal for orphans that are not our children
    _wait_for_all(wakeup, LEFTOVER_GRACE)
    process_tree.signal_group(child, signal.SIGKILL)
    end_tree(wakeup, child)


def _send_line(channel: _socket.socket, line: str) -> None:
    with suppress(OSError):  # the engine is gone, which `Wakeup.wait` reports too
        channel.sendall(line.encode() + b"\n")


def _receive_byte(channel: _socket.socket) -> bytes:
    try:
        return channel.recv(1)
    except OSError:
        return b""


# The guardian.


def main() -> None:
    """Serve the engine at the other end of standard input until it is gone."""
    os.closerange(3, 4096)  # descriptors of the host must not reach commands
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    engine = _socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # wardens must not keep the engine's channel open
    parent = os.getppid()
    wakeup = Wakeup(engine)
    process_tree.adopt_orphans()
    process_tree.continue_when_parent_dies()
    wardens: set[int] = set()
    while os.getppid() == parent:  # the engine may die while another process holds its sockets
        if wakeup.wait():
            call = _accept(engine)
            if not call:
                break
            wardens.add(_fork_warden(engine, *call))
        ended, _ = reap(revive=True)
        wardens -= ended.keys()
        if any(ended.values()):  # a warden was killed, and its orphans are our children now
            _kill_all_but(wardens)
    end_tree(wakeup)
    with suppress(OSError):
        engine.send(CLEAR)
    os._exit(0)


def _kill_all_but(wardens: "Collection[int]") -> None:
    process_tree.kill_tree(spared=lambda pid, _: pid in wardens)


def _accept(engine: _socket.socket) -> list[int]:
    """The descriptors of the next call; none once the engine is gone."""
    try:
        return receive_descriptors(engine, 1, 4)[1]
    except OSError:
        return []


def _fork_warden(engine: _socket.socket, channel: int, *streams: int) -> int:
    warden = os.fork()
    if not warden:
        try:
            engine.close()
            run_warden(_socket.socket(fileno=channel), *streams)
            os._exit(0)
        except BaseException:  # noqa: BLE001  a bug of ours; the guardian takes over what this warden leaves
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    for descriptor in (channel, *streams):
        os.close(descriptor)
    return warden
