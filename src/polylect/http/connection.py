"""One connection to a server: writes a request, parses the answer as it comes.

An asyncio protocol around `wire/http1.py`, used by `client.py`. Reading pauses when too much is unread, so that a fast
server does not fill the memory.
"""

import asyncio
import socket
from typing import cast

from polylect.http.errors import HttpError, HttpFault
from polylect.wire.http1 import Response

_HIGH = 256 * 1024
"""So many bytes may wait for the consumer before the server is slowed down."""

_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds of silence after which the system asks whether the server is still there, and so on: a stream of events may
be silent for hours, and a network that is gone says nothing."""


class Connection(asyncio.Protocol):
    """One socket, and the response that is being read from it."""

    def __init__(self, place: str) -> None:
        self.transport: asyncio.Transport
        self.response = Response()
        self.has_data = False
        self.idle_since = 0.0
        self._place = place
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._fault: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, data: bytes, timeout: float) -> None:
        """Write a request and wait for the headers of its response."""
        self.response, self.has_data = Response(), False
        self._take()
        if self._fault is None:
            self.transport.write(data)
        while not self.response.status:
            if self._fault is not None:
                raise self._fault
            await self._wait(timeout)

    async def piece(self, timeout: float) -> bytes:
        """What has arrived of the body, at least one byte of it; nothing at its end."""
        while not self._parts:
            if self.response.done:
                return b""
            if self._fault is not None:
                raise self._fault
            await self._wait(timeout)
        return self._take()

    @property
    def reusable(self) -> bool:
        """The last response was read to its end, and the server will take another request."""
        fine = self._fault is None and not self.transport.is_closing()
        return fine and self.response.done and self.response.reusable

    def drop(self) -> None:
        self._fail("lost", "the connection was dropped")
        self.transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if hasattr(socket, name):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        self.has_data = True
        try:
            piece = self.response.feed(data)
        except ValueError as error:
            self._fail("not_http", f"{self._place} does not speak HTTP as it should ({error})")
            self.transport.abort()
            return
        if piece:
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > _HIGH and not self._paused:
                self._paused = True
                self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.response.end()
        self._fail("lost", f"{self._place} closed the connection before the answer was complete")

    def _take(self) -> bytes:
        piece = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return piece

    async def _wait(self, timeout: float) -> None:
        """A timeout of zero is none."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout, self._expire, timeout) if timeout else None
        try:
            await self._waiter
        finally:
            if timer:
                timer.cancel()
            self._waiter = None

    def _expire(self, timeout: float) -> None:
        self._fail("silent", f"{self._place} said nothing for {timeout:g} s")

    def _fail(self, kind: HttpFault, text: str) -> None:
        if self._fault is None:
            self._fault = HttpError(kind, text)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
