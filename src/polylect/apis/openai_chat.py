"""OpenAI Chat Completions, as OpenAI and everyone who copies it streams them."""

from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any, Literal

import msgspec
from msgspec import Struct

from polylect.apis import openai_chat_request
from polylect.apis.arguments import is_unwieldy, tool_call
from polylect.apis.faults import UNREADABLE, Tokens, cut_off, unreadable
from polylect.apis.openai_faults import fault_of
from polylect.vocab.content import Stop, Text, Thinking, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ReplyDone, TextChunk, ThinkingChunk

request_body, put = openai_chat_request.request_body, openai_chat_request.put

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
    """A call whose arguments are still coming."""

    def __init__(self, index: int, call: str) -> None:
        self.index = index
        self.call = call
        self.name = ""
        self.args = StringIO()
        self.whole: Any = None
        self.extra: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Chunk).decode


class StreamParser:
    """Reads one reply. After each `feed`, look at `fault` (the reply is lost) and `done` (it is complete)."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        """`new_id` names calls that the server left without a name."""
        self.done = False
        self.fault: ProviderError | None = None
        self._new_id = new_id
        self._open: Literal["", "text", "thinking"] = ""
        self._text = StringIO()
        self._calls: list[_OpenCall] = []
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
                self._around(chunk)
            if self.fault:
                break
        return events

    def end(self) -> list[ModelEvent]:
        """The stream has ended: complete if the reason was given."""
        if self.done or self.fault:
            return []
        events: list[ModelEvent] = []
        if self._stop is None:
            self.fault = cut_off()
            return events
        self._close(events)
        events += [
            BlockDone(tool_call(call.call, call.name, call.args.getvalue(), call.whole, call.extra))
            for call in self._calls
        ]
        self.done = True
        events.append(ReplyDone(self._reason(), self._usage, self._request, self._model))
        return events

    def _choice(self, choice: _Choice, events: list[ModelEvent]) -> None:
        if (delta := choice.delta) is not None:
            if thought := delta.reasoning_content or delta.reasoning:
                self._say("thinking", thought, events)
            if delta.content:
                self._say("text", delta.content if isinstance(delta.content, str) else _texts(delta.content), events)
            if delta.refusal:
                self._refused = True
                self._say("text", delta.refusal, events)
            for call in delta.tool_calls or ():
                self._call(call, events)
        if choice.finish_reason == "error":
            self.fault = ProviderError(
                "server", "the model's service failed in the middle of its reply", retryable=True
            )
        elif choice.finish_reason:
            self._stop = STOPS.get(choice.finish_reason, "end")

    def _say(self, kind: Literal["text", "thinking"], text: str, events: list[ModelEvent]) -> None:
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
        call = self._find(delta)
        if call is None:
            self._close(events)
            call = _OpenCall(delta.index or 0, delta.id or self._new_id())
            self._calls.append(call)
        call.name = call.name or function.name or ""
        if delta.extra_content and not is_unwieldy(delta.extra_content):
            call.extra["extra_content"] = delta.extra_content
        if isinstance(function.arguments, str):
            call.args.write(function.arguments)
            events.append(ArgsChunk(call.call, call.name, function.arguments))
        elif function.arguments:
            call.whole = function.arguments

    def _find(self, delta: _CallDelta) -> _OpenCall | None:
        """The call a piece belongs to: by index, unless a new id says that the server forgot to count."""
        same = [call for call in self._calls if delta.index is None or call.index == delta.index]
        if not same or (delta.id and delta.id != same[-1].call and delta.function and delta.function.name):
            return None
        return same[-1]

    def _around(self, chunk: _Chunk) -> None:
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
    """Mistral says some texts as lists of parts."""
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _PromptDetails()
    cached = details.cached_tokens or usage.cached_tokens or usage.prompt_cache_hit_tokens or 0
    written = details.cache_write_tokens or 0
    return Usage(max(0, (usage.prompt_tokens or 0) - cached - written), usage.completion_tokens or 0, cached, written)
