"""Reads stdin and writes stdout of an engine process without blocking the event loop.

Everything that is ready is written in one write. Memory stays bounded when a host reads slowly: above `HIGH` unread
bytes the engine waits before it asks the model for more, above `FLOOD` no more input is read either (T8). `serve.py`
uses one `Outgoing`, `read` and `closed` for each conversation.
"""

import asyncio
import os
import select
import stat
from collections.abc import Awaitable, Callable

HIGH = 1024 * 1024
"""Above this many unread bytes, `wait_writable` waits, so that a slow host slows the model down."""
LOW = HIGH // 4
FLOOD = 4 * HIGH
"""Above this many unread bytes, input is not read either, because the answers to it would fill the memory."""
_PEER_CLOSED = getattr(select, "EPOLLRDHUP", 0)
"""The peer has closed its sending half of a socket."""
_READ_BYTES = 16 * 1024
"""Small, because the answers to one read are made at once and can be seventy times as long."""


class Outgoing:
    """Writes bytes to the host.

    `fill` returns the bytes that are ready; it is called after each `wake`. `due` says after how many milliseconds it
    has to be called again, if it holds something back. `broken` is called once, when the host has closed its end.
    """

    def __init__(
        self,
        descriptor: int,
        fill: Callable[[], bytes],
        broken: Callable[[], None],
        due: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._descriptor = descriptor
        self._fill = fill
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self._report_broken = broken
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._written = 0
        self._scheduled = False
        self._watching = False
        self._is_broken = False
        self._writable_event = asyncio.Event()
        self._writable_event.set()
        self._progress = asyncio.Event()
        self._pollable = _pollable(descriptor)
        os.set_blocking(descriptor, not self._pollable)
        self._hangup_poll = _hangup_poll(descriptor) if self._pollable else None
        if self._hangup_poll:
            self._loop.add_reader(self._hangup_poll, self._on_broken)

    def wake(self) -> None:
        """Schedules a write. Everything that is ready by the next turn of the event loop goes into one write."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def wait_writable(self, most: int = HIGH) -> None:
        """Returns at once while less than `most` waits to be read, else when the host has read enough."""
        if self._scheduled:
            self._flush()  # what is not in the buffer yet would not be counted
        if len(self._buffer) > most:
            self._writable_event.clear()
            await self._writable_event.wait()

    def full(self) -> bool:
        """Whether more than FLOOD bytes are unread, so that long answers have to wait."""
        if self._scheduled:
            self._flush()
        return len(self._buffer) > FLOOD

    @property
    def unwritten(self) -> int:
        """The number of bytes that are not in the pipe yet."""
        return len(self._buffer)

    async def stalled(self, patience: float) -> None:
        """Returns when the host has not read a byte for `patience` seconds, though there was something to read."""
        last, changed = -1, 0.0
        while not self._is_broken:
            now = self._loop.time()
            if not self._buffer or self._bytes_read() != last:
                last, changed = self._bytes_read(), now
            elif now - changed >= patience:
                return
            await asyncio.sleep(min(patience / 10, 1.0))

    async def drain(self, patience: float) -> None:
        """Returns when all is written, or when the host has not read a byte for `patience` seconds."""
        self._flush()
        stalled = asyncio.create_task(self.stalled(patience))
        while self._buffer and not stalled.done():
            self._progress.clear()
            progress = asyncio.create_task(self._progress.wait())
            await asyncio.wait([stalled, progress], return_when=asyncio.FIRST_COMPLETED)
            progress.cancel()
        stalled.cancel()

    def _bytes_read(self) -> int:
        """The bytes that the host has read. Writes do not show it: a pipe accepts more only when a page is free."""
        return self._written - unread_bytes(self._descriptor)

    def _flush(self) -> None:
        self._scheduled = False
        if self._is_broken:
            self._fill()
            return
        if data := self._fill():
            if self._buffer:
                self._buffer += data
            else:
                written = self._write(data)
                self._buffer += memoryview(data)[written:]
        self._watch()
        if self._timer is None and (wait := self._due()) is not None:
            self._timer = self._loop.call_later(wait / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()

    def _writable(self) -> None:
        written = self._write(self._buffer)
        del self._buffer[:written]
        if written:
            self._progress.set()
        if len(self._buffer) <= LOW:
            self._writable_event.set()
        self._watch()

    def _write(self, data: bytes | bytearray) -> int:
        """Writes as much as the pipe accepts and returns that number of bytes."""
        written = 0
        try:
            with memoryview(data) as view:
                while written < len(view):
                    written += os.write(self._descriptor, view[written:])
        except BlockingIOError:
            pass
        except OSError:
            self._on_broken()
            return len(data)
        self._written += written
        return written

    def _watch(self) -> None:
        needed = bool(self._buffer)
        if needed != self._watching and self._pollable:
            self._watching = needed
            if needed:
                self._loop.add_writer(self._descriptor, self._writable)
            else:
                self._loop.remove_writer(self._descriptor)

    def _on_broken(self) -> None:
        """The host has closed its end: drops the buffer and wakes everybody who waits."""
        if self._is_broken:
            return
        self._is_broken = True
        self._buffer.clear()
        self._watch()
        if self._hangup_poll:
            self._loop.remove_reader(self._hangup_poll)
            self._hangup_poll.close()
        self._writable_event.set()
        self._progress.set()
        self._loop.call_soon(self._report_broken)


async def read(
    descriptor: int, receive: Callable[[bytes], None], wait_writable: Callable[[int], Awaitable[None]]
) -> None:
    """Calls `receive` with what comes in until it ends. Leaves it in the pipe while too much output is unread."""
    if not _pollable(descriptor):
        while data := os.read(descriptor, _READ_BYTES):  # reading a file or /dev/null never blocks
            receive(data)
            await asyncio.sleep(0)
        return
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    try:
        while (data := await _next(descriptor, loop)) != b"":
            receive(data)
            await wait_writable(FLOOD)
    finally:
        os.set_blocking(descriptor, True)


async def _next(descriptor: int, loop: asyncio.AbstractEventLoop) -> bytes:
    while True:
        try:
            return os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_reader(descriptor, ready.set_result, None)
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
        except OSError:
            return b""


async def closed(descriptor: int) -> None:
    """Returns when nobody can write to this input any more, also while earlier input is still unread.

    Waits for ever where the system does not tell; there only reading to the end shows it.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    poll = _hangup_poll(descriptor, _PEER_CLOSED) if _pollable(descriptor) else None
    if poll is None:
        await ended.wait()
        return
    loop.add_reader(poll, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(poll)
        poll.close()


def unread_bytes(descriptor: int) -> int:
    """The number of bytes in a pipe or socket that its reader has not read; 0 where the system does not tell."""
    from array import array
    from fcntl import ioctl
    from termios import FIONREAD, TIOCOUTQ  # the latter is SIOCOUTQ for sockets

    count = array("i", [0])
    try:
        ioctl(descriptor, FIONREAD if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else TIOCOUTQ, count)
    except OSError:
        pass
    return count[0]


def _hangup_poll(descriptor: int, events: int = 0) -> "select.epoll | None":
    """A poll object that is readable once the other end is closed, even while nothing is written."""
    if not hasattr(select, "epoll"):
        return None
    poll = select.epoll()
    poll.register(descriptor, events)  # errors and hang-ups are always reported
    return poll


def _pollable(descriptor: int) -> bool:
    """Whether the operating system can poll the descriptor. It cannot for files and /dev/null."""
    if not hasattr(select, "epoll"):
        return not os.path.isfile(f"/dev/fd/{descriptor}")
    poll = select.epoll()
    try:
        poll.register(descriptor)
    except PermissionError:
        return False
    finally:
        poll.close()
    return True
