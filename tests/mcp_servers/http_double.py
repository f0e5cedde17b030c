"""An MCP server over HTTP that does exactly what a test wants, well or badly: raw asyncio, no framework."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from machine import PATIENCE
from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed, Outgoing, Transport
from polylect.mcp.transports.sse import Sse
from polylect.mcp.transports.streamable_http import StreamableHttp
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server

EVENTS = "text/event-stream"


def head(status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "\r\n"]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(message: Any = None, *, id: str = "", retry: int | None = None, name: str = "") -> bytes:
    fields = {"event": name, "id": id, "retry": "" if retry is None else str(retry)}
    lines = [f"{key}: {value}" for key, value in fields.items() if value]
    data = message if isinstance(message, str) else json.dumps(message) if message is not None else ""
    return "\n".join([*lines, f"data: {data}", "\n"]).encode()


def result(id: Any, **value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@dataclass
class Exchange:
    """One request, and how it is answered."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else {}

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: Any = b"", status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = ({} if isinstance(body, bytes) else {"content_type": "application/json"}) | headers
        await self.write(head(status, content_length=str(len(data)), **headers) + data)

    async def begin_events(self, *events: bytes, **headers: str) -> None:
        await self.write(head(200, content_type=EVENTS, transfer_encoding="chunked", **headers))
        for one in events:
            await self.write(chunk(one))

    async def end(self) -> None:
        """The end of a body in chunks."""
        await self.write(b"0\r\n\r\n")

    async def hung_up(self) -> None:
        """Wait until the client closes the connection."""
        while await self.reader.read(65536):
            pass

    def cut(self) -> None:
        self.writer.transport.abort()


@dataclass
class HttpServer:
    """Hands every request to `handler`, connection by connection."""

    handler: Callable[[Exchange], Awaitable[None]]
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0
    faults: list[BaseException] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        for task, writer in self._open.items():
            writer.transport.abort()
            await asyncio.wait([task])
        assert not self.faults

    async def asked(self, line: str) -> None:
        """Wait for a request that `lines` shows like this."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: line in self.lines())

    def lines(self) -> list[str]:
        """The requests, as `POST initialize` or `GET /mcp`."""
        return [f"{one.method} {one.message.get('method') or one.path}" for one in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self._open[task] = writer
        try:
            while True:
                line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in fields)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = line.split(" ")
                self.requests.append(Exchange(method, path, headers, body, reader, writer))
                async with self._arrived:
                    self._arrived.notify_all()
                await self.handler(self.requests[-1])
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except AssertionError as fault:
            self.faults.append(fault)
        finally:
            writer.close()


class Client:
    """A transport under test, used as `mcp/connection.py` uses it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def request(self, id: int, method: str = "ping", *, name: str = "", **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.transport.send(Outgoing(json.dumps(message).encode(), id, method, name))

    def notify(self, method: str) -> None:
        self.transport.send(Outgoing(json.dumps(notification(method)).encode(), None, method))

    async def receive(self) -> Any:
        """The next message as JSON, or another item as it is."""
        async with asyncio.timeout(PATIENCE):
            item = await self.transport.receive()
        return json.loads(item) if isinstance(item, bytes) else item

    async def failed(self) -> Failed:
        item = await self.receive()
        assert isinstance(item, Failed), item
        return item

    async def handshake(self, version: str = "2025-11-25") -> None:
        self.request(0, "initialize")
        assert await self.receive() == result(0)
        self.transport.negotiated(version)
        self.notify("notifications/initialized")


def client_of(
    url: str, transport: type[StreamableHttp] | type[Sse] = StreamableHttp, headers: dict[str, str] | None = None
) -> Client:
    """A transport to this address."""
    server = Server("double", "sse" if transport is Sse else "http", url=url, headers=headers or {})
    setup = ServerSetup(Custody(), {}, str(Path.cwd()), lambda _: None, connect_timeout=1.0)
    return Client(transport(server, setup, ServerLog(server)))


def with_server(
    handler: Callable[[Exchange], Awaitable[None]],
    work: Callable[[Client, HttpServer], Coroutine[Any, Any, None]],
    *,
    transport: type[StreamableHttp] | type[Sse] = StreamableHttp,
    headers: dict[str, str] | None = None,
    path: str = "/mcp",
    start: bool = True,
) -> HttpServer:
    """Run `work` with a transport to a server that has this handler. Returns the server, for what it has seen."""

    async def main() -> HttpServer:
        async with HttpServer(handler) as double:
            client = client_of(f"{double.url}{path}", transport, headers)
            try:
                if start:
                    await client.transport.start()
                await asyncio.wait_for(work(client, double), PATIENCE)
            finally:
                await asyncio.wait_for(client.transport.close(), PATIENCE)
            return double

    return asyncio.run(main())
