"""A request in the words of OpenAI Chat Completions."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from polylect.apis.drafts import Draft
from polylect.apis.history import settle
from polylect.vocab.content import Block, Document, Image, Message, Text, ToolCall, ToolResult
from polylect.vocab.ports import ModelRequest, ToolSpec

Json = dict[str, Any]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


def request_body(
    request: ModelRequest, *, max_tokens_field: MaxTokensField = "max_tokens", draft: Draft | None = None
) -> Json:
    """The body of a streaming request. Most servers want `max_tokens`; OpenAI's own wants the other."""
    written, messages = draft.write(request.messages) if draft else ([], settle(request.messages))
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
        body["messages"] += put(message)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_tokens:
        body[max_tokens_field] = request.max_tokens
    if request.effort:
        body["reasoning_effort"] = request.effort
    return body


def put(message: Message) -> Iterator[Json]:
    return _assistant(message) if message.role == "assistant" else _user(message)


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _assistant(message: Message) -> Iterator[Json]:
    """Thinking stays behind: this wire has no place for it that every server accepts."""
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    calls = [_call(block) for block in message.content if isinstance(block, ToolCall)]
    said: Json = {"role": "assistant", "content": text or (None if calls else "(nothing)")}
    yield {**said, "tool_calls": calls} if calls else said


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": msgspec.json.encode(call.args).decode()}
    sent: Json = {"id": call.call, "type": "function", "function": function}
    if "extra_content" in call.extra:  # Gemini's signatures
        sent["extra_content"] = call.extra["extra_content"]
    return sent


def _user(message: Message) -> Iterator[Json]:
    """Results first, one message each; their images can only be said by the user."""
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
    """A document for a wire that only knows texts."""
    return f"[{name}]\n{text}" if text.strip() else f"[{name}: {media_type}, cannot be shown]"
