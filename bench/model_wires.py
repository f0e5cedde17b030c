"""How each vendor says things: the events of a reply, and where in a request its words and tools are."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Json = dict[str, Any]
Event = tuple[str, Json]


_ids = iter(range(1, 1 << 60))


def new_id(prefix: str) -> str:
    return f"{prefix}{next(_ids):016d}"


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


def gemini_chunk(part: Json, finish: str = "") -> Event:
    candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 25, "candidatesTokenCount": 15, "totalTokenCount": 40}
    return "", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench"}


def gemini_reply(stop: str, middle: Iterable[Event]) -> Iterator[Event]:
    yield from middle
    yield gemini_chunk({"text": ""}, "STOP")


def gemini_call(name: str, args: Json) -> Iterator[Event]:
    yield gemini_chunk({"functionCall": {"name": name, "args": args}})


WIRES = {
    "/v1/messages": Wire(anthropic_text, anthropic_reply, anthropic_call, ""),
    "/v1/chat/completions": Wire(lambda text: chat_chunk({"content": text}), chat_reply, chat_call, "[DONE]"),
    "/v1/responses": Wire(responses_text, responses_reply, responses_call, ""),
    "/v1beta/models": Wire(lambda text: gemini_chunk({"text": text}), gemini_reply, gemini_call, ""),
}
