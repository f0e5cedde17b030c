"""MCP servers over HTTP that behave badly, all in one process: hostile_http.py [PORT], which prints its port.

The path of a request is /WAY or /WAY/ARGUMENT; the ways are the methods of `Ways`. Requests to the second port are
written to stdout: nobody is meant to make any, because that port stands for another machine. Without libraries, so
that it starts fast.
"""

import asyncio
import gzip
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

JSON = "application/json"
SSE = "text/event-stream"
HEADERS = {401: ["WWW-Authenticate: Bearer"], 429: ["Retry-After: 3600"], 405: ["Allow: POST"]}


class Request:
    """One request and the way to answer it."""

    def __init__(
        self, verb: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        self.verb = verb
        self.way, _, self.argument = path.partition("?")[0].strip("/").partition("/")
        self.headers = headers
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self._writer = writer

    @property
    def method(self) -> str:
        return str(self.message.get("method", ""))

    def result(self) -> dict[str, Any]:
        """What a good server would answer."""
        match self.method:
            case "initialize":
                result: Any = {
                    "protocolVersion": self.message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": "it works"}]}
            case _:
                return self.wrapped({"error": {"code": -32601, "message": "Method not found"}})
        return self.wrapped({"result": result})

    def wrapped(self, rest: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.message.get("id"), **rest}

    async def head(self, status: int, kind: str, *more: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close", *more]
        await self.raw(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, status: int = 200, body: Any = None, *more: str, kind: str = JSON) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        await self.head(status, kind, f"Content-Length: {len(data)}", *HEADERS.get(status, ()), *more)
        await self.raw(data)

    async def well(self, *more: str) -> None:
        """As a good server does it."""
        if self.verb != "POST":
            await self.answer(405)
        elif "id" not in self.message:
            await self.answer(202)
        else:
            await self.answer(200, self.result(), *more)


class Ways:
    """Each method answers one request."""

    def __init__(self, elsewhere: int) -> None:
        self.elsewhere = f"http://127.0.0.1:{elsewhere}"
        self.number = 0
        self.stream: Request

    async def works(self, request: Request) -> None:
        """With a session, as long as the process runs."""
        if request.method == "initialize":
            await request.well(f"Mcp-Session-Id: session-{os.getpid()}")
        elif request.headers.get("mcp-session-id") != f"session-{os.getpid()}":
            await request.answer(404)
        else:
            await request.well()

    async def sse_works(self, request: Request) -> None:
        """The older transport, as it should be."""
        if request.verb == "POST":
            await request.answer(202)
            if "id" in request.message:
                await self.stream.raw(f"event: message\ndata: {json.dumps(request.result())}\n\n".encode())
        else:
            self.stream = request
            await request.head(200, SSE)
            await request.raw(b"event: endpoint\ndata: /sse_works/messages\n\n")
            await asyncio.sleep(1000)

    async def status(self, request: Request) -> None:
        """/status/CODE/METHOD answers one method with this code."""
        code, _, method = request.argument.partition("/")
        if request.method == method:
            await request.answer(int(code), b"<p>\x1b[31mno</p>", kind="text/html")
        else:
            await request.well()

    async def html(self, request: Request) -> None:
        await request.answer(200, b"<html><body>Welcome to the hotel's network</body></html>", kind="text/html")

    async def no_body(self, request: Request) -> None:
        await request.answer(200)

    async def accepted(self, request: Request) -> None:
        await request.answer(202)

    async def not_json(self, request: Request) -> None:
        await request.answer(200, b'{"jsonrpc": "2.0", "id": 1, "result":')

    async def redirects(self, request: Request) -> None:
        await request.answer(int(request.argument), None, f"Location: {self.elsewhere}/works")

    async def bomb(self, request: Request) -> None:
        """100 MB of zeros in 100 kB of gzip."""
        await request.answer(200, gzip.compress(b" " * 100_000_000, 1), "Content-Encoding: gzip")

    async def long_headers(self, request: Request) -> None:
        await request.well("X-Long: " + "x" * 1_000_000)

    async def many_headers(self, request: Request) -> None:
        await request.well(*[f"X-{number}: y" for number in range(20_000)])

    async def drips(self, request: Request) -> None:
        """A stream that sends comments for ever, and never an event."""
        await request.head(200, SSE)
        while True:
            await request.raw(b":")
            await asyncio.sleep(0.02)

    async def drips_headers(self, request: Request) -> None:
        await request.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            await request.raw(b"x")
            await asyncio.sleep(0.02)

    async def hangs(self, request: Request) -> None:
        await asyncio.sleep(1000)

    async def breaks(self, request: Request) -> None:
        """Ends the connection within the body."""
        await request.head(200, JSON, "Content-Length: 1000")
        await request.raw(b'{"jsonrpc":')

    async def not_http(self, request: Request) -> None:
        await request.raw(b"SSH-2.0-OpenSSH_9.6\r\n")

    async def bad_chunks(self, request: Request) -> None:
        await request.head(200, JSON, "Transfer-Encoding: chunked")
        await request.raw(b"zz\r\n{}\r\n")

    async def endless_event(self, request: Request) -> None:
        """An event whose only line never ends."""
        await request.head(200, SSE)
        await request.raw(b"data: ")
        while True:
            await request.raw(b"x" * 1_000_000)

    async def wrong_id(self, request: Request) -> None:
        if "id" in request.message:
            await request.answer(200, {**request.result(), "id": 4711})
        else:
            await request.well()

    async def no_answer(self, request: Request) -> None:
        """A stream that ends without the answer."""
        await request.head(200, SSE)
        await request.raw(
            b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'
        )

    async def new_session(self, request: Request) -> None:
        """Names another session with each answer."""
        self.number += 1
        await request.well(f"Mcp-Session-Id: session-{self.number}")

    async def odd_session(self, request: Request) -> None:
        await request.well("Mcp-Session-Id: " + "\xe4\xf6" * 10)

    async def long_session(self, request: Request) -> None:
        await request.well("Mcp-Session-Id: " + "s" * 60_000)

    async def reconnects(self, request: Request) -> None:
        """Ends the stream of GET at once, says that it can be opened again at once, and counts how often that is."""
        if request.verb == "GET":
            self.number += 1
            await request.head(200, SSE)
            await request.raw(b"retry: 0\nid: 1\ndata:\n\n")
        elif request.method == "tools/call":
            text = {"content": [{"type": "text", "text": str(self.number)}]}
            await request.answer(200, request.wrapped({"result": text}))
        else:
            await request.well()

    async def storms(self, request: Request) -> None:
        """Says on the stream of GET without end that its tools have changed."""
        if request.verb != "GET":
            return await request.well()
        await request.head(200, SSE)
        line = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
        while True:
            await request.raw(line * 100)

    async def sse_elsewhere(self, request: Request) -> None:
        """The older transport: its stream names an address on another machine for the messages."""
        await request.head(200, SSE)
        await request.raw(f"event: endpoint\ndata: {self.elsewhere}/works\n\n".encode())
        await asyncio.sleep(1000)

    async def sse_nowhere(self, request: Request) -> None:
        await request.head(200, SSE)
        await request.raw(b"event: endpoint\ndata: ht!tp://[\n\n")
        await asyncio.sleep(1000)

    async def sse_silent(self, request: Request) -> None:
        await request.head(200, SSE)
        await asyncio.sleep(1000)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def handler(answer: Callable[[Request], Awaitable[None]]) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            verb, path, _ = head[0].split(" ")
            await answer(Request(verb, path, headers, body, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    return handle


async def main() -> None:
    async def told(request: Request) -> None:
        print(request.way, json.dumps(request.headers), flush=True)
        await request.well()

    second = await asyncio.start_server(handler(told), "127.0.0.1", 0)
    ways = Ways(second.sockets[0].getsockname()[1])

    async def answer(request: Request) -> None:
        await getattr(ways, request.way)(request)

    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    first = await asyncio.start_server(handler(answer), "127.0.0.1", port)
    print(first.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
