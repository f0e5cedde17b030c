"""A streamed answer in the one form in which ours and the vendors' can be compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from polylect.apis import anthropic_messages, openai_chat, openai_responses
from polylect.vocab.content import UNPARSED, Block, Stop, Text, Thinking, ToolCall, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ReplyDone, TextChunk, ThinkingChunk
from polylect.wire import sse

Json = dict[str, Any]
FOLDER = Path(__file__).parent
CUT_OFF = {"(cut off)": True}
"""Stands for arguments whose end never came. The SDKs guess what they would have been; we never run such a call."""


class Final(NamedTuple):
    blocks: list[Block]
    stop: Stop
    usage: Usage
    id: str
    model: str


class Fault(NamedTuple):
    message: str


class Parser(Protocol):
    done: bool
    fault: ProviderError | None

    def feed(self, payloads: list[bytes]) -> list[ModelEvent]: ...
    def end(self) -> list[ModelEvent]: ...


class Wire(NamedTuple):
    parser: Callable[[], Parser]
    read: Callable[[Json], Final]

    def theirs(self, said: Json) -> Final | Fault:
        """What an SDK said, as it stands in a `.json` file."""
        return Fault(said["error"]) if "error" in said else self.read(said["message"])

    def ours(self, body: bytes, size: int = 0) -> Final | Fault:
        """What our parser says, if the body arrives in pieces of this size."""
        frames, parser = sse.Parser(), self.parser()
        events: list[ModelEvent] = []
        for at in range(0, len(body), size or len(body)):
            events += parser.feed(frames.feed(body[at : at + (size or len(body))]))
        events += parser.feed(frames.end()) + parser.end()
        if parser.fault:
            return Fault(str(parser.fault).removeprefix("the model's service failed: "))
        return _of_events(events)


def names(wire: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / wire).glob("*.sse"))


def stream(wire: str, name: str) -> bytes:
    return (FOLDER / wire / f"{name}.sse").read_bytes()


def recorded(wire: str, name: str) -> Json:
    said: Json = json.loads((FOLDER / wire / f"{name}.json").read_bytes())
    return said


# Ours.


def _of_events(events: list[ModelEvent]) -> Final:
    done = events[-1]
    assert isinstance(done, ReplyDone)
    blocks = [event.block for event in events if isinstance(event, BlockDone)]
    _check_chunks(events, blocks)
    shown = [
        ToolCall(b.call, b.name, CUT_OFF) if isinstance(b, ToolCall) and UNPARSED in b.extra else b for b in blocks
    ]
    return Final(_joined(shown), done.stop, done.usage, done.request, done.model)


def _check_chunks(events: list[ModelEvent], blocks: list[Block]) -> None:
    """What was shown as it came adds up to what is kept."""
    said = "".join(event.text for event in events if isinstance(event, TextChunk))
    thought = "".join(event.text for event in events if isinstance(event, ThinkingChunk))
    assert said == "".join(block.text for block in blocks if isinstance(block, Text))
    assert thought == "".join(block.text for block in blocks if isinstance(block, Thinking))
    calls = {block.call: block for block in blocks if isinstance(block, ToolCall)}
    written: dict[str, str] = {}
    for event in events:
        if isinstance(event, ArgsChunk):
            written[event.call] = written.get(event.call, "") + event.text
    for call, text in written.items():
        whole = calls[call].extra.get(UNPARSED) or msgspec.json.decode(text or "{}")
        assert whole == (text if UNPARSED in calls[call].extra else calls[call].args)


def _joined(blocks: list[Block]) -> list[Block]:
    """Neighbouring texts as one: vendors differ in how they cut them, and nothing depends on it."""
    actual: list[Block] = []
    for block in blocks:
        if isinstance(block, Text) and actual and isinstance(actual[-1], Text):
            block = Text(actual.pop().text + block.text)  # type: ignore[union-attr]
        actual.append(block)
    return actual


# Theirs. These tables and rules are written down a second time on purpose.

_ANTHROPIC_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_CHAT_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "content_filter": "refused",
}


def _anthropic(message: Json) -> Final:
    cut = message["stop_reason"] == "max_tokens"
    blocks = [block for part in message["content"] for block in _anthropic_part(part, cut=cut)]
    result = message["usage"]
    usage = Usage(
        result["input_tokens"],
        result["output_tokens"],
        result.get("cache_read_input_tokens") or 0,
        result.get("cache_creation_input_tokens") or 0,
    )
    return Final(_joined(blocks), _ANTHROPIC_STOPS[message["stop_reason"]], usage, message["id"], message["model"])


def _anthropic_part(part: Json, *, cut: bool) -> list[Block]:
    match part:
        case {"type": "text", "text": text}:
            return [Text(text)] if text else []
        case {"type": "thinking", "thinking": text, "signature": signature}:
            return [Thinking(text, signature)]
        case {"type": "redacted_thinking", "data": data}:
            return [Thinking("", redacted=data)]
        case {"type": "tool_use", "id": id, "name": name, "input": args}:
            return [ToolCall(id, name, CUT_OFF if cut else args)]
        case _:
            return []  # what the service did by itself


def _chat(completion: Json) -> Final:
    [choice] = completion["choices"]
    message, calls = choice["message"], choice["message"].get("tool_calls") or []
    thought = message.get("reasoning_content") or message.get("reasoning")
    said = (message.get("content") or "") + (message.get("refusal") or "")
    blocks: list[Block] = [Thinking(thought)] if thought else []
    blocks += [Text(said)] if said else []
    blocks += [_call(call["id"], **call["function"]) for call in calls]
    stop = _CHAT_STOPS[choice["finish_reason"]]
    if message.get("refusal"):
        stop = "refused"
    elif calls and stop == "end":
        stop = "calls"
    return Final(blocks, stop, _chat_usage(completion.get("usage") or {}), completion["id"], completion["model"])


def _call(id: str, name: str, arguments: str, **more: Any) -> ToolCall:
    try:
        return ToolCall(id, name, json.loads(arguments or "{}"))
    except json.JSONDecodeError:
        return ToolCall(id, name, CUT_OFF)


def _chat_usage(told: Json) -> Usage:
    cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(told.get("prompt_tokens", 0) - cached, told.get("completion_tokens", 0), cached)


def _responses(response: Json) -> Final:
    blocks = [block for item in response["output"] for block in _item(item)]
    result = response["usage"]
    cached = result["input_tokens_details"]["cached_tokens"]
    usage = Usage(result["input_tokens"] - cached, result["output_tokens"], cached)
    return Final(_joined(blocks), _responses_stop(response), usage, response["id"], response["model"])


def _item(item: Json) -> list[Block]:
    match item:
        case {"type": "message", "content": content}:
            return [Text("".join(part.get("text") or part.get("refusal") or "" for part in content))]
        case {"type": "reasoning", "summary": summary}:
            text, sealed = "\n\n".join(part["text"] for part in summary), item.get("encrypted_content")
            seal = msgspec.json.encode({"id": item["id"], "encrypted_content": sealed}).decode() if sealed else ""
            return [Thinking(text, seal)]
        case {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}:
            return [_call(id, name, arguments)]
        case _:
            return []  # what the service did by itself


def _responses_stop(response: Json) -> Stop:
    if response["status"] == "incomplete":
        return "length" if response["incomplete_details"]["reason"] == "max_output_tokens" else "refused"
    parts = [part["type"] for item in response["output"] for part in item.get("content") or ()]
    if "refusal" in parts:
        return "refused"
    return "calls" if any(item["type"] == "function_call" for item in response["output"]) else "end"


def _new_id() -> str:
    raise AssertionError("every recorded call has an id")


WIRES = {
    "anthropic": Wire(anthropic_messages.StreamParser, _anthropic),
    "chat": Wire(lambda: openai_chat.StreamParser(_new_id), _chat),
    "responses": Wire(openai_responses.StreamParser, _responses),
}
STREAMS = [(wire, name) for wire in WIRES for name in names(wire)]
