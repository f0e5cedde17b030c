"""A process that stays and is talked to, in the same custody as those that run and end."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from polylect.tools.process.guardian_client import Guardians
from polylect.tools.process.supervised_process import Call, Stream

LEAVE_GRACE = 0.5
"""Seconds that it has to leave by itself once its input has ended."""


class OpenChild:
    """The `Child` of the port. One task may read while another writes."""

    def __init__(
        self, program: str, on_error_output: Callable[[bytes], None], guardians: Guardians, stdin: int = -1
    ) -> None:
        """With `stdin`, that descriptor becomes its standard input in the place of a pipe of ours."""
        self.pid = 0
        self._other_stdin = stdin
        self._on_error_output = on_error_output
        self._call = Call(program, self._take, self._begin, guardians)
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._stdin = -1
        self._kept = b""
        self._gone = False

    @property
    def reach(self) -> Literal["", "tree", "group"]:
        return self._call.reach

    def lend(self) -> tuple[int, ...]:
        if self._other_stdin >= 0:
            return (*self._call.lend(listen=("err",)), os.dup(self._other_stdin))
        far, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        return (*self._call.lend(listen=("err",)), far)

    async def start(self, request: bytes) -> None:
        """Until it runs. Raises ToolError if it cannot."""
        await self._call.ask(request)
        started = asyncio.ensure_future(self._started.wait())
        try:
            await asyncio.wait((started, self._call.over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if not self.pid:
            self._call.over.result()

    async def read(self) -> bytes:
        await asyncio.sleep(0)  # who writes faster than it is read would have the loop for itself
        while not self._kept and (pipe := self._call.pipes.get("out")) is not None:
            if self._call.read("out") or "out" not in self._call.pipes:
                continue
            if self._call.over.done():  # someone out of reach holds the pipe
                return b""
            await self._until(self._loop.add_reader, self._loop.remove_reader, pipe)
        data, self._kept = self._kept, b""
        return data

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError once nobody reads it any more."""
        left = memoryview(data)
        while left:
            if self._stdin < 0 or self._call.over.done():
                raise BrokenPipeError("the process has ended")
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                await self._until(self._loop.add_writer, self._loop.remove_writer, self._stdin)

    async def close(self) -> None:
        """The end of its input is the sign to leave; whoever stays is interrupted, then killed."""
        self._close_input()
        try:
            await asyncio.wait((self._call.over,), timeout=LEAVE_GRACE)
            if not self._call.over.done():
                await self._call.interrupt()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Kill it, if it still runs, and wait for nothing."""
        self._close_input()
        if not self._gone:
            self._gone = True
            self._call.close()

    def _take(self, stream: Stream, data: bytes) -> None:
        if stream == "out":
            self._kept += data
        else:
            self._on_error_output(data)

    def _begin(self, pid: int) -> None:
        self.pid = pid
        self._started.set()

    async def _until(
        self, add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], bool], pipe: int
    ) -> None:
        """Until the pipe is ready or the process is over."""
        ready = asyncio.Event()
        add(pipe, ready.set)
        self._call.over.add_done_callback(lambda _: ready.set())
        try:
            await ready.wait()
        finally:
            if pipe in (self._stdin, self._call.pipes.get("out")):  # else it is closed, and its number someone else's
                remove(pipe)

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.remove_writer(self._stdin)
            with suppress(OSError):
                os.close(self._stdin)
            self._stdin = -1
