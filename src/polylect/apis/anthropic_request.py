"""A request in Anthropic's words."""

from collections.abc import Sequence
from typing import Any

from polylect.apis.drafts import Draft
from polylect.apis.history import settle
from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.ports import ModelInfo, ModelRequest, ToolSpec

Json = dict[str, Any]

MAX_TOKENS = 32_000
_LEAST_BUDGET = 1024
_MARK: Json = {"type": "ephemeral"}


def request_body(request: ModelRequest, info: ModelInfo, *, caching: bool = True, draft: Draft | None = None) -> Json:
    """The body of a streaming request. Models with effort levels choose by themselves how much to think."""
    written, messages = draft.write(request.messages) if draft else ([], settle(request.messages))
    said = [item for message in messages for item in put(message)]
    max_tokens = request.max_tokens or info.max_output or MAX_TOKENS
    body: Json = {
        "model": request.model,
        "max_tokens": max_tokens,
        "messages": [*written, *said],
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.thinking and info.thinking and _may_think(messages):
        body |= _thinking(request.thinking, max_tokens, adaptive=bool(info.effort_levels))
    if request.effort in info.effort_levels:
        body["output_config"] = {"effort": request.effort}
    if caching:
        _mark(body, said)
    return body


def put(message: Message) -> list[Json]:
    return [{"role": message.role, "content": _content(message)}]


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _thinking(budget: int, max_tokens: int, *, adaptive: bool) -> Json:
    if adaptive:
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    budget = min(budget, max_tokens - _LEAST_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def _may_think(messages: Sequence[Message]) -> bool:
    """A reply whose results are being handed in must have begun with thinking, or thinking is refused."""
    if not isinstance(messages[-1].content[0], ToolResult):
        return True
    return any(block["type"].endswith("thinking") for block in _content(messages[-2])[:1])


def _mark(body: Json, said: Sequence[Json]) -> None:
    """Four places may be marked: what stands before a mark need not be read again."""
    for shelf in ("system", "tools"):
        if body.get(shelf):
            body[shelf][-1]["cache_control"] = _MARK
    for message in [message for message in said if message["role"] == "user"][-2:]:
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
    """Only what this vendor signed goes back to it: others' signatures are JSON, and cut-off thinking has none."""
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
