"""The SDK's two streams to a server inside the host: each message is a call to the host, each answer its result.

Importing it loads the SDK.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from polylect.mcp.server_log import Remarks
from polylect.mcp.values import Fault, Place
from polylect.vocab.errors import PolylectError

_MOST_WAITING = 1000
"""Messages that nobody has read yet; a host that says more unasked is not listened to."""
_CANCELLED = "notifications/cancelled"


@asynccontextmanager
async def in_host(server: str, place: Place, remarks: Remarks) -> AsyncIterator[Any]:
    if place.host is None:
        raise Fault("this engine cannot reach servers inside its host")
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](_MOST_WAITING)
    async with heard, incoming:
        line = _Line(server, place, remarks, heard)
        place.inboxes[server] = line.hear
        try:
            yield incoming, line
        finally:
            if place.inboxes.get(server) == line.hear:
                del place.inboxes[server]
            await line.aclose()


class _Line:
    """The outgoing stream. Whoever sends does not wait for the host."""

    def __init__(
        self, server: str, place: Place, remarks: Remarks, heard: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        self._server = server
        self._ask = place.host
        self._remarks = remarks
        self._heard = heard
        self._asked: dict[RequestId, asyncio.Task[None]] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        told = message.model_dump(by_alias=True, exclude_unset=True, mode="json")
        if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._give_up((message.params or {}).get("requestId"))
        task = asyncio.create_task(self._put(told, message.id if isinstance(message, JSONRPCRequest) else None))
        if isinstance(message, JSONRPCRequest):
            self._asked[message.id] = task
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def hear(self, told: Any) -> None:
        """A message of the server's, asked for or not. What is none is remarked on and skipped."""
        try:
            message = jsonrpc_message_adapter.validate_python(told, by_name=False)
            self._heard.send_nowait(SessionMessage(message))
        except (ValueError, anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self._remarks.log(logging.WARNING, f"a message of the host's is lost: {str(error) or type(error).__name__}")

    async def aclose(self) -> None:
        for task in self._telling:
            task.cancel()

    async def __aenter__(self) -> "_Line":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _put(self, told: dict[str, Any], id: RequestId | None) -> None:
        assert self._ask
        try:
            found = await self._ask(self._server, told)
            if id is not None:
                self.hear(_answer(found.get("mcp_response", found) if isinstance(found, dict) else found, id))
        except PolylectError as error:
            if id is not None:
                self.hear(_failed(str(error), id))
        finally:
            if id is not None:
                self._asked.pop(id, None)

    def _give_up(self, id: Any) -> None:
        if task := self._asked.get(id):
            task.cancel()


def _answer(found: Any, id: RequestId) -> Any:
    """What the host has answered, or that it makes no sense: nothing else will come for this request."""
    try:
        message = jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValueError:
        return _failed("the host's answer is no message of this protocol", id)
    if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == id:
        return found
    return _failed("the host's answer is none to this request", id)


def _failed(why: str, id: RequestId) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": why}}
