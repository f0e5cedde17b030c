"""The SDK's two streams to an MCP server that lives inside the host program.

Claude's wire lets a host offer such servers. Each message to the server becomes a call to the host, and the result of
that call is the server's answer. Messages that the server sends unasked arrive at `Servers.receive`, which passes them
to the stream by `ServerSetup.inboxes`. A request always gets an answer: where the host's result is no answer to it, the
SDK gets an error instead.

Importing this module loads the SDK. Called by `sdk_streams.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from polylect.mcp.server_log import ServerLog
from polylect.mcp.stdio_streams import SdkStream
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.system.tasks import TaskSet
from polylect.vocab.errors import PolylectError

_MOST_WAITING = 1000
"""Messages that the SDK has not read yet. Further ones are dropped, with a line in the log."""
_CANCELLED = "notifications/cancelled"
_Item = SessionMessage | Exception


@asynccontextmanager
async def host_streams(server: str, setup: ServerSetup, log: ServerLog) -> AsyncIterator[Any]:
    if setup.host is None:
        raise ServerFault("this engine cannot reach servers inside its host")
    sender, incoming = anyio.create_memory_object_stream[_Item](_MOST_WAITING)
    async with sender, incoming:
        stream = _HostStream(server, setup, log, sender)
        setup.inboxes[server] = stream.receive
        try:
            yield incoming, stream
        finally:
            if setup.inboxes.get(server) == stream.receive:
                del setup.inboxes[server]
            await stream.aclose()


class _HostStream(SdkStream):
    """The stream to the server. `send` does not wait for the host."""

    def __init__(self, server: str, setup: ServerSetup, log: ServerLog, sender: MemoryObjectSendStream[_Item]) -> None:
        self._server = server
        self._host = setup.host
        self._log = log
        self._sender = sender
        self._requests: dict[types.RequestId, asyncio.Task[None]] = {}
        self._tasks = TaskSet()

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        frame = message.model_dump(by_alias=True, exclude_unset=True, mode="json")
        if isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._cancel_request((message.params or {}).get("requestId"))
        task = self._tasks.start(
            self._call_host(frame, message.id if isinstance(message, types.JSONRPCRequest) else None)
        )
        if isinstance(message, types.JSONRPCRequest):
            self._requests[message.id] = task

    def receive(self, frame: Any) -> None:
        """Pass a message of the server to the SDK. What is no message is logged and skipped."""
        try:
            message = types.jsonrpc_message_adapter.validate_python(frame, by_name=False)
            self._sender.send_nowait(SessionMessage(message))
        except (ValueError, anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self._log.log(logging.WARNING, f"a message of the host's is lost: {str(error) or type(error).__name__}")

    async def aclose(self) -> None:
        self._tasks.cancel()

    async def _call_host(self, frame: dict[str, Any], id: types.RequestId | None) -> None:
        assert self._host
        try:
            result = await self._host(self._server, frame)
            if id is not None:
                self.receive(_answer(result.get("mcp_response", result) if isinstance(result, dict) else result, id))
        except PolylectError as error:
            if id is not None:
                self.receive(_failed(str(error), id))
        finally:
            if id is not None:
                self._requests.pop(id, None)

    def _cancel_request(self, id: Any) -> None:
        if task := self._requests.get(id):
            task.cancel()


def _answer(result: Any, id: types.RequestId) -> Any:
    """The host's result if it answers this request, else an error: no other answer will arrive for it."""
    try:
        message = types.jsonrpc_message_adapter.validate_python(result, by_name=False)
    except ValueError:
        return _failed("the host's answer is no message of this protocol", id)
    if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id == id:
        return result
    return _failed("the host's answer is none to this request", id)


def _failed(why: str, id: types.RequestId) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": types.INTERNAL_ERROR, "message": why}}
