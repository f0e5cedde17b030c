"""The SDK's two streams over a child's standard streams: one JSON-RPC message a line.

Importing it loads the SDK.
"""

import asyncio
from collections import deque
from typing import Any

import anyio
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from polylect.mcp.large import LARGE, Pages, Response, call_result, limit_parts
from polylect.mcp.server_log import Remarks
from polylect.vocab.ports import Child
from polylect.wire.jsonl import Splitter, TooLong

MOST_NOISE = 1000
"""Lines that are no messages, after which it is not worth listening."""


class _Answer(msgspec.Struct):
    """As much of a message as is needed to see whose answer it is."""

    id: int | str
    method: str = ""


class _Stream:
    """What the SDK expects of both directions."""

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class Incoming(_Stream):
    """Messages from the server. Lines that are none are remarked on and skipped; servers do print banners."""

    def __init__(
        self, child: Child, asked: dict[RequestId, str], remarks: Remarks, lost: asyncio.Event, pages: Pages
    ) -> None:
        """`asked` holds the requests that are not answered: the method by the id."""
        self._child = child
        self._asked = asked
        self._pages = pages
        self._remarks = remarks
        self._lost = lost
        self._splitter = Splitter()
        self._lines: deque[bytes | TooLong] = deque()

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> SessionMessage:
        while not self._lost.is_set():
            await asyncio.sleep(0)  # however fast it talks, others have their turn (L4)
            while self._lines:
                if message := self._message(self._lines.popleft()):
                    return message
            data = await self._child.read()
            self._lines.extend(self._splitter.feed(data))
            if not data:
                self._lost.set()
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage:
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def _message(self, line: bytes | TooLong) -> SessionMessage | None:
        if isinstance(line, TooLong):
            self._noise(line.start, f"longer than {line.limit} bytes")
            return None
        if len(line) > LARGE and (large := self._large(line)):
            return large
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return self._broken(line)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if message.id not in self._asked:
                self._remarks.stray(message.id)
                return None
            self._asked.pop(message.id)
        if isinstance(message, JSONRPCResponse):
            limit_parts(message.result)  # 100 000 wrong parts fit into a short message, and take the SDK seconds
        return SessionMessage(message)

    def _large(self, line: bytes) -> SessionMessage | None:
        """A long answer that somebody waits for; None if it is anything else."""
        try:
            response = msgspec.json.decode(line, type=Response)
            if response.method or response.id not in self._asked:
                return None
            match self._asked[response.id]:
                case "tools/list":
                    result = self._pages.store(response.result)
                case "tools/call":
                    result = call_result(response.result)
                case _:
                    result = msgspec.json.decode(response.result, type=dict[str, Any])
        except msgspec.DecodeError:
            return None
        del self._asked[response.id]
        return SessionMessage(JSONRPCResponse.model_construct(jsonrpc="2.0", id=response.id, result=result))

    def _broken(self, line: bytes) -> SessionMessage | None:
        """Noise; but if it has the form of an answer, whoever waits for that is told at once."""
        self._noise(line, "no JSON-RPC message")
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except msgspec.DecodeError:
            return None
        if answer.method or answer.id not in self._asked:
            return None
        del self._asked[answer.id]
        error = ErrorData(code=PARSE_ERROR, message="the server's answer does not follow the protocol")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error))

    def _noise(self, line: bytes, why: str) -> None:
        if self._remarks.noise(line, why) >= MOST_NOISE:
            self._lost.set()


class Outgoing(_Stream):
    """Messages to the server. Whoever sends does not wait, and so cannot leave half a line behind when cancelled."""

    def __init__(self, child: Child, asked: dict[RequestId, str], lost: asyncio.Event) -> None:
        self._child = child
        self._asked = asked
        self._lost = lost
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._writing = asyncio.create_task(self._write())

    async def send(self, item: SessionMessage) -> None:
        if self._lost.is_set():
            raise anyio.BrokenResourceError
        if isinstance(item.message, JSONRPCRequest):
            self._asked[item.message.id] = item.message.method
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._waiting.put_nowait(line.encode() + b"\n")

    async def aclose(self) -> None:
        self._writing.cancel()

    async def _write(self) -> None:
        try:
            while True:
                await self._child.write(await self._waiting.get())
        except OSError:
            self._lost.set()
