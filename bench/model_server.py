"""A model server on loopback: Anthropic Messages, OpenAI Chat Completions and Responses, Gemini; pre-rendered.

    python -m bench.model_server [--port 0] [--path README.md]

prints one line of JSON with its port. What it answers is chosen by the name of the model in the request:

    deltas-N      N text deltas as fast as the socket takes them
    slow-MS[-N]   N text deltas (20), one every MS milliseconds; the time of each is in the log
    tool-N        asks N times to read the file given by --path, with a tool that it was offered, then answers; a {n}
                  in the path is the number of the call, for engines that have doubts about asking the same twice
    echo          (and any other name) repeats the last text of the user

GET /log gives what was asked and when, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share;
DELETE /log forgets it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterable
from functools import lru_cache

from bench.model_requests import call_to_read, last_text, results_so_far
from bench.model_wires import WIRES, Event, Json, Wire

WORD = 6
"""Characters of each delta."""


def word(number: int) -> str:
    """What the delta of this number says. No two are alike, since some engines take repetition for a fault."""
    return f"{number * 7919 % 100_000:05d} "


# Rendering: each event is one SSE event in one HTTP chunk, as real services send them.


def frame(event: Event) -> bytes:
    name, data = event
    lines = (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
    return chunk(lines.encode())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def tail(wire: Wire) -> bytes:
    return (chunk(f"data: {wire.last}\n\n".encode()) if wire.last else b"") + b"0\r\n\r\n"


@lru_cache(maxsize=8)
def many(path: str, count: int) -> bytes:
    return b"".join(frame(WIRES[path].text(word(number))) for number in range(count))


def deltas(path: str, count: int) -> bytes:
    """Rendered for one long delta, which is then replaced by many short ones: the end may repeat the whole text."""
    wire = WIRES[path]
    whole = wire.text("".join(map(word, range(count))))
    frames = [frame(event) for event in wire.reply("end", [whole])]
    at = frames.index(frame(whole))
    return b"".join([HEAD, *frames[:at], many(path, count), *frames[at + 1 :], tail(wire)])


class Server:
    def __init__(self, path: str) -> None:
        self.path = path
        self.log: list[Json] = []


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            if len(rest) < length:
                return
            at = time.monotonic_ns()
            self.buffer = rest[length:]
            method, target, *_ = head.decode("latin-1").split(" ")
            self.handle(method, target.partition("?")[0], rest[:length], at)

    def handle(self, method: str, target: str, body: bytes, at: int) -> None:
        if target == "/log":
            log = json.dumps(self.server.log).encode()
            if method == "DELETE":
                self.server.log.clear()
            self.plain(200, log)
            return
        target, _, named = target.partition("/v1beta/models/")
        path = "/v1beta/models" if named.endswith(":streamGenerateContent") else target
        path = path if path.startswith("/v1") else "/v1" + path
        if method != "POST" or path not in WIRES:
            self.plain(404, b'{"error":{"type":"not_found_error","message":"no such address"}}')
            return
        asked = json.loads(body)
        entry: Json = {
            "at": at,
            "path": path,
            "model": asked.get("model") or named.partition(":")[0],
            "bytes": len(body),
            "results": results_so_far(asked),
            "sent": [],
        }
        self.server.log.append(entry)
        self.answer(path, asked, entry)

    def answer(self, path: str, asked: Json, entry: Json) -> None:
        kind, *numbers = entry["model"].split("-")
        wire = WIRES[path]
        match kind, [int(number) for number in numbers if number.isdigit()]:
            case "deltas", [count]:
                data = deltas(path, count)
            case "slow", [milliseconds, *count]:
                self.slowly(wire, milliseconds / 1000, count[0] if count else 20, entry)
                return
            case "tool", [count] if entry["results"] < count:
                call = wire.call(*call_to_read(asked, self.server.path.replace("{n}", str(entry["results"]))))
                data = self.whole(wire, wire.reply("calls", call))
            case _:
                data = self.whole(wire, wire.reply("end", [wire.text(last_text(asked) or "hello")]))
        entry["sent"].append(time.monotonic_ns())
        self.transport.write(data)

    def whole(self, wire: Wire, events: Iterable[Event]) -> bytes:
        return b"".join([HEAD, *map(frame, events), tail(wire)])

    def slowly(self, wire: Wire, seconds: float, count: int, entry: Json) -> None:
        events = list(wire.reply("end", [wire.text(f"{number:05d} ") for number in range(count)]))
        texts = [frame(wire.text(f"{number:05d} ")) for number in range(count)]
        frames = [frame(event) for event in events]
        first = frames.index(texts[0])
        self.transport.write(HEAD + b"".join(frames[:first]))
        loop = asyncio.get_running_loop()

        def send(index: int) -> None:
            if self.transport.is_closing():
                return
            if index == count:
                self.transport.write(b"".join(frames[first + count :]) + tail(wire))
                return
            entry["sent"].append(time.monotonic_ns())
            self.transport.write(texts[index])
            loop.call_later(seconds, send, index + 1)

        loop.call_later(seconds, send, 0)

    def plain(self, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


async def serve(port: int, path: str) -> None:
    server = Server(path)
    listener = await asyncio.get_running_loop().create_server(lambda: Connection(server), "127.0.0.1", port)
    print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
    await listener.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--path", default="README.md", help="the file that tool-N asks to read")
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.port, options.path))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
