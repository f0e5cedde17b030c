"""Runs commands below a guardian, so that nothing they start outlives the call, the engine or its crash (P1).

A command can still leave custody by asking someone else to work for it (cron, a container daemon), or by killing both
its warden and the guardian. Against that only a sandbox helps.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from polylect.tools.call import Call, Stream
from polylect.tools.child import OpenChild
from polylect.tools.handover import pack
from polylect.tools.programs import find_program, own_program
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

CLOSE_BOUND = 1.2


class Custody:
    """The `Processes` and the `Children` of an engine. Costs nothing until the first command.

    `before` is called before anything is started.
    """

    def __init__(self, program: Sequence[str] = (), *, before: Callable[[], None] = lambda: None) -> None:
        self._program = list(program)
        self._before = before
        self._guardian: tuple[int, socket.socket] | None = None
        self.reach: Literal["", "tree", "group"] = ""
        """What ends with a call, known after the first: its whole tree, or only its process group."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        on_output: Callable[[Stream, bytes], None],
        on_start: Callable[[int], None] = lambda pid: None,
    ) -> Exit:
        program, request = _request(argv, cwd, env)
        call = Call(program, on_output, on_start)
        try:
            self._hand_over(call.lend())
            await call.finish(request, timeout)
        except asyncio.CancelledError:
            await call.interrupt()
            raise
        finally:
            call.close()
            self.reach = call.reach or self.reach
        return call.exit()

    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_error_output: Callable[[bytes], None],
    ) -> OpenChild:
        program, request = _request(argv, cwd, env)
        child = OpenChild(program, on_error_output)
        try:
            self._hand_over(child.lend())
            await child.start(request)
        except BaseException:
            child.let_go()
            raise
        self.reach = child.reach or self.reach
        return child

    async def close(self) -> None:
        """End everything that still runs. Never takes longer than CLOSE_BOUND."""
        if not self._guardian:
            return
        control = self._guardian[1]
        with suppress(OSError, TimeoutError):
            control.shutdown(socket.SHUT_WR)
            control.setblocking(False)
            async with asyncio.timeout(CLOSE_BOUND):
                await asyncio.get_running_loop().sock_recv(control, 1)
        self._dismiss()

    def _hand_over(self, descriptors: Sequence[int]) -> None:
        """Give a call to the guardian, or to a new one if it was killed: its wardens go on without it."""
        try:
            for _ in range(2):
                control = self._guardian[1] if self._guardian else self._appoint()
                try:
                    socket.send_fds(control, [b"c"], descriptors)
                    return
                except OSError:
                    self._dismiss()
            raise ToolError("Commands cannot be run: the process that watches over them does not stay alive.")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _appoint(self) -> socket.socket:
        self._before()
        ours, theirs = socket.socketpair()
        program = self._program or own_program("guardian")
        # No more of the environment than the interpreter needs: what is not there cannot be read from it.
        env = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
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
        self._guardian = pid, ours
        return ours

    def _dismiss(self) -> None:
        if self._guardian:
            pid, control = self._guardian
            control.close()
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # or it is our zombie, and ends with us
            self._guardian = None


def _request(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> tuple[str, bytes]:
    """The program's path, and what its warden is told."""
    program = find_program(argv[0], env)
    if not program:
        raise ToolError(f"There is no program {argv[0]!r} on this machine.")
    try:
        return program, pack((program, *argv[1:]), cwd, env)
    except ValueError:
        raise ToolError("A command cannot contain NUL or half a character.") from None
