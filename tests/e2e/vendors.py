"""A reply as each vendor's service would stream it. `make interop` has the vendors' own clients read the same bytes."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from polylect.vocab.content import Block, Text, Thinking, ToolCall

Json = dict[str, Any]
Payloads = list[Json]
Render = Callable[[list[Block], int, int], Payloads]
"""Blocks, the most characters of a delta, and how many tokens the prompt had: the data of every event."""

_numbers = count(1)


def cut(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def sse(payloads: Payloads, *, last: str = "", escaped: bool = True) -> list[bytes]:
    """One piece for each event."""
    texts = [json.dumps(payload, ensure_ascii=escaped) for payload in payloads]
    names = [f"event: {payload['type']}\n" if "type" in payload else "" for payload in payloads]
    pieces = [f"{name}data: {text}\n\n".encode() for name, text in zip(names, texts, strict=True)]
    return [*pieces, f"data: {last}\n\n".encode()] if last else pieces


# Anthropic, also on Bedrock and Vertex.


def anthropic(blocks: list[Block], width: int, tokens: int) -> Payloads:
    cached = tokens // 2
    usage = {"input_tokens": tokens - cached, "output_tokens": 1, "cache_read_input_tokens": cached}
    message: Json = {
        "stop_sequence": None,
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
    }
    payloads: Payloads = [{"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}]
    for index, block in enumerate(blocks):
        began, deltas = _anthropic_block(block, width)
        payloads.append({"type": "content_block_start", "index": index, "content_block": began})
        payloads += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        payloads.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if any(isinstance(block, ToolCall) for block in blocks) else "end_turn"
    ended = {"stop_reason": reason, "stop_sequence": None}
    return [
        *payloads,
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def _anthropic_block(block: Block, width: int) -> tuple[Json, list[Json]]:
    match block:
        case Text(text):
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in cut(text, width)]
        case Thinking(text, signature):
            pieces = [{"type": "thinking_delta", "thinking": piece} for piece in cut(text, width)]
            sealed = {"type": "signature_delta", "signature": signature}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, sealed]
        case ToolCall(id, name, args):
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in cut(json.dumps(args), width)]
            return {"type": "tool_use", "id": id, "name": name, "input": {}}, pieces
    raise AssertionError(block)


# OpenAI Chat Completions.


def chat(blocks: list[Block], width: int, tokens: int) -> Payloads:
    kinds = (Thinking, Text, ToolCall)
    deltas = [delta for kind in kinds for delta in _chat_deltas([b for b in blocks if isinstance(b, kind)], width)]
    calls = any(isinstance(block, ToolCall) for block in blocks)
    usage = {"prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7}
    chunks = [
        _chunk({"role": "assistant", "content": ""}),
        *map(_chunk, deltas),
        _chunk({}, "tool_calls" if calls else "stop"),
        {**_chunk({}), "choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": tokens // 2}}},
    ]
    id = f"chatcmpl-{next(_numbers)}"
    return [{**chunk, "id": id} for chunk in chunks]


def _chunk(delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat_deltas(blocks: list[Block], width: int) -> Iterator[Json]:
    for index, block in enumerate(blocks):
        match block:
            case Text(text):
                yield from ({"content": piece} for piece in cut(text, width))
            case Thinking(text):
                yield from ({"reasoning_content": piece} for piece in cut(text, width))
            case ToolCall(id, name, args):
                begun = {"index": index, "id": id, "type": "function"}
                yield {"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]}
                for piece in cut(json.dumps(args), width):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# OpenAI Responses.


def responses(blocks: list[Block], width: int, tokens: int) -> Payloads:
    response: Json = {"object": "response", "created_at": 1, "model": "m", "status": "in_progress"}
    response |= {
        "id": f"resp_{next(_numbers)}",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    payloads: Payloads = [{"type": "response.created", "response": response}]
    items = []
    for index, block in enumerate(blocks):
        begun, middle, item = _responses_item(block, index, width)
        payloads.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        payloads += [{**part, "output_index": index, "item_id": item["id"]} for part in middle]
        payloads.append({"type": "response.output_item.done", "output_index": index, "item": item})
        items.append(item)
    read = {"cached_tokens": tokens // 2, "cache_write_tokens": 0}
    usage = {"input_tokens": tokens, "input_tokens_details": read, "output_tokens": 7, "total_tokens": tokens + 7}
    done = {
        "status": "completed",
        "output": items,
        "usage": {**usage, "output_tokens_details": {"reasoning_tokens": 0}},
    }
    payloads.append({"type": "response.completed", "response": {**response, **done}})
    return [{**payload, "sequence_number": number} for number, payload in enumerate(payloads)]


def _responses_item(block: Block, index: int, width: int) -> tuple[Json, list[Json], Json]:
    """The item as it begins, what comes between, and the whole item."""
    match block:
        case Text(text):
            return _responses_message(text, index, width)
        case Thinking(text, seal):
            begun: Json = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
            part = {"type": "summary_text", "text": ""}
            kind = "response.reasoning_summary_text.delta"
            middle = [{"type": kind, "summary_index": 0, "delta": piece} for piece in cut(text, width)]
            middle.insert(0, {"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part})
            return begun, middle, {**begun, "encrypted_content": seal, "summary": [{**part, "text": text}]}
        case ToolCall(id, name, args):
            begun = {"id": f"fc_{index}", "type": "function_call", "call_id": id, "name": name, "arguments": ""}
            kind = "response.function_call_arguments.delta"
            middle = [{"type": kind, "delta": piece} for piece in cut(json.dumps(args), width)]
            return begun, middle, {**begun, "arguments": json.dumps(args)}
    raise AssertionError(block)


def _responses_message(text: str, index: int, width: int) -> tuple[Json, list[Json], Json]:
    part = {"type": "output_text", "text": "", "annotations": []}
    begun: Json = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    kind = "response.output_text.delta"
    middle = [{"type": kind, "content_index": 0, "logprobs": [], "delta": piece} for piece in cut(text, width)]
    middle.insert(0, {"type": "response.content_part.added", "content_index": 0, "part": part})
    return begun, middle, {**begun, "status": "completed", "content": [{**part, "text": text}]}


RENDER: dict[str, Render] = {"anthropic": anthropic, "chat": chat, "responses": responses}
