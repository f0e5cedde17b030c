"""Limits the bodies of an MCP server's HTTP answers before the SDK reads them.

The SDK reads a whole body, or a whole server-sent event, and checks it with pydantic in one piece. So each body passes
through here: it may not grow beyond the longest line of a server on a pipe, compressed bodies are refused, and a long
answer is replaced by the limited one that `large_results.py` makes of it. `sdk_streams.py` adds the two hooks to the
HTTP client. Importing this module loads the HTTP client.
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import msgspec

from polylect.mcp.large_results import LARGE, MOST_UNEXPECTED, Pages, read_response
from polylect.wire.jsonl import MAX_LINE

_MOST_REQUESTS = 1000
_END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_PARSE_ERROR = -32700


class _Head(msgspec.Struct):
    """As much of a message as tells what it is about."""

    id: int | str | None = None
    method: str = ""


class Bodies:
    """Hooks for one HTTP client."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._methods: dict[int | str, str] = {}
        """The latest requests: the method by the id. The older SSE transport answers them on another stream."""

    async def on_request(self, request: httpx2.Request) -> None:
        head = _head_of(request)
        if head.id is not None:
            self._methods[head.id] = head.method
            while len(self._methods) > _MOST_REQUESTS:
                del self._methods[next(iter(self._methods))]

    async def on_response(self, response: httpx2.Response) -> None:
        """Raises httpx2.DecodingError for a compressed body: it could grow without limit."""
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise httpx2.DecodingError("the server compresses its answers, and was asked not to")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        method = _head_of(response.request).method  # an answer to a POST is one to its request, whatever its id says
        methods = (lambda id: method) if method else self._methods.get
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _LimitedBody(response.stream, methods, self._pages, events=events)


class _LimitedBody(httpx2.AsyncByteStream):
    """A body, in one piece, or event by event. Iterating raises httpx2.StreamError if one of them is too long."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        method_of: Callable[[int | str], str | None],
        pages: Pages,
        *,
        events: bool,
    ) -> None:
        self._stream = stream
        self._method_of = method_of
        self._pages = pages
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer, searched = bytearray(), 0
        async for chunk in self._stream:
            buffer += chunk
            begin = 0
            for end in _END_OF_EVENT.finditer(buffer, searched) if self._events else ():
                yield self._limited_event(bytes(buffer[begin : end.end()]))
                begin = end.end()
            del buffer[:begin]
            searched = max(0, len(buffer) - 3)
            if len(buffer) > MAX_LINE:
                raise httpx2.StreamError(f"the server's answer is longer than {MAX_LINE} bytes")
        if buffer:
            yield self._limited_event(bytes(buffer)) if self._events else self._limited(bytes(buffer))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _limited_event(self, event: bytes) -> bytes:
        if len(event) <= LARGE:
            return event
        lines = event.splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        rest = [line for line in lines if line and not line.startswith(b"data:")]
        return b"\n".join((*rest, b"data: " + self._limited(data), b"", b""))

    def _limited(self, message: bytes) -> bytes:
        if len(message) <= LARGE:
            return message
        if response := read_response(message, self._method_of, self._pages):
            return _encoded(response[0], result=response[1])
        if len(message) <= MOST_UNEXPECTED:
            return message
        head = _decoded_head(message)
        error = {"code": _PARSE_ERROR, "message": f"a message of {len(message)} bytes is too long, and was not read"}
        return b"" if head.method or head.id is None else _encoded(head.id, error=error)


def _encoded(id: int | str, **body: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, **body})


def _head_of(request: httpx2.Request) -> _Head:
    return _decoded_head(request.content) if request.method == "POST" else _Head()


def _decoded_head(message: bytes) -> _Head:
    try:
        return msgspec.json.decode(message, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return _Head()
