"""A model server on loopback: Anthropic Messages, OpenAI Chat Completions and Responses, pre-rendered and fast.

    python bench/model_server.py [--port 0] [--path README.md]

prints one line of JSON with its port. What it answers is chosen by the name of the model in the request:

    deltas-N      N text deltas as fast as the socket takes them
    slow-MS[-N]   N text deltas (20), one every MS milliseconds; the time of each is in the log
    tool-N        asks N times to Read the file given by --path, then answers
    echo          (and any other name) repeats the last text of the user

GET /log gives what was asked and when, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share;
DELETE /log forgets it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

Json = dict[str, Any]
Event = tuple[str, Json]
TEXT = "word, "


class Wire:
    """How one vendor says things: the events before, between and after."""

    def __init__(
        self,
        text: Callable[[str], Event],
        reply: Callable[[str, Iterable[Event]], Iterator[Event]],
        call: Callable[[str, Json], Iterator[Event]],
        last: Json | str,
    ) -> None:
        self.text, self.reply, self.call, self.last = text, reply, call, last


def anthropic_text(text: str) -> Event:
    delta = {"type": "text_delta", "text": text}
    return "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}


def anthropic_reply(stop: str, middle: Iterable[Event]) -> Iterator[Event]:
    usage = {"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message: Json = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield "message_start", {"type": "message_start", "message": message}
    if stop == "end":
        block: Json = {"type": "text", "text": ""}
        yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield from middle
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    reason = {"end": "end_turn", "calls": "tool_use"}[stop]
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 15},
        },
    )
    yield "message_stop", {"type": "message_stop"}


def anthropic_call(name: str, args: Json) -> Iterator[Event]:
    block = {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": {}}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(args)}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}


def chat_chunk(delta: Json, finish: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return "", {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "bench",
        "choices": [choice],
    }


def chat_reply(stop: str, middle: Iterable[Event]) -> Iterator[Event]:
    name, first = chat_chunk({"role": "assistant", "content": ""})
    yield name, {**first, "id": new_id("chatcmpl-")}
    yield from middle
    yield chat_chunk({}, {"end": "stop", "calls": "tool_calls"}[stop])
    usage = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}
    yield (
        "",
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "bench",
            "choices": [],
            "usage": usage,
        },
    )


def chat_call(name: str, args: Json) -> Iterator[Event]:
    function = {"name": name, "arguments": json.dumps(args)}
    yield chat_chunk({"tool_calls": [{"index": 0, "id": new_id("call_"), "type": "function", "function": function}]})


def responses_text(text: str) -> Event:
    kind = "response.output_text.delta"
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": 3}
    return kind, {"type": kind, **place, "delta": text, "logprobs": []}


def responses_reply(stop: str, middle: Iterable[Event]) -> Iterator[Event]:
    response: Json = {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": 1,
        "model": "bench",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    yield "response.created", {"type": "response.created", "sequence_number": 0, "response": response}
    finished = []
    for name, event in responses_message(middle) if stop == "end" else middle:
        if name == "response.output_item.done":
            finished.append(event["item"])
        yield name, event
    usage: Json = {"input_tokens": 25, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage |= {"output_tokens": 15, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 40}
    done = {**response, "status": "completed", "output": finished, "usage": usage}
    yield "response.completed", {"type": "response.completed", "sequence_number": 5, "response": done}


def responses_message(deltas: Iterable[Event]) -> Iterator[Event]:
    """As the service does it, but for what it says in other words once more before the item is done."""
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield responses_item("added", item)
    kind = "response.content_part.added"
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": 2}
    yield kind, {"type": kind, **place, "part": part}
    said = []
    for name, event in deltas:
        said.append(event["delta"])
        yield name, event
    yield responses_item("done", {**item, "status": "completed", "content": [{**part, "text": "".join(said)}]})


def responses_call(name: str, args: Json) -> Iterator[Event]:
    item: Json = {"id": new_id("fc_"), "type": "function_call", "call_id": new_id("call_"), "name": name}
    yield responses_item("added", {**item, "status": "in_progress", "arguments": ""})
    text = json.dumps(args)
    kind = "response.function_call_arguments.delta"
    yield kind, {"type": kind, "item_id": item["id"], "output_index": 0, "sequence_number": 3, "delta": text}
    yield responses_item("done", {**item, "status": "completed", "arguments": text})


def responses_item(what: str, item: Json) -> Event:
    kind, number = f"response.output_item.{what}", {"added": 1, "done": 4}[what]
    return kind, {"type": kind, "output_index": 0, "sequence_number": number, "item": item}


WIRES = {
    "/v1/messages": Wire(anthropic_text, anthropic_reply, anthropic_call, ""),
    "/v1/chat/completions": Wire(lambda text: chat_chunk({"content": text}), chat_reply, chat_call, "[DONE]"),
    "/v1/responses": Wire(responses_text, responses_reply, responses_call, ""),
}

_ids = iter(range(1, 1 << 60))


def new_id(prefix: str) -> str:
    return f"{prefix}{next(_ids):016d}"


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
    return frame(WIRES[path].text(TEXT)) * count


def deltas(path: str, count: int) -> bytes:
    """Rendered for one long delta, which is then replaced by many short ones: the end may repeat the whole text."""
    wire = WIRES[path]
    whole = wire.text(TEXT * count)
    frames = [frame(event) for event in wire.reply("end", [whole])]
    at = frames.index(frame(whole))
    return b"".join([HEAD, *frames[:at], many(path, count), *frames[at + 1 :], tail(wire)])


# Reading the request.


def items(body: Json) -> list[Json]:
    found = body.get("messages") or body.get("input") or []
    return [{"role": "user", "content": found}] if isinstance(found, str) else found


def last_text(body: Json) -> str:
    for item in reversed(items(body)):
        if item.get("role") == "user":
            content = item["content"]
            parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            if found := [part for part in parts if part]:
                return str(found[-1])
    return ""


def results_so_far(body: Json) -> int:
    """How many results came since the user last said something in words."""
    count = 0
    for item in reversed(items(body)):
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        kinds = {item.get("role"), item.get("type"), *(part.get("type") for part in parts)}
        if kinds & {"tool", "function_call_output", "tool_result"}:
            count += 1
        elif item.get("role") == "user":
            return count
    return count


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
        path = target if target.startswith("/v1/") else "/v1" + target
        if method != "POST" or path not in WIRES:
            self.plain(404, b'{"error":{"type":"not_found_error","message":"no such address"}}')
            return
        asked = json.loads(body)
        entry = {"at": at, "path": path, "model": asked.get("model", ""), "bytes": len(body), "sent": []}
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
            case "tool", [count] if results_so_far(asked) < count:
                call = wire.call("Read", {"file_path": self.server.path})
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
