"""A child process that stays and is written to and read from, in custody like any command.

MCP servers and workers are such children. `Custody.open` creates one. `close` ends its input, waits half a second, then
interrupts and kills; `kill` does not wait.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from polylect.tools.process.guardian_client import Guardians
from polylect.tools.process.supervised_process import Stream, SupervisedProcess

LEAVE_GRACE = 0.5
"""Seconds in which the process may exit by itself after its input has ended."""


class OpenChild:
    """The `Child` of the port. One task may read while another writes."""

    def __init__(
        self, program: str, on_error_output: Callable[[bytes], None], guardians: Guardians, stdin: int = -1
    ) -> None:
        """With `stdin`, that descriptor becomes the standard input, and there is no pipe to write to."""
        self.pid = 0
        self._other_stdin = stdin
        self._on_error_output = on_error_output
        self._process = SupervisedProcess(program, self._on_output, self._on_start, guardians)
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._stdin = -1
        self._buffer = b""
        self._closed = False

    @property
    def reach(self) -> Literal["", "tree", "group"]:
        return self._process.reach

    def open_pipes(self) -> tuple[int, ...]:
        if self._other_stdin >= 0:
            return (*self._process.open_pipes(listen=("err",)), os.dup(self._other_stdin))
        far, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        return (*self._process.open_pipes(listen=("err",)), far)

    async def start(self, request: bytes) -> None:
        """Return once the process runs. Raises ToolError if it cannot be started."""
        await self._process.send_request(request)
        started = asyncio.ensure_future(self._started.wait())
        try:
            await asyncio.wait((started, self._process.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if not self.pid:
            self._process.ended.result()

    async def read(self) -> bytes:
        await asyncio.sleep(0)  # a fast writer must not keep other tasks from running
        while not self._buffer and (pipe := self._process.pipes.get("out")) is not None:
            if self._process.read("out") or "out" not in self._process.pipes:
                continue
            if self._process.ended.done():  # a process out of custody's reach still holds the pipe
                return b""
            await self._wait_ready(self._loop.add_reader, self._loop.remove_reader, pipe)
        data, self._buffer = self._buffer, b""
        return data

    async def write(self, data: bytes) -> None:
        """Write to standard input. Raises BrokenPipeError once the process has ended."""
        left = memoryview(data)
        while left:
            if self._stdin < 0 or self._process.ended.done():
                raise BrokenPipeError("the process has ended")
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                await self._wait_ready(self._loop.add_writer, self._loop.remove_writer, self._stdin)

    async def close(self) -> None:
        """End the input and wait for the exit. A process that stays is interrupted, then killed."""
        self._close_input()
        try:
            await asyncio.wait((self._process.ended,), timeout=LEAVE_GRACE)
            if not self._process.ended.done():
                await self._process.interrupt()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process, if it still runs, without waiting."""
        self._close_input()
        if not self._closed:
            self._closed = True
            self._process.close()

    def _on_output(self, stream: Stream, data: bytes) -> None:
        if stream == "out":
            self._buffer += data
        else:
            self._on_error_output(data)

    def _on_start(self, pid: int) -> None:
        self.pid = pid
        self._started.set()

    async def _wait_ready(
        self, add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], bool], pipe: int
    ) -> None:
        """Wait until the pipe is ready or the process has ended."""
        ready = asyncio.Event()

        def on_end(_: object) -> None:
            ready.set()

        add(pipe, ready.set)
        self._process.ended.add_done_callback(on_end)
        try:
            await ready.wait()
        finally:
            self._process.ended.remove_done_callback(on_end)  # a child that stays is waited for a million times
            if pipe in (
                self._stdin,
                self._process.pipes.get("out"),
            ):  # else it was closed, and its number may be in use again
                remove(pipe)

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.remove_writer(self._stdin)
            with suppress(OSError):
                os.close(self._stdin)
            self._stdin = -1
