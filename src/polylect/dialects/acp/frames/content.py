"""Content blocks and tool calls: the values that prompts and updates are made of."""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from polylect.dialects.schema import one_of

Meta = dict[str, Any]
ToolKind = Annotated[
    str,
    one_of("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"),
]
ToolStatus = Annotated[str, one_of("pending", "in_progress", "completed", "failed")]


class Shape(Struct, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    """Any object of the wire. `meta` is for data of other programs; it is passed on and never needed."""

    meta: Meta | None = field(default=None, name="_meta")


class Annotations(Shape, frozen=True, kw_only=True):
    """Hints for the display of a block."""

    audience: list[str] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Block(Shape, frozen=True, kw_only=True, tag_field="type"):
    """A content block; its `type` decides the other fields."""

    annotations: Annotations | None = None


class TextBlock(Block, frozen=True, kw_only=True, tag="text"):
    text: str


class ImageBlock(Block, frozen=True, kw_only=True, tag="image"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioBlock(Block, frozen=True, kw_only=True, tag="audio"):
    data: str
    mime_type: str


class LinkBlock(Block, frozen=True, kw_only=True, tag="resource_link"):
    """A resource that is only named. An agent may read it if it can."""

    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Resource(Shape, frozen=True, kw_only=True):
    """The content of a resource: `text`, or `blob` as base64."""

    uri: str
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    mime_type: str | None = None


class ResourceBlock(Block, frozen=True, kw_only=True, tag="resource"):
    resource: Resource


AnyBlock = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class CallContent(Shape, frozen=True, kw_only=True, tag_field="type"):
    """What a tool call shows; its `type` decides the other fields."""


class BlockContent(CallContent, frozen=True, kw_only=True, tag="content"):
    content: AnyBlock


class DiffContent(CallContent, frozen=True, kw_only=True, tag="diff"):
    """A change of a file, or of a part of it. Without `old_text` the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalContent(CallContent, frozen=True, kw_only=True, tag="terminal"):
    terminal_id: str


AnyContent = BlockContent | DiffContent | TerminalContent


class Location(Shape, frozen=True, kw_only=True):
    """A file that a call works on; `line` counts from 1."""

    path: str
    line: int | None = None


class CallUpdate(Shape, frozen=True, kw_only=True):
    """What is known of a tool call. A field that is absent has not changed; lists replace those before."""

    tool_call_id: str
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: ToolStatus | UnsetType = UNSET
    content: list[AnyContent] | UnsetType = UNSET
    locations: list[Location] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
