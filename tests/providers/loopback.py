"""A model server on loopback that answers what it is told to, well or badly."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from machine import PATIENCE

T = TypeVar("T")

STALL = "stall"
"""Send nothing more until the client hangs up."""
CUT = "cut"
"""Close the connection here."""
WAIT = "wait"
"""Send nothing more until `go` is set."""

Step = bytes | str
_END = b"0\r\n\r\n"
"""Of a body in chunks."""


def reply(*body: bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> list[Step]:
    """A response in chunks, one for each piece of the body."""
    fields = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return [head(status, transfer_encoding="chunked", **fields), *map(chunk, body), _END]


def head(status: int, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "\r\n"]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sse(*payloads: str | bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % (p.encode() if isinstance(p, str) else p) for p in payloads)


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Loopback:
    """Answers requests in order from `answers`; the last one is repeated."""

    answers: list[list[Step]]
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    sent: int = 0
    left: int = 0
    """How many clients hung up while they were kept waiting."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[asyncio.Task[Any], asyncio.StreamWriter] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        for task, writer in self._open.items():
            writer.transport.abort()
            await asyncio.wait([task])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if task := asyncio.current_task():
            self._open[task] = writer
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(text.lower().split(": ", 1)[:1] + text.split(": ", 1)[1:] for text in fields)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(line, headers, body))
        self.asked.set()
        steps = self.answers[min(len(self.requests), len(self.answers)) - 1]
        for step in _with_ends(steps):
            match step:
                case "stall":
                    await reader.read()
                    self.left += 1
                    self.hung_up.set()
                    return False
                case "wait":
                    await self.go.wait()
                    self.go.clear()
                case "cut":
                    return False
                case bytes():
                    writer.write(step)
                    await writer.drain()
                    self.sent += len(step)
        return True


def _with_ends(steps: list[Step]) -> list[Step]:
    """The end of a body goes out with its last piece: whoever has heard that may ask the next thing at once."""
    joined: list[Step] = []
    for step in steps:
        if step == _END and joined and isinstance(joined[-1], bytes):
            joined[-1] += _END
        else:
            joined.append(step)
    return joined


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end, or fail."""
    return asyncio.run(asyncio.wait_for(main(), PATIENCE))
