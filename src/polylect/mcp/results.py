"""Turns results of MCP servers into what the model and the host get: text, images and metadata.

Vendors refuse a whole request because of one wrong image, so only images of four types, told by their first bytes, of
limited size and number are passed on. For everything else the model gets a line of text that names it. Called by
`ServerSupervisor`.
"""

import base64
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from polylect.mcp.protocol.frames import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from polylect.vocab.content import Block, Image, Text
from polylect.vocab.ports import ToolContext, ToolReturn
from polylect.wire.cut_text import cut_middle
from polylect.wire.image_type import image_type

MOST = 50_000
"""Characters of one answer that the model is shown."""
MOST_IMAGE = 5 * 1024 * 1024
MOST_IMAGES = 20
MOST_IMAGE_BYTES = 10 * 1024 * 1024
"""Bytes of all images of one answer. Checking them, and writing them to the log and the model, takes 0.1 s."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def tool_return(result: CallToolResult, context: ToolContext) -> ToolReturn:
    """The result of a tool. Its structured form goes to the host, and to the model where there is no other content."""
    parts = blocks(result.content)
    images = tuple(part for part in parts if isinstance(part, Image))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    structured = None if result.structured_content is UNSET else result.structured_content
    if not parts and structured is not None:
        text = msgspec.json.encode(structured).decode()
    where = context.spill(text) if len(text) > MOST else ""
    return ToolReturn(
        cut_middle(text, MOST, where) or ("" if images else "(no output)"),
        ok=not result.is_error,
        form="image" if images and not text else "text",
        metadata=None if structured is None else {"structured": structured},
        images=images,
    )


def blocks(content: Iterable[ContentBlock]) -> list[Text | Image]:
    """One block for each part. Images beyond the limits are not decoded, but named."""
    limited: list[Text | Image] = []
    images = size = 0
    for part in content:
        block = _block(part, MOST_IMAGE_BYTES - size if images < MOST_IMAGES else -1)
        if isinstance(block, Image):
            images, size = images + 1, size + _decoded_size(block.data)
        limited.append(block)
    return limited


def prompt_blocks(messages: Sequence[PromptMessage]) -> tuple[Block, ...]:
    """The messages of a prompt as one message of the user. Text of another role is marked with its name."""
    content: list[Block] = []
    for message, part in zip(messages, blocks([message.content for message in messages]), strict=True):
        if isinstance(part, Text) and message.role != "user":
            part = Text(f"[{message.role}] {part.text}")
        content.append(part)
    return tuple(content)


def _block(part: ContentBlock, room: int) -> Text | Image:
    """`room` is how many bytes an image may still have."""
    match part:
        case TextContent():
            return Text(part.text)
        case ImageContent():
            return _picture(part.mime_type, part.data, "image", room)
        case AudioContent():
            return Text(f"[audio: {part.mime_type or 'of unknown type'}, not shown]")
        case EmbeddedResource():
            return _resource(part.resource, room)
        case ResourceLink():
            described = f": {part.description}" if part.description else ""
            return Text(f"[resource {part.name} at {part.uri}{described}]")


def _resource(resource: ResourceContents, room: int) -> Text | Image:
    if resource.text is not None:
        return Text(f"[resource {resource.uri}]\n{resource.text}")
    return _picture(resource.mime_type or "", resource.blob or "", f"resource {resource.uri}", room)


def _picture(media_type: str, data: str, name: str, room: int) -> Text | Image:
    """An image if every vendor accepts it, else a line that names it."""
    size = _decoded_size(data)
    if media_type not in _PICTURES:
        return Text(f"[{name}: {media_type or 'of unknown type'}, {size} bytes, not shown]")
    if size > MOST_IMAGE:
        return Text(f"[{name}: {media_type}, {size} bytes, too large to show]")
    if size > room:
        return Text(f"[{name}: {media_type}, {size} bytes, left out: too many images in one answer]")
    try:
        decoded = base64.b64decode(data, validate=True)
    except ValueError:
        decoded = b""
    if not (real_type := image_type(decoded)):
        return Text(f"[{name}: {media_type}, broken]")
    return Image(real_type, base64.b64encode(decoded).decode())


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4
