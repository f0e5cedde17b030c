"""A model server that misbehaves in about two hundred ways, each named; the prompt says which one it is to show.

`Server` serves them on loopback. A prompt `behave:NAME.` is answered in that way; what follows it in the same turn
(results of calls) is answered well. Endless answers are written until the client hangs up.
"""

import asyncio
import gzip
import itertools
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Self

from e2e import vendors
from machine import PATIENCE
from polylect.vocab.content import Block, Text, Thinking, ToolCall
from providers.loopback import chunk, head

Show = Callable[[asyncio.StreamWriter], Awaitable[None]]
Json = dict[str, Any]
STREAM = {"content_type": "text/event-stream"}
CHUNKED = {**STREAM, "transfer_encoding": "chunked"}
BLOCKS: list[Block] = [Thinking("hm", "seal"), Text("Hello"), ToolCall("t1", "TodoWrite", {"todos": []})]
_END = b"0\r\n\r\n"
_TOOL = b'{"type":"tool_use","id":"t","name":"TodoWrite"}'
_CALL = b'data: {"type":"content_block_start","content_block":%b}\n\n' % _TOOL
_RESULTS = (b'"tool_result"', b'"function_call_output"', b'"role":"tool"')


def good(wire: str, blocks: list[Block] | None = None) -> bytes:
    last = "[DONE]" if wire == "chat" else ""
    payloads = vendors.RENDER[wire]([Text("fine")] if blocks is None else blocks, 8, 100)
    return b"".join(vendors.sse(payloads, last=last))


# How to say something.


def emit(*pieces: bytes, stall: bool = False) -> Show:
    """These bytes, and then the connection ends; or nothing more comes."""

    async def show(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if stall:
            await writer.wait_closed()

    return show


def forever(begin: bytes, again: bytes, *, slowly: bool = False) -> Show:
    block = again if slowly else again * (65536 // len(again) + 1)

    async def show(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while not writer.is_closing():
            writer.write(block)
            await writer.drain()
            await asyncio.sleep(0.05 if slowly else 0)

    return show


async def _names_without_end(writer: asyncio.StreamWriter) -> None:
    """Headers, each with a name that was not there before and 60 kB long."""
    writer.write(b"HTTP/1.1 200 -\r\n")
    for number in itertools.count():
        if writer.is_closing():
            return
        writer.write(b"x%d: %b\r\n" % (number, b"y" * 60_000))
        await writer.drain()


async def _reset(writer: asyncio.StreamWriter) -> None:
    """The connection ends with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _bomb(again: bytes) -> Show:
    """Two hundred megabytes in two hundred kilobytes."""

    async def show(writer: asyncio.StreamWriter) -> None:
        packer = zlib.compressobj(9, wbits=31)
        block = again * ((1 << 20) // len(again))
        first, other = (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
        writer.write(head(200, **CHUNKED, content_encoding="gzip") + chunk(first + other * 199) + _END)
        await writer.drain()

    return show


def events(body: bytes, **headers: str) -> Show:
    return emit(head(200, **CHUNKED, **headers), chunk(body), _END)


# Below HTTP, and HTTP itself.


def _transport() -> Iterator[tuple[str, Show]]:
    ok, fine = head(200, **STREAM), good("anthropic")
    body = head(200, **CHUNKED)
    yield "closes at once", emit()
    yield "resets", _reset
    yield "never answers", emit(stall=True)
    yield "half a head and silence", emit(ok[:20], stall=True)
    yield "half a head and the end", emit(ok[:20])
    yield "a head and silence", emit(ok, stall=True)
    yield "a head and the end", emit(ok)
    yield "half a reply and silence", emit(ok + fine[:200], stall=True)
    yield "half a reply and the end", emit(ok + fine[:200])
    yield "byte by byte", emit(*(bytes([byte]) for byte in ok + fine))
    for name, junk in (
        ("ssh", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("tls", b"\x15\x03\x01\x00\x02\x02\x28"),
        ("zeros", b"\0" * 4096),
        ("http 0.9", b"<html>hello</html>"),
        ("http 2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a status of letters", b"HTTP/1.1 OK 200\r\n\r\n"),
        ("a status of 7 digits", b"HTTP/1.1 2000000 -\r\n\r\n"),
        ("a negative status", b"HTTP/1.1 -200 -\r\n\r\n"),
        ("version 9.9", b"HTTP/9.9 200 -\r\n\r\n"),
        ("header without a colon", b"HTTP/1.1 200 -\r\nnonsense\r\n\r\n"),
        ("header with a NUL", b"HTTP/1.1 200 -\r\nx: \0\r\n\r\n"),
        ("folded header", b"HTTP/1.1 200 -\r\nx: a\r\n b\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 -\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ("a negative length", b"HTTP/1.1 200 -\r\ncontent-length: -5\r\n\r\n"),
        ("a length of letters", b"HTTP/1.1 200 -\r\ncontent-length: many\r\n\r\n"),
        ("a length beyond 64 bits", b"HTTP/1.1 200 -\r\ncontent-length: %d\r\n\r\nab" % 10**30),
        ("length and chunks", b"HTTP/1.1 200 -\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("a chunk of letters", body + b"zz\r\nab\r\n"),
        ("a chunk beyond 64 bits", body + b"ffffffffffffffffff\r\nab"),
        ("a negative chunk", body + b"-5\r\nab\r\n"),
        ("a chunk that is longer than it says", body + b"1\r\nabcdef\r\n"),
        ("a second response", b"HTTP/1.1 204 -\r\n\r\nHTTP/1.1 200 -\r\n\r\n"),
        ("upgrade", b"HTTP/1.1 101 -\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"),
    ):
        yield name, emit(junk)
    yield "a reply of a petabyte, cut", emit(head(200, content_length=str(10**15), **STREAM) + fine[:200])
    yield "endless status line", forever(b"HTTP/1.1 200 ", b"x")
    yield "endless header", forever(b"HTTP/1.1 200 -\r\nx: ", b"x")
    yield "endless header name", forever(b"HTTP/1.1 200 -\r\n", b"x")
    yield "endless headers", forever(b"HTTP/1.1 200 -\r\n", b"x: y\r\n")
    yield "endless headers of other names", _names_without_end
    yield "endless announcements", forever(b"", b"HTTP/1.1 100 -\r\n\r\n")
    yield "endless early hints", forever(b"", b"HTTP/1.1 103 -\r\nlink: <x>\r\n\r\n")
    yield "two announcements and a reply", emit(b"HTTP/1.1 100 -\r\n\r\n" * 2 + body + chunk(fine) + _END)
    yield "endless chunk size", forever(body, b"0")
    yield "endless chunk extension", forever(body + b"5;x=", b"y")
    yield "endless trailer", forever(body + chunk(b": hi\n\n") + b"0\r\nx: ", b"y")
    yield "endless trailers", forever(body + chunk(b": hi\n\n") + b"0\r\n", b"x: y\r\n")
    yield "a reply and then anything", forever(body + chunk(fine) + _END, b"x")
    yield "a head that drips", forever(b"HTTP/1.1 200 -\r\nx: ", b"y", slowly=True)
    yield "an extension that drips", forever(body + b"5;x=", b"y", slowly=True)
    for name, packed in (
        ("broken", b"\x1f\x8b" + b"x" * 50),
        ("empty", b""),
        ("of a reply", gzip.compress(fine)),
        ("cut", gzip.compress(fine)[:-20]),
        ("in two members", gzip.compress(fine[:100]) + gzip.compress(fine[100:])),
        ("in gzip", gzip.compress(gzip.compress(fine))),
    ):
        begin = head(200, **CHUNKED, content_encoding="gzip")
        yield f"gzip, {name}", emit(begin, chunk(packed) if packed else b"", _END)
    yield "gzip, bomb of comments", _bomb(b": x\n\n")
    yield "gzip, bomb of one line", _bomb(b"x")
    yield "deflate", emit(head(200, **CHUNKED, content_encoding="deflate"), chunk(zlib.compress(fine)), _END)
    yield (
        "gzip and then anything",
        forever(head(200, **CHUNKED, content_encoding="gzip") + chunk(gzip.compress(fine[:100])), chunk(b"x" * 999)),
    )
    for coding in ("br", "zstd", "gzip, gzip", "\x7f", "x" * 5000):
        yield f"encoding {coding[:10]!r}", events(fine, content_encoding=coding)


def _statuses() -> Iterator[tuple[str, Show]]:
    deep = b"[" * 30_000
    statuses = (201, 204, 301, 302, 304, 307, 400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 503, 529, 599)
    for status in statuses:
        yield f"status {status}", emit(head(status, content_length="0", connection="close"))
    for name, text in (
        ("HTML", b"<!doctype html><html>" + b"x" * 100_000),
        ("deep JSON", b'{"error":' * 5000 + deep),
        ("deep JSON that ends", b'{"error":' * 900 + b"1" + b"}" * 900),
        ("a number", b"5"),
        ("null", b"null"),
        ("bytes", bytes(range(256)) * 300),
        ("an error of a number", b'{"error":5}'),
        ("an error of lists", b'{"error":[[[{"message":[]}]]]}'),
        ("100 KB of words", b'{"error":{"message":"' + b"word " * 20_000 + b'"}}'),
    ):
        for status in (400, 500):
            yield f"{status} with {name}", emit(head(status, content_type="application/json"), text)
    yield "400 without end", forever(head(400), b"x")
    yield "500 that drips", forever(head(500), b"x", slowly=True)
    yield "500 and silence", emit(head(500), b"x", stall=True)
    yield "200 of JSON without end", forever(head(200, content_type="application/json"), b"[")
    yield "200 of HTML", emit(head(200, content_type="text/html"), b"<html>")
    yield "200 of nothing said", emit(b"HTTP/1.1 200 -\r\n\r\n", good("anthropic"))
    for location in ("", "http://127.0.0.1:9/", "/", "x" * 60_000, "\x1b]52;c;eA==\x07"):
        yield (
            f"redirect to {location[:8]!r}",
            emit(head(307, location=location, content_length="0", connection="close")),
        )


# Server-sent events.


def _streams() -> Iterator[tuple[str, Show]]:
    fine, ok = good("anthropic"), head(200, **STREAM)
    delta = b'data: {"type":"content_block_delta","delta":{"type":"%s","%s":"%s"}}\n\n'
    start = fine[: fine.index(b"event: content_block_delta")]
    text = delta % (b"text_delta", b"text", b"x" * 4000)
    for name, again in (
        ("line", b"x"),
        ("data line", b"data: x\n"),
        ("comments", b": x\n\n"),
        ("newlines", b"\n"),
        ("returns", b"\r"),
        ("zeros", b"\0"),
        ("empty data", b"data:\n\n"),
        ("byte order marks", b"\xef\xbb\xbf"),
        ("pings", b'event: ping\ndata: {"type":"ping"}\n\n'),
        ("unknown events", b'data: {"type":"news"}\n\n'),
        ("starts", fine[: fine.index(b"\n\n") + 2]),
        ("text", text),
        ("thinking", delta % (b"thinking_delta", b"thinking", b"x" * 4000)),
        ("signatures", delta % (b"signature_delta", b"signature", b"x" * 4000)),
    ):
        yield f"endless {name}", forever(ok + start, again)
    yield (
        "endless arguments",
        forever(
            ok + _CALL,
            delta % (b"input_json_delta", b"partial_json", b"[" * 4000),
        ),
    )
    yield "an event of 17 MiB", emit(ok, b"data: " + b"x" * (17 << 20) + b"\n\n")
    yield (
        "arguments nested 50 000 times",
        emit(
            ok
            + _CALL
            + (delta % (b"input_json_delta", b"partial_json", b"[" * 50_000))
            + b'data: {"type":"content_block_stop"}\n\n'
            + b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\n'
            + b'data: {"type":"message_stop"}\n\n'
        ),
    )
    for name, body in (
        ("nothing", b""),
        ("no data", b"event: x\n\n"),
        ("not JSON", b"data: hello\n\n"),
        ("half JSON", b'data: {"type":\n\n'),
        ("deep JSON", b'data: {"type":"x","y":' + b"[" * 100_000 + b"\n\n"),
        ("deep JSON that ends", b'data: {"type":"x","y":' + b"[" * 5000 + b"]" * 5000 + b"}\n\n"),
        ("bytes that are no UTF-8", b'data: {"type":"\xff\xfe"}\n\n'),
        ("lone surrogates", fine.replace(b"fine", b"\\ud800")),
        ("controls", fine.replace(b"fine", b"\\u001b]52;c;eA==\\u0007")),
        ("a key twice", b'data: {"type":"ping","type":"message_stop"}\n\n'),
        ("the end first", b'data: {"type":"message_stop"}\n\n'),
        ("the end twice", fine + fine),
        ("only deltas", b'data: {"type":"content_block_delta"}\n\n' * 9),
        ("done", b"data: [DONE]\n\n"),
        ("an error of nothing", b'data: {"type":"error"}\n\n'),
        ("an error of 1 MB", b'data: {"type":"error","error":{"message":"%b"}}\n\n' % (b"x" * 1_000_000)),
        ("returns for newlines", fine.replace(b"\n", b"\r")),
        ("both", fine.replace(b"\n", b"\r\n")),
        ("no last line", fine[:-2]),
    ):
        yield f"stream of {name}", emit(ok, body)


# What is inside of events.

_VALUES: tuple[Any, ...] = (
    None, 5, -1, 10**30, 1.5, True, "", "x", "x" * 100_000, [], [None], {}, {"x": 1}, [[[]]], "\ud800",
)  # fmt: skip
"""Put in the place of every field of a reply, one at a time."""


def _mutated(wire: str) -> Iterator[tuple[str, Show]]:
    payloads = vendors.RENDER[wire](BLOCKS, 8, 100)
    places = [(number, *path) for number, payload in enumerate(payloads) for path in _paths(payload)]
    for turn, place in enumerate(places):
        value = _VALUES[turn % len(_VALUES)]
        copy: list[Json] = json.loads(json.dumps(payloads))
        inner: Any = copy
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        lines = [*map(json.dumps, copy), *(["[DONE]"] if wire == "chat" else [])]
        body = b"".join(b"data: %b\n\n" % line.encode() for line in lines)
        yield f"{wire} with {'.'.join(map(str, place))} = {str(value)[:9]!r}", events(body)


def _paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Every field of it, however deep."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (key,)
        yield from ((key, *path) for path in _paths(below))


def _exactly(many: list[tuple[str, Show]], number: int) -> list[tuple[str, Show]]:
    """So many of them, spread evenly."""
    return [many[at * len(many) // number] for at in range(min(number, len(many)))]


BEHAVIOURS: dict[str, dict[str, Show]] = {
    "anthropic": dict([*_transport(), *_statuses(), *_streams(), *_exactly(list(_mutated("anthropic")), 25)]),
    "chat": dict(_exactly(list(_mutated("chat")), 25)),
    "responses": dict(_exactly(list(_mutated("responses")), 25)),
}
"""By the wire they are of; what is below events is the same on all."""


class Server:
    """Serves all of `BEHAVIOURS` from a thread of its own. On leaving, every connection ends."""

    def __enter__(self) -> Self:
        self._started: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self.url = self._started.result(PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._started.set_result(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await self._end.wait()
        server.close()
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while True:
                line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                size = next(int(text.split(":")[1]) for text in fields if text.startswith("content-length"))
                body = await reader.readexactly(size)
                await self._answer(line, body, writer)
                if writer.is_closing():
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass  # it has hung up
        finally:
            del self._open[task]
            writer.close()

    async def _answer(self, line: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        wire = "anthropic" if "/messages" in line else "responses" if "/responses" in line else "chat"
        requested = max(body.rfind(b"behave:"), 0)
        named = re.match(rb"behave:(\d+)\.", body[requested:])
        if named and max(body.rfind(mark) for mark in _RESULTS) < requested:
            await list(BEHAVIOURS[wire].values())[int(named[1])](writer)
            writer.close()
        else:
            await events(good(wire))(writer)
