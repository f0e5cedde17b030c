"""OpenAI's Responses API: the body of a request, and the stream of the reply.

Nothing is stored with the vendor (`store: false`): encrypted reasoning comes with a reply and goes back with the next
request, as the signature of a `Thinking` block. The provider `openai` uses it for models that need it.
"""

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Any

import msgspec
from msgspec import Struct

from polylect.apis.encoded_history import EncodedHistory
from polylect.apis.event_parser import EventParser
from polylect.apis.faults import Tokens, cut_off, fault_of
from polylect.apis.history import normalize
from polylect.apis.openai_chat import document_text
from polylect.vocab import ports
from polylect.vocab.content import Block, Document, Image, Message, Stop, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ReplyDone, TextChunk, ThinkingChunk

# Requests.

Json = dict[str, Any]


def request_body(request: ports.ModelRequest, info: ports.ModelInfo, *, encoded: EncodedHistory | None = None) -> Json:
    """The body of a streaming request.

    info      the abilities of the model; reasoning is requested if it has effort levels
    encoded   messages of earlier requests that are encoded already
    """
    written, messages = encoded.write(request.messages) if encoded else ([], normalize(request.messages))
    body: Json = {"model": request.model, "input": written, "stream": True, "store": False}
    if request.system.strip():
        body["instructions"] = request.system
    for message in messages:
        body["input"] += encode_message(message)
    if request.tools or request.web_search:
        body["tools"] = [*map(_tool, request.tools), *_search_tool(request.web_search)]
    if request.max_tokens:
        body["max_output_tokens"] = request.max_tokens
    if info.effort_levels:
        effort = {"effort": request.effort} if request.effort else {}
        body |= {"include": ["reasoning.encrypted_content"], "reasoning": {**effort, "summary": "auto"}}
    return body


def encode_message(message: Message) -> Iterable[Json]:
    return _assistant(message) if message.role == "assistant" else _user(message)


def _tool(tool: ports.ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", **function, "strict": False}


def _search_tool(domains: ports.WebDomains | None) -> list[Json]:
    """The search that the service does itself. It cannot block domains; whoever asks leaves those pages out."""
    if domains is None:
        return []
    return [{"type": "web_search", **({"filters": {"allowed_domains": domains.allowed}} if domains.allowed else {})}]


def _assistant(message: Message) -> list[Json]:
    items = [item for block in message.content for item in _assistant_items(block)]
    while items and items[-1]["type"] == "reasoning":  # refused at the end: that reply was cut off
        items.pop()
    return items


def _assistant_items(block: Block) -> Iterator[Json]:
    match block:
        case Text(text):  # in parts it would need an id and a status that only the vendor gives
            yield {"type": "message", "role": "assistant", "content": text}
        case ToolCall(call, name, args):
            text = msgspec.json.encode(args).decode()
            yield {"type": "function_call", "call_id": call, "name": name, "arguments": text}
        case Thinking(signature=seal) if seal.startswith("{"):
            summary = [{"type": "summary_text", "text": block.text}] if block.text else []
            yield {"type": "reasoning", "summary": summary, **msgspec.json.decode(seal)}


def _user(message: Message) -> Iterator[Json]:
    content: list[Json] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            yield {"type": "function_call_output", "call_id": block.call, "output": _output(block)}
        else:
            content += _part(block)
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _output(result: ToolResult) -> str | list[Json]:
    text = result.output or "(no output)"
    images = [part for image in result.images if image.data for part in _part(image)]
    return [{"type": "input_text", "text": text}, *images] if images else text


def _part(block: Block) -> list[Json]:
    match block:
        case Text(text):
            return [{"type": "input_text", "text": text}]
        case Image(media_type, data):
            url = f"data:{media_type};base64,{data}"
            return [{"type": "input_image", "image_url": url, "detail": "auto"}]
        case Document(name, "application/pdf", _, data) if data:
            return [{"type": "input_file", "filename": name, "file_data": f"data:application/pdf;base64,{data}"}]
        case Document(name, media_type, text):
            return [{"type": "input_text", "text": document_text(name, media_type, text)}]
        case _:
            return []


# Replies.

_INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}


class _Part(Struct):
    text: str = ""
    refusal: str = ""
    annotations: Any = None


class _Item(Struct):
    type: str = ""
    id: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    status: Any = None


class _Details(Struct):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _Usage(Struct):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    input_tokens_details: _Details | None = None


class _Incomplete(Struct):
    reason: str = ""


class _Response(Struct):
    id: str = ""
    model: str = ""
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Event(Struct):
    type: str = ""
    delta: Any = None
    item: _Item | None = None
    output_index: int = 0
    summary_index: int = 0
    response: _Response | None = None
    error: Any = None
    code: str | None = None
    message: str | None = None


Events = list[ModelEvent]


class StreamParser(EventParser):
    """Reads one reply; see `EventParser`."""

    decode = staticmethod(msgspec.json.Decoder(_Event).decode)

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[int, StringIO] = {}
        self._items: dict[int, _Item] = {}
        self._refused = False

    def end(self) -> Events:
        if not self.done and not self.fault:
            self.fault = cut_off()
        return []

    def _created(self, event: _Event, events: Events) -> None:
        if event.response is not None:
            self._request, self._model = event.response.id, event.response.model

    def _added(self, event: _Event, events: Events) -> None:
        self._items[event.output_index] = event.item or _Item()
        self._texts[event.output_index] = StringIO()

    def _write(self, event: _Event) -> str:
        text = event.delta if isinstance(event.delta, str) else ""
        self._texts.setdefault(event.output_index, StringIO()).write(text)
        return text

    def _text(self, event: _Event, events: Events) -> None:
        events.append(TextChunk(self._write(event)))

    def _refusal(self, event: _Event, events: Events) -> None:
        self._refused = True
        self._text(event, events)

    def _thought(self, event: _Event, events: Events) -> None:
        events.append(ThinkingChunk(self._write(event)))

    def _thought_part(self, event: _Event, events: Events) -> None:
        """Separates the parts of a summary by a blank line."""
        if event.summary_index:
            event.delta = "\n\n"
            self._thought(event, events)

    def _args(self, event: _Event, events: Events) -> None:
        item = self._items.get(event.output_index, _Item())
        events.append(ArgsChunk(item.call_id, item.name, self._write(event)))

    def _item_done(self, event: _Event, events: Events) -> None:
        item = event.item or _Item()
        streamed = self._texts.pop(event.output_index, StringIO()).getvalue()
        events += _web_results(item)
        block = self._block(item, streamed)
        if block is not None:
            events.append(BlockDone(block))

    def _block(self, item: _Item, streamed: str) -> Block | None:
        match item.type:
            case "message":
                text = streamed or "".join(part.text or part.refusal for part in item.content or ())
                return Text(text) if text else None
            case "reasoning":
                text = streamed or "\n\n".join(part.text for part in item.summary or ())
                return Thinking(text, _signature(item)) if text or item.encrypted_content else None
            case "function_call":
                self._called = True
                return self._calls.parse(item.call_id or item.id, item.name, streamed or item.arguments)
            case _:
                return None

    def _finished(self, event: _Event, events: Events) -> None:
        response = event.response or _Response()
        reason = response.incomplete_details.reason if response.incomplete_details else ""
        stop: Stop = _INCOMPLETE.get(reason, "length" if reason else "end")
        if self._refused:
            stop = "refused"
        elif self._called and stop == "end":
            stop = "calls"
        self.done = True
        request, model = response.id or self._request, response.model or self._model
        events.append(ReplyDone(stop, _usage(response.usage or _Usage()), request, model))

    def _failed(self, event: _Event, events: Events) -> None:
        error = event.error or (event.response.error if event.response else None)
        self.fault = fault_of(error or {"code": event.code, "message": event.message})


def _web_results(item: _Item) -> list[ModelEvent]:
    """That a search was done, and the pages that a text cites."""
    if item.type == "web_search_call":
        return [ports.WebResults(error="it failed" if item.status == "failed" else "")]
    notes = [note for part in item.content or () if isinstance(part.annotations, list) for note in part.annotations]
    cited = [note for note in notes if isinstance(note, dict) and note.get("type") == "url_citation"]
    pages = tuple((str(note.get("title") or ""), str(note.get("url") or "")) for note in cited)
    return [ports.WebResults(pages)] if pages else []


def _signature(item: _Item) -> str:
    """The encrypted reasoning as a signature. As JSON it cannot be mistaken for the signature of another vendor."""
    if not item.encrypted_content:
        return ""
    return msgspec.json.encode({"id": item.id, "encrypted_content": item.encrypted_content}).decode()


def _usage(usage: _Usage) -> Usage:
    details = usage.input_tokens_details or _Details()
    cached, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return Usage(max(0, usage.input_tokens - cached - written), usage.output_tokens, cached, written)


StreamParser.steps = {
    "response.output_text.delta": StreamParser._text,
    "response.created": StreamParser._created,
    "response.output_item.added": StreamParser._added,
    "response.refusal.delta": StreamParser._refusal,
    "response.reasoning_summary_part.added": StreamParser._thought_part,
    "response.reasoning_summary_text.delta": StreamParser._thought,
    "response.reasoning_text.delta": StreamParser._thought,
    "response.function_call_arguments.delta": StreamParser._args,
    "response.output_item.done": StreamParser._item_done,
    "response.completed": StreamParser._finished,
    "response.incomplete": StreamParser._finished,
    "response.failed": StreamParser._failed,
    "error": StreamParser._failed,
}
