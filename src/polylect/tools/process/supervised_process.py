"""One process below a warden, as the engine sees it: the channel to the warden and the pipes of the process.

The engine creates a `SupervisedProcess`, passes the far ends of its socket and pipes to the guardian, and sends the
request. The warden answers in lines (`guardian.py` lists them). `ended` is a future that completes when the process and
everything it started is gone, or fails with ToolError or `NotAccepted`.

If the warden does not end the process in time, or was killed, the engine does it (`guardian_client.py`). `Custody.run`
and `OpenChild` use this.
"""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from polylect.tools.process.guardian_client import Guardians, NotAccepted
from polylect.tools.process.guardian_protocol import INTERRUPT
from polylect.tools.process.process_tree import signal_group
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

Stream = Literal["out", "err"]
_STREAMS: tuple[Stream, Stream] = ("out", "err")

STOP_BOUND = 2.0
"""Seconds after which a process counts as ended even if its warden does not report it."""
_CHUNK = 256 * 1024
_PIPE = 512 * 1024
"""Bytes that a pipe holds. With the kernel's default of 64 KiB, a lot of output takes twice as long."""
_PIPE_MOST = 1024 * 1024
"""More bytes than any pipe holds."""


class SupervisedProcess:
    """One process: its channel to the warden, and its two output pipes."""

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
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._warden = 0
        self._pid = 0
        self._code = -9
        self._timed_out = False
        self._requested = False
        self._line = b""
        self._channel, self._far_end = socket.socketpair()
        self._channel.setblocking(False)
        self.pipes: dict[Stream, int] = {}
        """The near ends that are still open."""

    def open_pipes(self, listen: Sequence[Stream] = _STREAMS) -> tuple[int, ...]:
        """Create the pipes. Returns the far ends of channel and pipes, for the warden. Streams in `listen` are read at
        once."""
        far = [self._far_end.detach()]
        for name in _STREAMS:
            near, end = _pipe()
            os.set_blocking(near, False)
            self.pipes[name] = near
            if name in listen:
                self._loop.add_reader(near, self.read, name)
            far.append(end)
        self._loop.add_reader(self._channel, self._on_channel_data)
        return tuple(far)

    async def send_request(self, request: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._channel, request)
            self._requested = True
        except OSError:
            self._on_channel_lost()

    async def finish(self, request: bytes, timeout: float) -> None:
        await self.send_request(request)
        self._after(timeout, self._time_out)
        await asyncio.wait((self.ended,))
        self.ended.result()

    async def interrupt(self) -> None:
        """Ask the warden to interrupt, then kill, and wait for the end. If this is cancelled, closing the channel
        kills."""
        if self._requested:
            self._send_interrupt()
            await asyncio.wait((self.ended,), timeout=STOP_BOUND)

    def exit(self) -> Exit:
        return Exit(self._code, self._timed_out)

    def close(self) -> None:
        self._kill_by_engine()
        for timer in self._timers:
            timer.cancel()
        for name in tuple(self.pipes):
            self._close_pipe(name)
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if not self.ended.cancelled():
            self.ended.exception()  # else asyncio logs an exception that nobody awaited

    def read(self, name: Stream) -> int:
        """Pass on the data that is in the pipe now. Returns its size."""
        try:
            data = os.read(self.pipes[name], _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self._on_output(name, data)
        else:
            self._close_pipe(name)
        return len(data)

    def _on_channel_data(self) -> None:
        try:
            data = self._channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_channel_lost()
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode().split())

    def _on_line(self, words: list[str]) -> None:
        match words:
            case ["warden", pid]:
                self._warden = int(pid)
            case ["failed", number]:
                self._complete(ToolError(f"Could not start {self._program}: {os.strerror(int(number))}"))
            case ["started", pid, reach]:
                self.reach = "tree" if reach == "tree" else "group"
                self._pid = int(pid)
                self._on_start(self._pid)
            case ["ended", code]:
                self._code = int(code)
                self._after(STOP_BOUND, self._kill_by_engine)
            case ["clear"]:
                self._drain()
                self._complete()

    def _drain(self) -> None:
        """Read what is left in the pipes. Only where custody reaches just the process group can more arrive."""
        for name in tuple(self.pipes):
            left = _PIPE_MOST
            while left > 0 and name in self.pipes and (size := self.read(name)):
                left -= size

    def _time_out(self) -> None:
        self._timed_out = True
        self._send_interrupt()
        self._after(STOP_BOUND, self._kill_by_engine)

    def _send_interrupt(self) -> None:
        self._guardians.wake(self._warden)
        with suppress(OSError):  # the warden is gone, which `_on_channel_data` notices
            self._channel.send(INTERRUPT)

    def _kill_by_engine(self) -> None:
        """The warden was too late, or the process is being closed: kill from here."""
        if not self.ended.done():
            self._guardians.kill_warden(self._warden)
            self._complete()

    def _on_channel_lost(self) -> None:
        if not self._warden:
            self._complete(NotAccepted())
            return
        if self._pid:
            signal_group(self._pid, signal.SIGKILL)
        rest = "." if self._guardians.kill_leftovers(self._warden) else ", but something that it started may still run."
        self._complete(
            ToolError(f"The process that watched over this command was killed, and the command with it{rest}")
        )

    def _complete(self, fault: Exception | None = None) -> None:
        if self.ended.done():
            return
        self._loop.remove_reader(self._channel)
        if fault:
            self.ended.set_exception(fault)
        else:
            self.ended.set_result(None)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, act))

    def _close_pipe(self, name: Stream) -> None:
        number = self.pipes.pop(name, -1)
        if number >= 0:
            self._loop.remove_reader(number)
            os.close(number)


def _pipe() -> tuple[int, int]:
    near, far = os.pipe()
    with suppress(OSError, AttributeError):  # not on every system, and limited for each user
        fcntl.fcntl(near, fcntl.F_SETPIPE_SZ, _PIPE)
    return near, far
