"""The two directions of an HTTP transport: what has come and is not read yet, and what is being sent."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from polylect.mcp.transports.base import Failed, Outgoing
from polylect.mcp.values import ServerFault
from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import Id

_MOST_WAITING = 8
"""Messages of the server that wait to be read. Its streams are read no further until one of them is."""
_MOST_DELAY = 2.0
"""Seconds that a request waits for the end of the handshake."""
_MOST_UNSENT = 1000
"""Answers and notifications that wait because the server does not accept those before them."""

Incoming = bytes | TooLong | Failed


class Inbox:
    """Messages for the connection, from several streams, in a bounded queue that has an end."""

    def __init__(self) -> None:
        self.ended = False
        self._items: deque[Incoming] = deque()
        self._room = asyncio.Semaphore(_MOST_WAITING)
        """Serves those who wait in their order, so that a stream without end keeps no answer from coming in."""
        self._changed = asyncio.Event()

    async def put(self, item: Incoming) -> None:
        """Add a message. Waits while too many are unread. After the end it is dropped."""
        await self._room.acquire()
        if self.ended:
            self._room.release()  # for the next one that waits
        else:
            self._items.append(item)
            self._changed.set()

    async def get(self) -> Incoming | None:
        """The next message; None once there is none left and no other will come."""
        while not self._items and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._items:
            return None
        self._room.release()
        return self._items.popleft()

    async def end(self) -> None:
        """Nothing more will come. What has come can still be read."""
        if not self.ended:
            self.ended = True
            self._changed.set()
            self._room.release()  # all that wait are let through, one by one


class Outbox:
    """Messages for the server. `deliver` sends one of them, and reports by itself what became of it.

    Requests are sent at once and wait for nothing but the end of the handshake: a server may refuse what comes before
    `notifications/initialized` has reached it. Answers and notifications are sent one after the other.
    """

    def __init__(self, deliver: Callable[[Outgoing], Awaitable[None]]) -> None:
        self._deliver = deliver
        self._requests: dict[Id, asyncio.Task[None]] = {}
        self._others: asyncio.Queue[Outgoing] = asyncio.Queue()
        self._initialized = asyncio.Event()
        self._initialized.set()
        self._writer: asyncio.Task[None] | None = None

    def __contains__(self, id: Id) -> bool:
        return id in self._requests

    def send(self, message: Outgoing) -> None:
        """Queue a message. Raises ServerFault if too many wait."""
        if message.id is not None:
            self._requests[message.id] = asyncio.create_task(self._request(message))
            return
        if self._others.qsize() >= _MOST_UNSENT:
            raise ServerFault("the server does not accept messages")
        if message.method == "notifications/initialized":
            self._initialized.clear()
        self._others.put_nowait(message)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())

    def cancel(self, id: Id) -> None:
        if task := self._requests.pop(id, None):
            task.cancel()

    async def close(self) -> None:
        tasks = [*self._requests.values(), *filter(None, [self._writer])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _request(self, message: Outgoing) -> None:
        try:
            if not self._initialized.is_set():
                with suppress(TimeoutError):  # some servers do not answer notifications
                    async with asyncio.timeout(_MOST_DELAY):
                        await self._initialized.wait()
            await self._deliver(message)
        finally:
            if self._requests.get(message.id) is asyncio.current_task():
                del self._requests[message.id]

    async def _write(self) -> None:
        while True:
            message = await self._others.get()
            try:
                await self._deliver(message)
            finally:
                if message.method == "notifications/initialized":
                    self._initialized.set()
