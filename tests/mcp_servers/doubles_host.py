"""A host with the SDK's server inside it: what the engine sends is handed over, what the server says comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter


class Inside:
    """`send` takes a message and returns the answer to it; what nobody asked for goes to `unasked`."""

    def __init__(self, into: Any) -> None:
        self.unasked: Callable[[Any], object] = lambda message: None
        self.received: list[dict[str, Any]] = []
        self._into = into
        self._waiting: dict[Any, asyncio.Future[Any]] = {}

    async def send(self, message: dict[str, Any]) -> Any:
        self.received.append(message)
        parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
        if not isinstance(parsed, JSONRPCRequest):
            await self._into.send(SessionMessage(parsed))
            return {"jsonrpc": "2.0", "result": {}}
        answer = self._waiting[parsed.id] = asyncio.get_running_loop().create_future()
        await self._into.send(SessionMessage(parsed))
        return {"mcp_response": await answer}

    async def listen(self, out: Any) -> None:
        async for item in out:
            frame = item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            waiting = None if "method" in frame else self._waiting.pop(frame["id"], None)
            if waiting is None:
                self.unasked(frame)
            elif not waiting.done():
                waiting.set_result(frame)


@asynccontextmanager
async def inside_host(server: MCPServer) -> AsyncIterator[Inside]:
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    outgoing, out = anyio.create_memory_object_stream[SessionMessage](100)
    lowlevel = server._lowlevel_server
    serving = asyncio.create_task(lowlevel.run(incoming, outgoing, lowlevel.create_initialization_options()))
    inside = Inside(into)
    listening = asyncio.create_task(inside.listen(out))
    async with out, outgoing, incoming:
        try:
            yield inside
        finally:
            await into.aclose()
            await asyncio.wait([serving])
            listening.cancel()
            await asyncio.wait([listening])
