"""Content of an agent as our values: blocks of messages, and what a tool call shows."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from polylect.dialects.lenient import Object, inner, objects, text
from polylect.vocab.content import Attachment, Document, File, Image, Link

_OUTPUT_KEYS = ("output", "formatted_output", "aggregated_output", "stdout", "content", "text", "message", "error")
"""Where agents put the text of a result in `rawOutput`."""


def block_text(block: Object) -> str:
    """What a block says, as text; empty for a picture or a sound."""
    match text(block, "type"):
        case "text":
            return text(block, "text")
        case "resource_link":
            return f"[{text(block, 'title') or text(block, 'name')}]({text(block, 'uri')})"
        case "resource":
            resource = inner(block, "resource")
            return text(resource, "text") or text(resource, "uri")
    return ""


def block_image(block: Object) -> Image | None:
    """The picture of a block, if it is one."""
    data = text(block, "data")
    return Image(text(block, "mimeType"), data) if text(block, "type") == "image" and data else None


def attachment_of(block: Object) -> Attachment | None:
    """What a block of a user's message attaches; None for text."""
    match text(block, "type"):
        case "image":
            return block_image(block)
        case "audio":
            return Document("audio", text(block, "mimeType"), data=text(block, "data"))
        case "resource_link":
            uri = text(block, "uri")
            if uri.startswith("file://"):
                return File(unquote(uri.removeprefix("file://")))
            return Link(uri, text(block, "name"), text(block, "mimeType"))
        case "resource":
            inside = inner(block, "resource")
            return Document(text(inside, "uri"), text(inside, "mimeType"), text(inside, "text"), text(inside, "blob"))
    return None


def call_output(content: list[Object], raw_output: Any) -> str:
    """The text of a tool call's result: its content, or else what agents put into `rawOutput`."""
    parts = [part for item in content if (part := _item_text(item))]
    return "\n".join(parts) if parts else raw_text(raw_output)


def call_images(content: list[Object]) -> tuple[Image, ...]:
    """The pictures of a tool call's result."""
    return tuple(image for item in content if (image := block_image(inner(item, "content"))))


def terminals(content: list[Object]) -> list[str]:
    """The terminals of the host that show the output of a call: goose and kimi send no other form of it."""
    return [text(item, "terminalId") for item in content if text(item, "type") == "terminal"]


def has_diff(content: list[Object]) -> bool:
    return any(text(item, "type") == "diff" for item in content)


def _item_text(item: Object) -> str:
    match text(item, "type"):
        case "content":
            return block_text(inner(item, "content"))
        case "diff" if changes := objects(item, "changes"):  # version 2
            return text(inner(item, "patch"), "text") or "\n".join(text(change, "path") for change in changes)
        case "diff":
            return "\n".join(_diff(text(item, "path"), text(item, "oldText"), text(item, "newText")))
    return ""


def _diff(path: str, old: str, new: str) -> Iterator[str]:
    from difflib import unified_diff  # only for edits: it takes some milliseconds

    lines = unified_diff(old.splitlines(), new.splitlines(), path if old else "/dev/null", path, lineterm="")
    yield from lines


def raw_text(raw: Any) -> str:
    """The text of a `rawOutput`, which may be anything."""
    if raw is None or isinstance(raw, str):
        return raw or ""
    if isinstance(raw, dict):
        for key in _OUTPUT_KEYS:
            if isinstance(raw.get(key), str):
                return str(raw[key])
    return msgspec.json.encode(raw).decode() if raw else ""
