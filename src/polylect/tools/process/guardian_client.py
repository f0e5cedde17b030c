"""The engine's side of the guardian: starts one at the first command, and does its work if it was killed (P1).

A command that runs with the user's rights can stop or kill its warden and the guardian. So both are sent SIGCONT before
a message. If a warden is gone or does not answer, its processes are found below the guardian, or below the engine if
that adopts orphans, and are killed from here. Used by `custody.py`, `supervised_process.py` and `open_child.py`.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from polylect.system.search_paths import absolute_only
from polylect.tools.process.guardian_protocol import CLEAR, COMMAND
from polylect.tools.process.process_tree import Spared, adopt_orphans, kill_tree, signal_each
from polylect.tools.process.programs import own_program

CLOSE_BOUND = 1.2
"""Seconds that the guardian has to end everything."""
_REAP_AFTER = 0.1
"""Seconds after which a guardian that has nothing left to do has exited."""


_sessions_of_guardians: set[int] = set()
"""The sessions (setsid) of all guardians of this process: one engine never ends what another one has started."""
_unreaped: set[int] = set()
"""Children of this process that end, and whose exit codes nobody has collected. Guardians outlive their `Guardians`."""


class NotAccepted(Exception):
    """The guardian was gone before it accepted a command. Nothing was started, so the caller can try again."""


class Guardians:
    """The guardian of the engine, and a new one after it was killed. None is started before the first command.

    `program` starts a guardian, `before` is called before it gets a command, `adopt` makes the engine get orphans of
    killed ones.
    """

    def __init__(self, program: Sequence[str], before: Callable[[], None], *, adopt: bool) -> None:
        self.adopts = False
        """Whether the engine gets the orphans of a guardian that was killed. Known once there is a guardian."""
        self._program = list(program)
        self._before = before
        self._adopt = adopt
        self._guardian: tuple[int, socket.socket] | None = None
        self._kernel_sessions: set[int] = set()
        """The sessions (setsid) of all guardians so far. Wardens are in them, and no command can join one."""

    def start_guardian(self) -> None:
        """Start a guardian if there is none."""
        self._guardian = self._guardian or self._spawn()

    def start_command(self, descriptors: Sequence[int]) -> None:
        """Pass the descriptors of a command to the guardian. Raises NotAccepted if it was killed; its wardens go on."""
        _reap()
        try:
            pid, control = self._guardian = self._guardian or self._spawn()
            signal_each((pid,), signal.SIGCONT)
            try:
                socket.send_fds(control, [COMMAND], descriptors)
            except OSError:
                self.drop()
                raise NotAccepted from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def wake(self, warden: int = 0) -> None:
        """Let the guardian and this warden continue, if somebody stopped them."""
        if self._guardian:
            signal_each((self._guardian[0],), signal.SIGCONT)
        if self._is_warden(warden):
            signal_each((warden,), signal.SIGCONT)

    def kill_warden(self, warden: int) -> None:
        """Kill a warden that does not answer, and everything below it."""
        if self._is_warden(warden):
            kill_tree(roots=(warden,))
            signal_each((warden,), signal.SIGKILL)
        self.wake(warden)

    def kill_leftovers(self, warden: int) -> bool:
        """Kill the processes of a warden that is gone. False if some may not have been found."""
        self.wake(warden)
        ours = os.getsid(0)
        self._kill_below(
            lambda pid, session: session == ours or (session in self._kernel_sessions and pid != warden), warden
        )
        return self.adopts

    async def close(self) -> None:
        """End everything that still runs. Takes little longer than CLOSE_BOUND."""
        if not self._guardian:
            return
        guardian, control = self._guardian
        word = b""
        with suppress(OSError, TimeoutError):
            self.wake()
            control.shutdown(socket.SHUT_WR)
            control.setblocking(False)
            async with asyncio.timeout(CLOSE_BOUND):
                word = await asyncio.get_running_loop().sock_recv(control, 1)
        if word != CLEAR or len(self._kernel_sessions) > 1:  # not all have ended, or there was another guardian before
            ours = os.getsid(0)
            self._kill_below(lambda _, session: session == ours)
            signal_each((guardian,), signal.SIGKILL)
        self.drop()
        _sessions_of_guardians.difference_update(self._kernel_sessions)
        asyncio.get_running_loop().call_later(_REAP_AFTER, _reap)  # it says that all has ended, and exits then

    def drop(self) -> None:
        """Forget the guardian and close the channel to it. It is not killed here."""
        if self._guardian:
            pid, control = self._guardian
            control.close()
            self._guardian = None
            _unreaped.add(pid)
        _reap()

    def _kill_below(self, spared: Spared, *roots: int) -> None:
        guardian = (self._guardian[0],) if self._guardian else ()
        engine = (os.getpid(),) if self.adopts else ()
        others = _sessions_of_guardians - self._kernel_sessions
        _unreaped.update(
            kill_tree(
                roots=(*engine, *guardian, *roots),
                spared=lambda pid, session: session in others or spared(pid, session),
            )
        )

    def _is_warden(self, warden: int) -> bool:
        """Whether this pid is still a warden. Pids are reused, but no other process can be in a guardian's session."""
        try:
            return os.getsid(warden) in self._kernel_sessions
        except OSError:
            return False

    def _spawn(self) -> tuple[int, socket.socket]:
        near, far = socket.socketpair()
        program = self._program or own_program("process.guardian")
        # No more of the environment than the interpreter needs: what is not there cannot be read from it.
        env = absolute_only({key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ})
        with far:
            pid = os.posix_spawn(
                program[0],
                program,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, far.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=(),
            )
        self._kernel_sessions.add(pid)
        _sessions_of_guardians.add(pid)
        self._before()  # while the guardian starts: it has no command yet
        self.adopts = self._adopt and adopt_orphans()
        return pid, near


def _reap() -> None:
    """Collect the exit codes of guardians that have ended, and of killed processes that became our children."""
    for pid in tuple(_unreaped):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _unreaped.discard(pid)
        except ChildProcessError:
            _unreaped.discard(pid)
