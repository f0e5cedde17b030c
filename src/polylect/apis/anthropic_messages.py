"""Anthropic's Messages API: the body of a request, and the stream of the reply.

`request_body` writes a `ModelRequest`, with prompt caching marks and thinking. `StreamParser` reads the data of
server-sent events. The providers `anthropic`, `bedrock` and `vertex` use both.

    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}  ->  TextChunk("Hi")
    {"type": "content_block_stop"}                                                   ->  BlockDone(Text("Hi"))

What cannot be decoded is the server's fault: `fault` is set, and nothing raises.
"""

from collections.abc import Sequence
from io import StringIO
from typing import Any

import msgspec
from msgspec import Struct

from polylect.apis.encoded_history import EncodedHistory
from polylect.apis.event_parser import EventParser
from polylect.apis.faults import FAULTS, Tokens, cut_off
from polylect.apis.history import normalize
from polylect.vocab import ports
from polylect.vocab.content import Block, Document, Image, Message, Stop, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ReplyBegun, ReplyDone, TextChunk, ThinkingChunk

# Requests.

Json = dict[str, Any]

MAX_TOKENS = 32_000
MOST_SEARCHES = 5
"""Searches of the web in one reply."""
_LEAST_BUDGET = 1024
_MARK: Json = {"type": "ephemeral"}


def request_body(
    request: ports.ModelRequest, info: ports.ModelInfo, *, caching: bool = True, encoded: EncodedHistory | None = None
) -> Json:
    """The body of a streaming request.

    request   what to send
    info      the abilities of the model; one with effort levels decides by itself how much to think
    caching   mark where the vendor may cache the prompt
    encoded   messages of earlier requests that are encoded already
    """
    written, messages = encoded.write(request.messages) if encoded else ([], normalize(request.messages))
    new_items = [item for message in messages for item in encode_message(message)]
    max_tokens = request.max_tokens or info.max_output or MAX_TOKENS
    body: Json = {
        "model": request.model,
        "max_tokens": max_tokens,
        "messages": [*written, *new_items],
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools or request.web_search:
        body["tools"] = [*map(_tool, request.tools), *_search_tool(request.web_search)]
    if request.thinking and info.thinking and _may_think(messages):
        body |= _thinking(request.thinking, max_tokens, adaptive=bool(info.effort_levels))
    if request.effort in info.effort_levels:
        body["output_config"] = {"effort": request.effort}
    if caching:
        _mark_for_cache(body, new_items)
    return body


def encode_message(message: Message) -> list[Json]:
    return [{"role": message.role, "content": _content(message)}]


def _tool(tool: ports.ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _search_tool(domains: ports.WebDomains | None) -> list[Json]:
    """The search that the service does itself. Domains are either allowed or blocked."""
    if domains is None:
        return []
    where = {"allowed_domains": domains.allowed, "blocked_domains": () if domains.allowed else domains.blocked}
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": MOST_SEARCHES}
    return [tool | {key: list(names) for key, names in where.items() if names}]


def _thinking(budget: int, max_tokens: int, *, adaptive: bool) -> Json:
    if adaptive:
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    budget = min(budget, max_tokens - _LEAST_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def _may_think(messages: Sequence[Message]) -> bool:
    """Whether thinking may be enabled. With results of calls at the end, the API refuses it unless the reply with
    those calls began with thinking.
    """
    if not isinstance(messages[-1].content[0], ToolResult):
        return True
    return any(block["type"].endswith("thinking") for block in _content(messages[-2])[:1])


def _mark_for_cache(body: Json, new_items: Sequence[Json]) -> None:
    """Mark the ends of what may be cached. The API allows four marks."""
    for part in ("system", "tools"):
        if body.get(part):
            body[part][-1]["cache_control"] = _MARK
    for message in [message for message in new_items if message["role"] == "user"][-2:]:
        message["content"][-1]["cache_control"] = _MARK


def _content(message: Message) -> list[Json]:
    content = [part for block in message.content for part in _part(block)]
    while content and content[-1]["type"].endswith("thinking"):  # refused at the end: that reply was cut off
        content.pop()
    return content or [{"type": "text", "text": "(nothing)"}]


def _part(block: Block) -> list[Json]:
    match block:
        case Text(text):
            return [{"type": "text", "text": text}]
        case Thinking():
            return _thought(block)
        case Image():
            return [_image(block)]
        case Document():
            return [_document(block)]
        case ToolCall(call, name, args):
            return [{"type": "tool_use", "id": call, "name": name, "input": args}]
        case ToolResult():
            return [_result(block)]


def _thought(block: Thinking) -> list[Json]:
    """Thinking that this vendor has signed. Signatures of other vendors are JSON here, and thinking that was cut off
    has none; both are left out.
    """
    if block.redacted:
        return [{"type": "redacted_thinking", "data": block.redacted}]
    if block.signature and not block.signature.startswith("{"):
        return [{"type": "thinking", "thinking": block.text, "signature": block.signature}]
    return []


def _image(image: Image) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _document(document: Document) -> Json:
    if document.media_type == "application/pdf" and document.data:
        source = {"type": "base64", "media_type": "application/pdf", "data": document.data}
    elif document.text.strip():
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    else:
        return {"type": "text", "text": f"[{document.name}: {document.media_type}, cannot be shown]"}
    return {"type": "document", "source": source, "title": document.name[:255] or "document"}


def _result(result: ToolResult) -> Json:
    content: list[Json] = [{"type": "text", "text": result.output if result.output.strip() else "(no output)"}]
    content += [_image(image) for image in result.images if image.data]
    part: Json = {"type": "tool_result", "tool_use_id": result.call, "content": content}
    return part if result.outcome == "ok" else {**part, "is_error": True}


# Replies.

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class _Delta(Struct):
    """All kinds of delta in one type: unknown kinds are ignored, and one type decodes faster than a union."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: Any = None
    content: Any = None


class _Usage(Struct):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None


class _Message(Struct):
    id: str = ""
    model: str = ""
    usage: _Usage | None = None


class _Error(Struct):
    type: str = ""
    message: str = ""


class _Event(Struct):
    type: str = ""
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: _Error | None = None


class StreamParser(EventParser):
    """Reads one reply; see `EventParser`."""

    decode = staticmethod(msgspec.json.Decoder(_Event).decode)

    def __init__(self) -> None:
        super().__init__()
        self._block = _Block()
        self._text = StringIO()
        self._signature = ""
        self._usage = Usage()
        self._stop: Stop | None = None

    def end(self) -> list[ModelEvent]:
        """The connection has closed. The reply is complete if a stop reason came, also without `message_stop`."""
        if self.done or self.fault:
            return []
        events: list[ModelEvent] = []
        if self._stop is not None:
            self._finish(_Event(), events)
        else:
            self.fault = cut_off()
        return events

    def _delta(self, event: _Event, events: list[ModelEvent]) -> None:
        if (delta := event.delta) is None:
            return
        match delta.type:
            case "text_delta":
                self._text.write(delta.text)
                events.append(TextChunk(delta.text))
            case "thinking_delta":
                self._text.write(delta.thinking)
                events.append(ThinkingChunk(delta.thinking))
            case "input_json_delta" if delta.partial_json and self._block.type == "tool_use":  # not the service's own
                self._text.write(delta.partial_json)
                events.append(ArgsChunk(self._block.id, self._block.name, delta.partial_json))
            case "signature_delta":
                self._signature = delta.signature

    def _start(self, event: _Event, events: list[ModelEvent]) -> None:
        message = event.message or _Message()
        self._request, self._model = message.id, message.model
        self._count(message.usage or _Usage())
        if self._usage.tokens:
            events.append(ReplyBegun(self._usage, self._request, self._model))

    def _block_start(self, event: _Event, events: list[ModelEvent]) -> None:
        block = self._block = event.content_block or _Block()
        self._text = StringIO()
        self._signature = block.signature
        if block.type == "web_search_tool_result":
            events.append(_web_results(block.content))
        elif block.text:
            self._delta(_Event(delta=_Delta("text_delta", text=block.text)), events)
        elif block.thinking:
            self._delta(_Event(delta=_Delta("thinking_delta", thinking=block.thinking)), events)

    def _block_stop(self, event: _Event, events: list[ModelEvent]) -> None:
        block = self._whole_block()
        self._block, self._text = _Block(), StringIO()
        if block is not None:
            events.append(BlockDone(block))

    def _whole_block(self) -> Block | None:
        block, text = self._block, self._text.getvalue()
        match block.type:
            case "text":
                return Text(text) if text else None
            case "thinking":
                return Thinking(text, self._signature)
            case "redacted_thinking":
                return Thinking("", redacted=block.data)
            case "tool_use":
                self._called = True
                return self._calls.parse(block.id, block.name, text, block.input)
            case _:
                return None

    def _message_delta(self, event: _Event, events: list[ModelEvent]) -> None:
        if event.delta is not None and event.delta.stop_reason:
            self._stop = STOPS.get(event.delta.stop_reason, "end")
        if event.usage is not None:
            self._count(event.usage)

    def _finish(self, event: _Event, events: list[ModelEvent]) -> None:
        stop: Stop = self._stop or "end"
        self.done = True
        events.append(
            ReplyDone("calls" if self._called and stop == "end" else stop, self._usage, self._request, self._model)
        )

    def _error(self, event: _Event, events: list[ModelEvent]) -> None:
        self.fault = fault_of(event.error or _Error())

    def _count(self, usage: _Usage) -> None:
        """Counts are cumulative: a later one replaces an earlier one."""
        before = self._usage
        self._usage = Usage(
            before.input if usage.input_tokens is None else usage.input_tokens,
            before.output if usage.output_tokens is None else usage.output_tokens,
            before.cache_read if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens,
            before.cache_write if usage.cache_creation_input_tokens is None else usage.cache_creation_input_tokens,
        )


def _web_results(content: Any) -> ports.WebResults:
    """The pages of a search, or the error that the service has in their place."""
    if isinstance(content, dict):
        return ports.WebResults(error=str(content.get("error_code") or "it failed"))
    pages = [page for page in content if isinstance(page, dict)] if isinstance(content, list) else []
    return ports.WebResults(tuple((str(page.get("title") or ""), str(page.get("url") or "")) for page in pages))


def fault_of(error: _Error) -> ProviderError:
    kind, retryable = FAULTS.get(error.type, ("server", True))
    if kind == "bad_request" and "prompt is too long" in error.message:
        kind = "overflow"
    return ProviderError(kind, f"the model's service failed: {error.message or error.type}", retryable=retryable)


StreamParser.steps = {
    "content_block_delta": StreamParser._delta,
    "message_start": StreamParser._start,
    "content_block_start": StreamParser._block_start,
    "content_block_stop": StreamParser._block_stop,
    "message_delta": StreamParser._message_delta,
    "message_stop": StreamParser._finish,
    "error": StreamParser._error,
}
