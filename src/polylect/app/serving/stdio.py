"""Our two ends of the pipe: reading without blocking, writing everything that is ready in one go."""

import asyncio
import os
import select
import stat
from collections.abc import Awaitable, Callable

HIGH = 1024 * 1024
"""Above this much unread output, producers wait: a slow host slows the model down."""
LOW = HIGH // 4
FLOOD = 4 * HIGH
"""Above this much, input is not read either: answers to it would have nowhere to go."""
_HALF_CLOSED = getattr(select, "EPOLLRDHUP", 0)
"""A peer that has ended its half of a socket."""
_READ = 16 * 1024
"""Little, because answers can be seventy times as long, and all to one read are made at once."""


class Outgoing:
    """Bytes on their way to the host. `fill` is asked for more whenever something may be ready.

    `due` says in how many milliseconds it has to be asked again, if it holds something back.
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
        self._alarm: asyncio.TimerHandle | None = None
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._written = 0
        self._scheduled = False
        self._watching = False
        self._dead = False
        self._room = asyncio.Event()
        self._room.set()
        self._progress = asyncio.Event()
        self._pollable = _pollable(descriptor)
        os.set_blocking(descriptor, not self._pollable)
        self._bell = _bell(descriptor) if self._pollable else None
        if self._bell:
            self._loop.add_reader(self._bell, self._die)

    def wake(self) -> None:
        """Something was said. It is written once whoever says it has no more to say for now."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def wait_writable(self, most: int = HIGH) -> None:
        """Returns at once while less than `most` waits to be read, else when the host has read enough."""
        if self._scheduled:
            self._flush()  # whoever asks has said all for now; what is not in the buffer would not be counted
        if len(self._buffer) > most:
            self._room.clear()
            await self._room.wait()

    def full(self) -> bool:
        """Whether so much waits to be read that long answers have to wait too."""
        if self._scheduled:
            self._flush()
        return len(self._buffer) > FLOOD

    @property
    def unwritten(self) -> int:
        """Bytes that the pipe has not taken."""
        return len(self._buffer)

    async def stalled(self, patience: float) -> None:
        """Returns when the host has not read a byte for so many seconds, though there is something to read."""
        read, since = -1, 0.0
        while not self._dead:
            now = self._loop.time()
            if not self._buffer or self._read() != read:
                read, since = self._read(), now
            elif now - since >= patience:
                return
            await asyncio.sleep(min(patience / 10, 1.0))

    async def drain(self, patience: float) -> None:
        """Returns when all is written, or when the host has not read a byte for so many seconds."""
        self._flush()
        stalled = asyncio.create_task(self.stalled(patience))
        while self._buffer and not stalled.done():
            self._progress.clear()
            progress = asyncio.create_task(self._progress.wait())
            await asyncio.wait([stalled, progress], return_when=asyncio.FIRST_COMPLETED)
            progress.cancel()
        stalled.cancel()

    def _read(self) -> int:
        """Bytes that the host has read. What the pipe takes is no measure: it takes more once a whole page is free."""
        return self._written - _unread(self._descriptor)

    def _flush(self) -> None:
        self._scheduled = False
        if self._dead:
            self._fill()
            return
        if data := self._fill():
            if self._buffer:
                self._buffer += data
            else:
                written = self._write(data)
                self._buffer += memoryview(data)[written:]
        self._watch()
        if self._alarm is None and (wait := self._due()) is not None:
            self._alarm = self._loop.call_later(wait / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()

    def _writable(self) -> None:
        written = self._write(self._buffer)
        del self._buffer[:written]
        if written:
            self._progress.set()
        if len(self._buffer) <= LOW:
            self._room.set()
        self._watch()

    def _write(self, data: bytes | bytearray) -> int:
        """As much as the pipe takes."""
        written = 0
        try:
            with memoryview(data) as view:
                while written < len(view):
                    written += os.write(self._descriptor, view[written:])
        except BlockingIOError:
            pass
        except OSError:
            self._die()
            return len(data)
        self._written += written
        return written

    def _watch(self) -> None:
        wanted = bool(self._buffer)
        if wanted != self._watching and self._pollable:
            self._watching = wanted
            if wanted:
                self._loop.add_writer(self._descriptor, self._writable)
            else:
                self._loop.remove_writer(self._descriptor)

    def _die(self) -> None:
        """The host is gone. Nobody waits for it any longer."""
        if self._dead:
            return
        self._dead = True
        self._buffer.clear()
        self._watch()
        if self._bell:
            self._loop.remove_reader(self._bell)
            self._bell.close()
        self._room.set()
        self._progress.set()
        self._loop.call_soon(self._broken)


async def read(descriptor: int, take: Callable[[bytes], None], wait_writable: Callable[[int], Awaitable[None]]) -> None:
    """Hand over what comes in until it ends. While there is no room for answers, leave it in the pipe."""
    if not _pollable(descriptor):
        while data := os.read(descriptor, _READ):  # a file or /dev/null never keeps anyone waiting
            take(data)
            await asyncio.sleep(0)
        return
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    try:
        while (data := await _next(descriptor, loop)) != b"":
            take(data)
            await wait_writable(FLOOD)
    finally:
        os.set_blocking(descriptor, True)


async def _next(descriptor: int, loop: asyncio.AbstractEventLoop) -> bytes:
    while True:
        try:
            return os.read(descriptor, _READ)
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
    """Returns when nobody can write to this input any more, also while what was written is still unread.

    Waits for ever where the system does not tell; there only reading to the end shows it.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    bell = _bell(descriptor, _HALF_CLOSED) if _pollable(descriptor) else None
    if bell is None:
        await ended.wait()
        return
    loop.add_reader(bell, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(bell)
        bell.close()


def _unread(descriptor: int) -> int:
    """Bytes in a pipe or socket that its reader has not taken yet; 0 where the system does not tell."""
    from array import array
    from fcntl import ioctl
    from termios import FIONREAD, TIOCOUTQ  # the latter is SIOCOUTQ for sockets

    count = array("i", [0])
    try:
        ioctl(descriptor, FIONREAD if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else TIOCOUTQ, count)
    except OSError:
        pass
    return count[0]


def _bell(descriptor: int, events: int = 0) -> "select.epoll | None":
    """Readable once the other end is gone: a host that left is noticed even while there is nothing to say."""
    if not hasattr(select, "epoll"):
        return None
    bell = select.epoll()
    bell.register(descriptor, events)  # errors and hang-ups are told without being asked for
    return bell


def _pollable(descriptor: int) -> bool:
    """Whether the operating system can tell when it is ready: not for files and /dev/null."""
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
