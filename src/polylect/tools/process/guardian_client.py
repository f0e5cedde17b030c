"""The engine's side of its guardian: appoints one when it is needed, and steps in where one was put out of action (P1).

A command that runs with the user's rights can stop or kill its warden and the guardian. What is stopped is woken before
it is spoken to. What wardens leave that are gone or do not answer is found below the guardian, or below the engine if
that adopts orphans, and is ended from here.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from polylect.system.search_paths import absolute_only
from polylect.tools.process.guardian_protocol import CLEAR
from polylect.tools.process.process_tree import Spared, adopt_orphans, kill_tree, signal_each
from polylect.tools.process.programs import own_program

CLOSE_BOUND = 1.2


class Untaken(Exception):
    """The guardian was gone before it took up a call. Nothing was started, and another one can be asked."""


class Guardians:
    """One at a time. Costs nothing until the first call."""

    def __init__(self, program: Sequence[str], before: Callable[[], None], *, adopt: bool) -> None:
        self.adopts = False
        """Whether nobody gets away even if a guardian is killed. Known once there is one."""
        self._program = list(program)
        self._before = before
        self._adopt = adopt
        self._now: tuple[int, socket.socket] | None = None
        self._all: set[int] = set()
        """Every guardian there was: their sessions are those of the wardens."""
        self._killed: set[int] = set()

    def hand_over(self, descriptors: Sequence[int]) -> None:
        """Give a call to the guardian. Raises Untaken if that was killed: its wardens go on without it."""
        self._bury()
        try:
            pid, control = self._now or self._appoint()
            signal_each((pid,), signal.SIGCONT)
            try:
                socket.send_fds(control, [b"c"], descriptors)
            except OSError:
                self.dismiss()
                raise Untaken from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def wake(self, warden: int = 0) -> None:
        """Let the guardian and this warden go on, if somebody stopped them."""
        if self._now:
            signal_each((self._now[0],), signal.SIGCONT)
        if self._is_ours(warden):
            signal_each((warden,), signal.SIGCONT)

    def overrule(self, warden: int) -> None:
        """End a warden that does not answer, and all that is below it."""
        if self._is_ours(warden):
            kill_tree(roots=(warden,))
            signal_each((warden,), signal.SIGKILL)
        self.wake(warden)

    def stand_in(self, warden: int) -> bool:
        """End what a warden that is gone has left behind. False if somebody may have got away."""
        self.wake(warden)
        ours = os.getsid(0)
        self._sweep(lambda pid, session: session == ours or (session in self._all and pid != warden), warden)
        return self.adopts

    async def close(self) -> None:
        """End everything that still runs. Takes no longer than CLOSE_BOUND and moments."""
        if not self._now:
            return
        guardian, control = self._now
        word = b""
        with suppress(OSError, TimeoutError):
            self.wake()
            control.shutdown(socket.SHUT_WR)
            control.setblocking(False)
            async with asyncio.timeout(CLOSE_BOUND):
                word = await asyncio.get_running_loop().sock_recv(control, 1)
        if word != CLEAR or len(self._all) > 1:  # it did not see to the end of all, or there was one before it
            ours = os.getsid(0)
            self._sweep(lambda _, session: session == ours)
            signal_each((guardian,), signal.SIGKILL)
        self.dismiss()

    def dismiss(self) -> None:
        if self._now:
            pid, control = self._now
            control.close()
            self._now = None
            self._killed.add(pid)
        self._bury()

    def _sweep(self, spared: Spared, *roots: int) -> None:
        guardian = (self._now[0],) if self._now else ()
        engine = (os.getpid(),) if self.adopts else ()
        self._killed |= kill_tree(roots=(*engine, *guardian, *roots), spared=spared)

    def _is_ours(self, warden: int) -> bool:
        """A number may be someone else's by now; a session cannot be joined."""
        try:
            return os.getsid(warden) in self._all
        except OSError:
            return False

    def _bury(self) -> None:
        """Those who ended as our children, which they do where we adopt."""
        for pid in tuple(self._killed):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._killed.discard(pid)
            except ChildProcessError:
                self._killed.discard(pid)

    def _appoint(self) -> tuple[int, socket.socket]:
        self._before()
        self.adopts = self._adopt and adopt_orphans()
        ours, theirs = socket.socketpair()
        program = self._program or own_program("process.guardian")
        # No more of the environment than the interpreter needs: what is not there cannot be read from it.
        env = absolute_only({key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ})
        with theirs:
            pid = os.posix_spawn(
                program[0],
                program,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=(),
            )
        self._all.add(pid)
        self._now = pid, ours
        return self._now
