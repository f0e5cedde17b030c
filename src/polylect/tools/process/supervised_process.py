"""One process below a warden: the channel to that warden, and the pipes."""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from polylect.tools.process.guardian_client import Guardians, Untaken
from polylect.tools.process.guardian_protocol import INTERRUPT
from polylect.tools.process.process_tree import signal_group
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

Stream = Literal["out", "err"]
_STREAMS: tuple[Stream, Stream] = ("out", "err")

STOP_BOUND = 2.0
"""Seconds after which a call counts as ended even if its warden does not say so."""
_CHUNK = 256 * 1024
_PIPE = 512 * 1024
"""Bytes that a command may be ahead of us: with the kernel's 64 KiB, a flood takes twice as long."""
_PIPE_MOST = 1024 * 1024
"""More than the kernel keeps in a pipe."""


class Call:
    """One command: its channel to the warden, and its two output pipes."""

    def __init__(
        self,
        program: str,
        on_output: Callable[[Stream, bytes], None],
        on_start: Callable[[int], None],
        guardians: Guardians,
    ) -> None:
        self.reach: Literal["", "tree", "group"] = ""
        self._program = program
        self._on_output = on_output
        self._on_start = on_start
        self._guardians = guardians
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._warden = 0
        self._pid = 0
        self._code = -9
        self._timed_out = False
        self._asked = False
        self._line = b""
        self._channel, self._far = socket.socketpair()
        self._channel.setblocking(False)
        self.pipes: dict[Stream, int] = {}
        """The near ends that are still open."""

    def lend(self, listen: Sequence[Stream] = _STREAMS) -> tuple[int, ...]:
        """The far ends, which go to the warden. Of the near ones, those to listen at are read from now on."""
        far = [self._far.detach()]
        for name in _STREAMS:
            near, end = _pipe()
            os.set_blocking(near, False)
            self.pipes[name] = near
            if name in listen:
                self._loop.add_reader(near, self.read, name)
            far.append(end)
        self._loop.add_reader(self._channel, self._hear)
        return tuple(far)

    async def ask(self, request: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._channel, request)
            self._asked = True
        except OSError:
            self._lose()

    async def finish(self, request: bytes, timeout: float) -> None:
        await self.ask(request)
        self._after(timeout, self._time_out)
        await asyncio.wait((self.over,))
        self.over.result()

    async def interrupt(self) -> None:
        """The ladder. Being cancelled once more on the way is not waited for: closing the channel kills."""
        if self._asked:
            self._press()
            await asyncio.wait((self.over,), timeout=STOP_BOUND)

    def exit(self) -> Exit:
        return Exit(self._code, self._timed_out)

    def close(self) -> None:
        self._overrule()
        for timer in self._timers:
            timer.cancel()
        for name in tuple(self.pipes):
            self._close_pipe(name)
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if not self.over.cancelled():
            self.over.exception()  # looked at, also where a cancelled call has no use for it

    def read(self, name: Stream) -> int:
        """Pass on what is there now, and say how much it was."""
        try:
            data = os.read(self.pipes[name], _CHUNK)
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
            case ["warden", pid]:
                self._warden = int(pid)
            case ["failed", number]:
                self._settle(ToolError(f"Could not start {self._program}: {os.strerror(int(number))}"))
            case ["started", pid, reach]:
                self.reach = "tree" if reach == "tree" else "group"
                self._pid = int(pid)
                self._on_start(self._pid)
            case ["ended", code]:
                self._code = int(code)
                self._after(STOP_BOUND, self._overrule)
            case ["clear"]:
                self._drain()
                self._settle()

    def _drain(self) -> None:
        """What is in the pipes now. Nobody is left to write more, except where custody reaches only the group."""
        for name in tuple(self.pipes):
            left = _PIPE_MOST
            while left > 0 and name in self.pipes and (size := self.read(name)):
                left -= size

    def _time_out(self) -> None:
        self._timed_out = True
        self._press()
        self._after(STOP_BOUND, self._overrule)

    def _press(self) -> None:
        self._guardians.wake(self._warden)
        with suppress(OSError):  # the warden is gone, and `_hear` will say so
            self._channel.send(INTERRUPT)

    def _overrule(self) -> None:
        """The warden had its time, or will not be given any."""
        if not self.over.done():
            self._guardians.overrule(self._warden)
            self._settle()

    def _lose(self) -> None:
        if not self._warden:
            self._settle(Untaken())
            return
        if self._pid:
            signal_group(self._pid, signal.SIGKILL)
        rest = "." if self._guardians.stand_in(self._warden) else ", but something that it started may still run."
        self._settle(ToolError(f"The process that watched over this command was killed, and the command with it{rest}"))

    def _settle(self, fault: Exception | None = None) -> None:
        if self.over.done():
            return
        self._loop.remove_reader(self._channel)
        if fault:
            self.over.set_exception(fault)
        else:
            self.over.set_result(None)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, act))

    def _close_pipe(self, name: Stream) -> None:
        number = self.pipes.pop(name, -1)
        if number >= 0:
            self._loop.remove_reader(number)
            os.close(number)


def _pipe() -> tuple[int, int]:
    near, far = os.pipe()
    with suppress(OSError, AttributeError):  # not on every system, and only so many for one user
        fcntl.fcntl(near, fcntl.F_SETPIPE_SZ, _PIPE)
    return near, far
