"""OpenAI's Chat Completions API, as OpenAI and the many servers that copy it implement it.

`request_body` writes a `ModelRequest`, `StreamParser` reads the chunks of the reply. Servers differ: some send no ids
or indexes of calls, arguments as objects, texts as lists, thinking under two names; the parser accepts all of that.
The provider `openai` uses it.
"""

from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from typing import Any, Literal

import msgspec
from msgspec import Struct

from polylect.apis.arguments import MOST_CALLS, ReplyCalls, is_unwieldy
from polylect.apis.encoded_history import EncodedHistory
from polylect.apis.faults import UNREADABLE, Tokens, cut_off, fault_of, too_many_calls, unreadable
from polylect.apis.history import normalize
from polylect.vocab import ports
from polylect.vocab.content import Block, Document, Image, Message, Stop, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ReplyDone, TextChunk, ThinkingChunk

# Requests.

Json = dict[str, Any]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


def request_body(
    request: ports.ModelRequest,
    *,
    max_tokens_field: MaxTokensField = "max_tokens",
    encoded: EncodedHistory | None = None,
) -> Json:
    """The body of a streaming request.

    max_tokens_field   `max_completion_tokens` for OpenAI's own server, `max_tokens` for most others
    encoded            messages of earlier requests that are encoded already
    """
    written, messages = encoded.write(request.messages) if encoded else ([], normalize(request.messages))
    body: Json = {
        "model": request.model,
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.system.strip():
        body["messages"].append({"role": "system", "content": request.system})
    body["messages"] += written
    for message in messages:
        body["messages"] += encode_message(message)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_tokens:
        body[max_tokens_field] = request.max_tokens
    if request.effort:
        body["reasoning_effort"] = request.effort
    return body


def encode_message(message: Message) -> Iterator[Json]:
    return _assistant(message) if message.role == "assistant" else _user(message)


def _tool(tool: ports.ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _assistant(message: Message) -> Iterator[Json]:
    """Thinking is left out: no field for it is accepted by all servers."""
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    calls = [_call(block) for block in message.content if isinstance(block, ToolCall)]
    fields: Json = {"role": "assistant", "content": text or (None if calls else "(nothing)")}
    yield {**fields, "tool_calls": calls} if calls else fields


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": msgspec.json.encode(call.args).decode()}
    sent: Json = {"id": call.call, "type": "function", "function": function}
    if "extra_content" in call.extra:  # Gemini's signatures
        sent["extra_content"] = call.extra["extra_content"]
    return sent


def _user(message: Message) -> Iterator[Json]:
    """Results first, one message each. Their images follow in a user message: tool messages hold only text."""
    content: list[Json] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            yield {"role": "tool", "tool_call_id": block.call, "content": block.output or "(no output)"}
            content += _shown(block)
        else:
            content += _part(block)
    if len(content) == 1 and content[0]["type"] == "text":
        yield {"role": "user", "content": content[0]["text"]}
    elif content:
        yield {"role": "user", "content": content}


def _shown(result: ToolResult) -> list[Json]:
    images = [part for image in result.images if image.data for part in _part(image)]
    return [{"type": "text", "text": f"[images from {result.name}, call {result.call}]"}, *images] if images else []


def _part(block: Block) -> list[Json]:
    match block:
        case Text(text):
            return [{"type": "text", "text": text}]
        case Image(media_type, data):
            return [{"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}]
        case Document(name, "application/pdf", _, data) if data:
            file = {"filename": name, "file_data": f"data:application/pdf;base64,{data}"}
            return [{"type": "file", "file": file}]
        case Document(name, media_type, text):
            return [{"type": "text", "text": document_text(name, media_type, text)}]
        case _:
            return []


def document_text(name: str, media_type: str, text: str) -> str:
    """A document as text, for an API without documents."""
    return f"[{name}]\n{text}" if text.strip() else f"[{name}: {media_type}, cannot be shown]"


# Replies.

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _CallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: dict[str, Any] | None = None


class _Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _Usage(Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _PromptDetails | None = None
    cached_tokens: Tokens | None = None
    prompt_cache_hit_tokens: Tokens | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    id: str | None = None
    model: str | None = None


class _OpenCall:
    """A call whose arguments are incomplete."""

    def __init__(self, index: int, call: str) -> None:
        self.index = index
        self.call = call
        self.name = ""
        self.args = StringIO()
        self.whole: Any = None
        self.extra: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Chunk).decode


class StreamParser:
    """Reads one reply.

    After each `feed`, `fault` is set if the reply is lost, and `done` is true if it is complete.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        """`new_id` makes ids for calls that the server sends without one."""
        self.done = False
        self.fault: ProviderError | None = None
        self._new_id = new_id
        self._open: Literal["", "text", "thinking"] = ""
        self._text = StringIO()
        self._calls: list[_OpenCall] = []
        self._latest: dict[int, _OpenCall] = {}
        """The latest call of each index."""
        self._refused = False
        self._stop: Stop | None = None
        self._usage = Usage()
        self._request = ""
        self._model = ""

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for payload in payloads:
            try:
                chunk = _decode(payload)
            except UNREADABLE as error:
                if not payload.strip():
                    continue
                if payload.strip() == b"[DONE]":
                    events += self.end()
                else:
                    self.fault = unreadable(error)
                break
            if chunk.choices:
                self._choice(chunk.choices[0], events)
            if chunk.usage is not None or chunk.error is not None or not self._request:
                self._read_metadata(chunk)
            if self.fault:
                break
        return events

    def end(self) -> list[ModelEvent]:
        """The connection has closed. The reply is complete if a finish reason came."""
        if self.done or self.fault:
            return []
        events: list[ModelEvent] = []
        if self._stop is None:
            self.fault = cut_off()
            return events
        self._close(events)
        calls = ReplyCalls()
        events += [
            BlockDone(calls.parse(call.call, call.name, call.args.getvalue(), call.whole, call.extra))
            for call in self._calls
        ]
        self.done = True
        events.append(ReplyDone(self._reason(), self._usage, self._request, self._model))
        return events

    def _choice(self, choice: _Choice, events: list[ModelEvent]) -> None:
        if (delta := choice.delta) is not None:
            if thought := delta.reasoning_content or delta.reasoning:
                self._add_text("thinking", thought, events)
            if delta.content:
                self._add_text(
                    "text", delta.content if isinstance(delta.content, str) else _texts(delta.content), events
                )
            if delta.refusal:
                self._refused = True
                self._add_text("text", delta.refusal, events)
            for call in delta.tool_calls or ():
                self._call(call, events)
        if choice.finish_reason == "error":
            self.fault = ProviderError(
                "server", "the model's service failed in the middle of its reply", retryable=True
            )
        elif choice.finish_reason:
            self._stop = STOPS.get(choice.finish_reason, "end")

    def _add_text(self, kind: Literal["text", "thinking"], text: str, events: list[ModelEvent]) -> None:
        if self._open != kind:
            self._close(events)
            self._open = kind
        self._text.write(text)
        events.append(TextChunk(text) if kind == "text" else ThinkingChunk(text))

    def _close(self, events: list[ModelEvent]) -> None:
        text = self._text.getvalue()
        if self._open and text:
            events.append(BlockDone(Text(text) if self._open == "text" else Thinking(text)))
        self._open = ""
        self._text = StringIO()

    def _call(self, delta: _CallDelta, events: list[ModelEvent]) -> None:
        function = delta.function or _Function()
        call = self._open_call(delta)
        if call is None:
            self._close(events)
            call = _OpenCall(delta.index or 0, delta.id or self._new_id())
            self._calls.append(call)
            self._latest[call.index] = call
            if len(self._calls) > MOST_CALLS:
                self.fault = too_many_calls()
        call.name = call.name or function.name or ""
        if delta.extra_content and not is_unwieldy(delta.extra_content):
            call.extra["extra_content"] = delta.extra_content
        if isinstance(function.arguments, str):
            call.args.write(function.arguments)
            events.append(ArgsChunk(call.call, call.name, function.arguments))
        elif function.arguments:
            call.whole = function.arguments

    def _open_call(self, delta: _CallDelta) -> _OpenCall | None:
        """The call that a delta belongs to: by index, unless a new id shows that the server does not count."""
        last = self._calls[-1] if self._calls else None
        same = last if delta.index is None else self._latest.get(delta.index)
        if same and delta.id and delta.id != same.call and delta.function and delta.function.name:
            return None
        return same

    def _read_metadata(self, chunk: _Chunk) -> None:
        self._request, self._model = self._request or chunk.id or "", self._model or chunk.model or ""
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        if chunk.error is not None:
            self.fault = fault_of(chunk.error)

    def _reason(self) -> Stop:
        stop = self._stop or "end"
        if self._refused:
            return "refused"
        return "calls" if self._calls and stop == "end" else stop  # Gemini says "stop" when it wants calls


def _texts(parts: list[Any]) -> str:
    """Mistral sends some texts as lists of parts."""
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _PromptDetails()
    cached = details.cached_tokens or usage.cached_tokens or usage.prompt_cache_hit_tokens or 0
    written = details.cache_write_tokens or 0
    return Usage(max(0, (usage.prompt_tokens or 0) - cached - written), usage.completion_tokens or 0, cached, written)
