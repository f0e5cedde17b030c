"""A model that plays a script, for engines that ask Anthropic's Messages API: test a host against claude or pi.

    python examples/model_server.py script.toml 8765
    connect("claude", model="claude-sonnet-4-5", base_url="http://127.0.0.1:8765",
            env={**os.environ, "ANTHROPIC_API_KEY": "none"})

docs/scripted.md has the format of scripts. Tools have the names that the engine gives them: Bash for claude, bash for
pi. A request in which the engine offers no tools, to find a title for instance, is answered with "ok".
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

from polylect.providers.scripted import Scripted
from polylect.providers.scripted.parse import read_script
from polylect.vocab.content import Block, Message, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import BlockDone, ModelRequest, ReplyDone, TextChunk, ToolSpec

Json = dict[str, Any]
STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
HEAD = "HTTP/1.1 {} -\r\ncontent-type: {}\r\nconnection: close\r\n\r\n"


def request_of(body: Json) -> ModelRequest:
    """A request of the Messages API in the words of the provider."""
    names: dict[str, str] = {}
    messages = [message for each in body["messages"] for message in messages_of(each, names)]
    system = body.get("system") or ""
    system = system if isinstance(system, str) else "\n".join(block["text"] for block in system)
    tools = [ToolSpec(tool["name"], tool.get("description", ""), {}) for tool in body.get("tools", ())]
    return ModelRequest(body["model"], system, messages, tools)


def messages_of(message: Json, names: dict[str, str]) -> list[Message]:
    content = message["content"]
    blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results: list[Block] = []
    others: list[Block] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": text} if not text.startswith("<system-reminder>"):  # claude adds these
                others.append(Text(text))
            case {"type": "tool_use", "id": call, "name": name, "input": args}:
                names[call] = name
                others.append(ToolCall(call, name, args))
            case {"type": "tool_result", "tool_use_id": call}:
                output, failed = str(block.get("content", "")), block.get("is_error")
                results.append(ToolResult(call, names.get(call, ""), output, "error" if failed else "ok"))
    tool = [Message("tool", tuple(results))] if results else []
    return [*tool, *([Message(message["role"], tuple(others))] if others and not results else [])]


async def events_of(model: Scripted, request: ModelRequest) -> AsyncIterator[Json]:
    """The reply as events of the Messages API."""
    id = f"msg_{os.urandom(8).hex()}"
    head = {"id": id, "type": "message", "role": "assistant", "model": request.model, "content": []}
    begun, index, is_open = False, 0, False
    async for batch in model.stream(request):
        if not begun:
            begun = True
            yield {"type": "message_start", "message": {**head, "stop_reason": None, "usage": {"input_tokens": 0}}}
        for event in batch:
            match event:
                case TextChunk(text):
                    if not is_open:
                        is_open = True
                        yield start(index, {"type": "text", "text": ""})
                    yield delta(index, "text_delta", text=text)
                case BlockDone(block):
                    if not is_open:
                        for part in whole(index, block):
                            yield part
                    yield {"type": "content_block_stop", "index": index}
                    index, is_open = index + 1, False
                case ReplyDone(stop, usage):
                    counts = {"input_tokens": usage.input, "output_tokens": usage.output}
                    yield {"type": "message_delta", "delta": {"stop_reason": STOPS[stop]}, "usage": counts}
    yield {"type": "message_stop"}


def whole(index: int, block: Block) -> Sequence[Json]:
    match block:
        case ToolCall(call, name, args):
            tool = {"type": "tool_use", "id": call, "name": name, "input": {}}
            return start(index, tool), delta(index, "input_json_delta", partial_json=json.dumps(args))
        case Thinking(text):
            signature = delta(index, "signature_delta", signature="none")
            thinking = start(index, {"type": "thinking", "thinking": ""})
            return thinking, delta(index, "thinking_delta", thinking=text), signature
        case Text(text):
            return start(index, {"type": "text", "text": ""}), delta(index, "text_delta", text=text)
    return ()


def start(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: str) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


async def answer(model: Scripted, line: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    if not line.startswith("POST /v1/messages") or "count_tokens" in line:
        writer.write((HEAD.format(200, "application/json") + '{"input_tokens": 1}').encode())
        return
    request = request_of(json.loads(body))
    source = model if request.tools else Scripted.from_text('[[reply]]\ntext = "ok"\n')
    try:
        is_first = True
        async for event in events_of(source, request):
            if is_first:
                writer.write(HEAD.format(200, "text/event-stream").encode())
            is_first = False
            writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            await writer.drain()
    except ProviderError as error:  # the script says so, or has no reply
        fault = {"type": "error", "error": {"type": "api_error", "message": str(error)}}
        writer.write((HEAD.format(error.status or 400, "application/json") + json.dumps(fault)).encode())


async def serve(model: Scripted, port: int) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = dict(field.lower().split(": ", 1) for field in fields)
            await answer(model, line, await reader.readexactly(int(headers.get("content-length", 0))), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the engine has stopped its turn
        finally:
            writer.close()

    return await asyncio.start_server(connected, "127.0.0.1", port)


async def main(script: str, port: str = "8765") -> None:
    server = await serve(Scripted(lambda: read_script(script)), int(port))
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
