"""The SDK's two streams over the standard streams of a child process: one JSON-RPC message per line.

They replace the SDK's own, which block on long lines and stop at the first line that is no message. Real servers print
banners on standard output, so such lines are logged and skipped, up to a limit. Long answers do not go through the SDK
(`large_results.py`). An answer that does not follow the protocol ends the request that waits for it at once.

Importing this module loads the SDK. Called by `sdk_streams.py`.
"""

import asyncio
from collections import deque
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.shared.message import SessionMessage

from polylect.mcp.large_results import LARGE, MOST_UNEXPECTED, Pages, limit_lists, read_response
from polylect.mcp.server_log import ServerLog
from polylect.vocab.ports import Child
from polylect.wire.jsonl import Splitter, TooLong

MOST_INVALID_LINES = 1000
"""Lines that are no messages, after which the connection is given up."""


class _AnswerId(msgspec.Struct):
    """The fields that tell which request a message answers."""

    id: int | str
    method: str = ""


class SdkStream:
    """What the SDK expects of a stream of either direction."""

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class Incoming(SdkStream):
    """Messages from the server. Lines that are no messages are logged and skipped."""

    def __init__(
        self, child: Child, pending: dict[types.RequestId, str], log: ServerLog, lost: asyncio.Event, pages: Pages
    ) -> None:
        """`pending` holds the requests without an answer: the method by the id."""
        self._child = child
        self._pending = pending
        self._pages = pages
        self._log = log
        self._lost = lost
        self._splitter = Splitter()
        self._lines: deque[bytes | TooLong] = deque()

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> SessionMessage:
        while not self._lost.is_set():
            await asyncio.sleep(0)  # a fast server must not keep other tasks from running (L4)
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
            self._invalid_lines(line.start, f"longer than {line.limit} bytes")
            return None
        if len(line) > LARGE and (large := self._large(line)):
            return large
        if len(line) > MOST_UNEXPECTED:
            return self._invalid(line)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return self._invalid(line)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            if message.id not in self._pending:
                self._log.unknown_answer(message.id)
                return None
            self._pending.pop(message.id)
        if isinstance(message, types.JSONRPCResponse):
            limit_lists(message.result)  # a short message can hold 100 000 wrong parts, which take the SDK seconds
        return SessionMessage(message)

    def _large(self, line: bytes) -> SessionMessage | None:
        """A long answer to a request of ours; None if the line is anything else."""
        response = read_response(line, self._pending.get, self._pages)
        if response is None:
            return None
        id, result = response
        del self._pending[id]
        return SessionMessage(types.JSONRPCResponse.model_construct(jsonrpc="2.0", id=id, result=result))

    def _invalid(self, line: bytes) -> SessionMessage | None:
        """Log the line. If it has the id of a request, that request gets an error at once."""
        self._invalid_lines(line, "no JSON-RPC message" if len(line) <= MOST_UNEXPECTED else "too long")
        try:
            answer = msgspec.json.decode(line, type=_AnswerId)
        except msgspec.DecodeError:
            return None
        if answer.method or answer.id not in self._pending:
            return None
        del self._pending[answer.id]
        error = types.ErrorData(code=types.PARSE_ERROR, message="the server's answer does not follow the protocol")
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=answer.id, error=error))

    def _invalid_lines(self, line: bytes, why: str) -> None:
        if self._log.invalid_line(line, why) >= MOST_INVALID_LINES:
            self._lost.set()


class Outgoing(SdkStream):
    """Messages to the server. `send` only queues, so a cancelled sender cannot leave half a line behind."""

    def __init__(self, child: Child, pending: dict[types.RequestId, str], lost: asyncio.Event) -> None:
        self._child = child
        self._pending = pending
        self._lost = lost
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._writer = asyncio.create_task(self._write())

    async def send(self, item: SessionMessage) -> None:
        if self._lost.is_set():
            raise anyio.BrokenResourceError
        if isinstance(item.message, types.JSONRPCRequest):
            self._pending[item.message.id] = item.message.method
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._queue.put_nowait(line.encode() + b"\n")

    async def aclose(self) -> None:
        self._writer.cancel()

    async def _write(self) -> None:
        try:
            while True:
                await self._child.write(await self._queue.get())
        except OSError:
            self._lost.set()
