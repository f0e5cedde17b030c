"""A request in the words of OpenAI Responses."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from polylect.apis.drafts import Draft
from polylect.apis.history import settle
from polylect.apis.openai_chat_request import document_text
from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.ports import ModelInfo, ModelRequest, ToolSpec

Json = dict[str, Any]


def request_body(request: ModelRequest, info: ModelInfo, *, draft: Draft | None = None) -> Json:
    """The body of a streaming request that leaves nothing with the vendor: reasoning travels back and forth sealed."""
    written, messages = draft.write(request.messages) if draft else ([], settle(request.messages))
    body: Json = {"model": request.model, "input": written, "stream": True, "store": False}
    if request.system.strip():
        body["instructions"] = request.system
    for message in messages:
        body["input"] += put(message)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_tokens:
        body["max_output_tokens"] = request.max_tokens
    if info.effort_levels:
        effort = {"effort": request.effort} if request.effort else {}
        body |= {"include": ["reasoning.encrypted_content"], "reasoning": {**effort, "summary": "auto"}}
    return body


def put(message: Message) -> Iterable[Json]:
    return _assistant(message) if message.role == "assistant" else _user(message)


def _tool(tool: ToolSpec) -> Json:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", **told, "strict": False}


def _assistant(message: Message) -> list[Json]:
    items = [item for block in message.content for item in _said(block)]
    while items and items[-1]["type"] == "reasoning":  # refused at the end: that reply was cut off
        items.pop()
    return items


def _said(block: Block) -> Iterator[Json]:
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
