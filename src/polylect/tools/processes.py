"""Runs commands below a guardian, so that nothing they start outlives the call, the engine or its crash (P1).

A command can still leave custody by asking someone else to work for it (cron, a container daemon), or by killing both
its warden and the guardian. Against that only a sandbox helps.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from polylect.tools.handover import INTERRUPT, pack
from polylect.tools.programs import find_program, own_program
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

Stream = Literal["out", "err"]

STOP_BOUND = 2.0
"""Seconds after which a call counts as ended even if its warden does not say so."""
CLOSE_BOUND = 1.2
_CHUNK = 65536
_PIPE_MOST = 1024 * 1024
"""More than the kernel keeps in a pipe."""


class Custody:
    """The `Processes` of an engine. Costs nothing until the first command."""

    def __init__(self, program: Sequence[str] = ()) -> None:
        self._program = list(program)
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
        program = find_program(argv[0], env)
        if not program:
            raise ToolError(f"There is no program {argv[0]!r} on this machine.")
        try:
            request = pack((program, *argv[1:]), cwd, env)
        except ValueError:
            raise ToolError("A command cannot contain NUL or half a character.") from None
        call = _Call(program, on_output, on_start)
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


class _Call:
    """One command: its channel to the warden, and its two output pipes."""

    def __init__(
        self, program: str, on_output: Callable[[Stream, bytes], None], on_start: Callable[[int], None]
    ) -> None:
        self.reach: Literal["", "tree", "group"] = ""
        self._program = program
        self._on_output = on_output
        self._on_start = on_start
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._pid = 0
        self._code = -9
        self._timed_out = False
        self._asked = False
        self._line = b""
        self._channel, self._far = socket.socketpair()
        self._channel.setblocking(False)
        self._pipes: dict[Stream, int] = {}

    def lend(self) -> tuple[int, int, int]:
        """The far ends, which go to the warden. Listens at the near ones from now on."""
        far = [self._far.detach()]
        names: tuple[Stream, Stream] = ("out", "err")
        for name in names:
            near, end = os.pipe()
            os.set_blocking(near, False)
            self._pipes[name] = near
            self._loop.add_reader(near, self._read, name)
            far.append(end)
        self._loop.add_reader(self._channel, self._hear)
        return far[0], far[1], far[2]

    async def finish(self, request: bytes, timeout: float) -> None:
        try:
            await self._loop.sock_sendall(self._channel, request)
            self._asked = True
        except OSError:
            self._lose()
        self._after(timeout, self._time_out)
        await asyncio.wait((self._over,))
        self._over.result()

    async def interrupt(self) -> None:
        """The ladder. Being cancelled once more on the way is not waited for: closing the channel kills."""
        if self._asked:
            self._say(INTERRUPT)
            await asyncio.wait((self._over,), timeout=STOP_BOUND)

    def exit(self) -> Exit:
        return Exit(self._code, self._timed_out)

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for name in tuple(self._pipes):
            self._close_pipe(name)
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if self._over.done() and not self._over.cancelled():
            self._over.exception()  # looked at, also where a cancelled call has no use for it

    def _read(self, name: Stream) -> int:
        try:
            data = os.read(self._pipes[name], _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self._on_output(name, data)
        else:
            self._close_pipe(name)
        return len(data)

    def _hear(self) -> None:
        try:
            data = self._channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._obey(line.decode().split())

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["failed", number]:
                self._settle(ToolError(f"Could not start {self._program}: {os.strerror(int(number))}"))
            case ["started", pid, reach]:
                self.reach = "tree" if reach == "tree" else "group"
                self._pid = int(pid)
                self._on_start(self._pid)
            case ["ended", code]:
                self._code = int(code)
                self._after(STOP_BOUND, self._settle)
            case ["clear"]:
                self._drain()
                self._settle()

    def _drain(self) -> None:
        """What is in the pipes now. Nobody is left to write more, except where custody reaches only the group."""
        for name in tuple(self._pipes):
            left = _PIPE_MOST
            while left > 0 and name in self._pipes and (size := self._read(name)):
                left -= size

    def _time_out(self) -> None:
        self._timed_out = True
        self._say(INTERRUPT)
        self._after(STOP_BOUND, self._settle)

    def _lose(self) -> None:
        if self._pid:  # the guardian ends the tree; if it was killed as well, the group is what can still be reached
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        self._settle(ToolError("The process that watched over this command was killed, and the command with it."))

    def _settle(self, fault: Exception | None = None) -> None:
        if self._over.done():
            return
        self._loop.remove_reader(self._channel)
        if fault:
            self._over.set_exception(fault)
        else:
            self._over.set_result(None)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, act))

    def _say(self, word: bytes) -> None:
        with suppress(OSError):  # the warden is gone, and `_hear` will say so
            self._channel.send(word)

    def _close_pipe(self, name: Stream) -> None:
        number = self._pipes.pop(name, -1)
        if number >= 0:
            self._loop.remove_reader(number)
            os.close(number)
