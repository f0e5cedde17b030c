"""A model on loopback that speaks the Messages API and answers by what it is asked: agents ask in any order."""

import asyncio
import json
from typing import Any, Self

Block = dict[str, Any]
Step = list[Block]

WAIT: Block = {"type": "wait"}
"""Nothing more comes until `go` is set."""
REFUSE: Step = [{"type": "refuse", "status": 403}]
"""The service says no, with 403: the text of a 400 has a file's name with the time in it, and omp tries again where it
finds "500"."""
HEAD = b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REFUSE_KEY: Step = [{"type": "refuse", "status": 401}]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(words: str) -> Block:
    return {"type": "thinking", "thinking": words}


def use(id: str, name: str, **args: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": args}


def agent(id: str, prompt: str, *, background: bool = False) -> Block:
    how = {"subagent_type": "general-purpose", "run_in_background": background}
    return use(id, "Agent", description=prompt.lower(), prompt=prompt, **how)


class Model:
    """`script` has, for a word of the prompt, the replies to it and to what its calls return."""

    def __init__(self, script: dict[str, list[Step]]) -> None:
        self._script = script
        self._replies = 0
        self.go = asyncio.Event()
        self.asked: list[dict[str, Any]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._clients: set[asyncio.Task[Any]] = set()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._clients.add(task)
        try:
            while True:
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(field.lower().split(": ", 1) for field in fields)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        await self._respond(line, body, writer)

    async def _respond(self, line: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if not line.startswith("POST /v1/messages") or "count_tokens" in line:
            result = b'{"input_tokens":5}'
            writer.write(
                b"HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(result)
            )
            writer.write(result)
            return
        requested = json.loads(body)
        self.asked.append(requested)
        step = self._step(requested["messages"])
        if self._refused(step, writer):
            return
        writer.write(HEAD)
        await self._reply(requested["model"], step, writer)
        writer.write(b"0\r\n\r\n")

    def _refused(self, step: Step, writer: asyncio.StreamWriter) -> bool:
        if step[0]["type"] == "refuse":
            result = b'{"type":"error","error":{"type":"permission_error","message":"that is too much"}}'
            writer.write(b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\n" % step[0]["status"])
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(result), result))
            return True
        return False

    def _step(self, messages: list[dict[str, Any]]) -> Step:
        """The last prompt that holds a word of the script, and how many replies there were to it."""
        actual: tuple[str, int] | None = None
        for place, message in enumerate(messages):
            said = _words(message["content"]) if message["role"] == "user" else ""
            words = [word for word in self._script if word in said]
            actual = (max(words, key=said.rfind), place) if words else actual  # what was said last counts
        if actual is None:
            return [text("nobody told me what to say")]
        word, place = actual
        count = sum(message["role"] == "assistant" for message in messages[place:])
        return self._script[word][min(count, len(self._script[word]) - 1)]

    async def _reply(self, model: str, blocks: Step, writer: asyncio.StreamWriter) -> None:
        self._replies += 1
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": f"msg_{self._replies}", "type": "message", "role": "assistant", "model": model, "content": []}
        await _send(writer, type="message_start", message={**message, "stop_reason": None, "usage": usage})
        for index, block in enumerate(blocks):
            if block is WAIT:
                await self.go.wait()
            else:
                await _send_block(writer, index, block)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        await _send(writer, type="message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 7})
        await _send(writer, type="message_stop")


def _words(content: Any) -> str:
    blocks = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
    return "\n".join(blocks)


async def _send_block(writer: asyncio.StreamWriter, index: int, block: Block) -> None:
    kind = block["type"]
    whole = block[kind] if kind in block else json.dumps(block["input"])
    start = {**block, kind: ""} if kind in block else {**block, "input": {}}
    delta, key = ("input_json_delta", "partial_json") if kind == "tool_use" else (f"{kind}_delta", kind)
    await _send(writer, type="content_block_start", index=index, content_block=start)
    for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
        await _send(writer, type="content_block_delta", index=index, delta={"type": delta, key: part})
    if kind == "thinking":
        signed = {"type": "signature_delta", "signature": "signed"}
        await _send(writer, type="content_block_delta", index=index, delta=signed)
    await _send(writer, type="content_block_stop", index=index)


async def _send(writer: asyncio.StreamWriter, **event: Any) -> None:
    data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()
