"""The parameters and results of the protocol, named as in its published schema.

Fields are camelCase on the wire and snake_case here. Optional fields that are not set are not written. Read them with
`lenient.read`, which forgives a wrong optional field; the functions at the end read what needs more than that. Fields
that nobody uses (`icons`, most of `_meta`) are left out, and unknown ones are ignored.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, field

from polylect.mcp.protocol.lenient import Entries, Malformed, decode, decode_any, read, read_entries
from polylect.wire.jsonrpc import Id

MOST_PARTS = 1000
"""Parts of the result of one call that are read."""
MOST_STRUCTURED = 1024 * 1024
"""Bytes of the structured form of a result that are read."""
MOST_ENTRIES = 1000
"""Prompts or resources of one page, messages of a prompt, or contents of a resource that are read."""

URL_ELICITATION_REQUIRED = -32042
HEADER_MISMATCH = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
RESOURCE_NOT_FOUND = -32002

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

Json = dict[str, Any]
Role = Literal["user", "assistant"]
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Frame(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all shapes."""


# Both ends.


class Implementation(Frame, frozen=True, kw_only=True):
    name: str = ""
    version: str = ""
    title: str | None = None
    description: str | None = None
    website_url: str | None = None


class ClientCapabilities(Frame, frozen=True, kw_only=True):
    roots: Json | None = None
    sampling: Json | None = None
    elicitation: Json | None = None
    experimental: Json | None = None
    extensions: Json | None = None


class ListCapability(Frame, frozen=True, kw_only=True):
    """What a server can do with one kind of list."""

    list_changed: bool | None = None
    subscribe: bool | None = None


class ServerCapabilities(Frame, frozen=True, kw_only=True):
    tools: ListCapability | None = None
    prompts: ListCapability | None = None
    resources: ListCapability | None = None
    logging: Json | None = None
    completions: Json | None = None
    experimental: Json | None = None
    extensions: Json | None = None


class InitializeRequestParams(Frame, frozen=True, kw_only=True):
    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Frame, frozen=True, kw_only=True):
    protocol_version: str
    capabilities: ServerCapabilities = ServerCapabilities()
    server_info: Implementation = Implementation()
    instructions: str | None = None


class DiscoverResult(Frame, frozen=True, kw_only=True):
    supported_versions: list[str]
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None
    meta: Json | None = field(default=None, name="_meta")
    result_type: str | None = None
    ttl_ms: float | None = None
    cache_scope: str | None = None

    @property
    def server_info(self) -> Implementation:
        try:
            return msgspec.convert((self.meta or {}).get(SERVER_INFO, {}), Implementation)
        except msgspec.ValidationError:
            return Implementation()


# Content.


class Annotations(Frame, frozen=True, kw_only=True):
    audience: list[str] | None = None
    priority: float | None = None
    last_modified: str | None = None


class TextContent(Frame, frozen=True, kw_only=True, tag="text"):
    text: str
    annotations: Annotations | None = None


class ImageContent(Frame, frozen=True, kw_only=True, tag="image"):
    data: str
    mime_type: str = ""
    annotations: Annotations | None = None


class AudioContent(Frame, frozen=True, kw_only=True, tag="audio"):
    data: str
    mime_type: str = ""
    annotations: Annotations | None = None


class ResourceLink(Frame, frozen=True, kw_only=True, tag="resource_link"):
    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    annotations: Annotations | None = None


class ResourceContents(Frame, frozen=True, kw_only=True):
    """The contents of a resource: `text`, or the bytes of a `blob` in base64."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(Frame, frozen=True, kw_only=True, tag="resource"):
    resource: ResourceContents
    annotations: Annotations | None = None


class ToolUseContent(Frame, frozen=True, kw_only=True, tag="tool_use"):
    """A call of the model's, in sampling."""

    id: str
    name: str
    input: Json = {}


class ToolResultContent(Frame, frozen=True, kw_only=True, tag="tool_result"):
    """The result of such a call."""

    tool_use_id: str
    content: list["ContentBlock"] = []
    structured_content: Any = None
    is_error: bool | None = None


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
SamplingBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


# Tools.


class ToolAnnotations(Frame, frozen=True, kw_only=True):
    """Hints of the server, which may be wrong: no decision about permissions is based on them."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Frame, frozen=True, kw_only=True):
    task_support: str | None = None


class Tool(Frame, frozen=True, kw_only=True):
    """A tool in a list. Its schemas stay JSON until somebody needs them."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Raw = Raw(b'{"type":"object"}')
    output_schema: Raw = Raw()
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None


class RequestParams(Frame, frozen=True, kw_only=True):
    """What the parameters of every request may have."""

    meta: Json | None = field(default=None, name="_meta")


class PaginatedRequestParams(Frame, frozen=True, kw_only=True):
    cursor: str | None = None


class CallToolRequestParams(Frame, frozen=True, kw_only=True):
    name: str
    arguments: Json | None = None
    input_responses: Json | None = None
    request_state: str | None = None


class CallToolResult(Frame, frozen=True, kw_only=True):
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None


class ShortenedResult(CallToolResult, frozen=True, kw_only=True):
    """A result whose structured form was left out, because it is too large."""


class ListPage(Frame, frozen=True, kw_only=True):
    """A page of a list. `entries` are tools as JSON (`Raw`), or prompts, resources, templates."""

    entries: Entries
    next_cursor: str | None = None


# Prompts and resources.


class PromptArgument(Frame, frozen=True, kw_only=True):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Frame, frozen=True, kw_only=True):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None


class PromptMessage(Frame, frozen=True, kw_only=True):
    role: str
    content: ContentBlock


class GetPromptRequestParams(Frame, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None
    input_responses: Json | None = None
    request_state: str | None = None


class GetPromptResult(Frame, frozen=True, kw_only=True):
    messages: list[PromptMessage]
    description: str | None = None


class Resource(Frame, frozen=True, kw_only=True):
    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    annotations: Annotations | None = None


class ResourceTemplate(Frame, frozen=True, kw_only=True):
    uri_template: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None


class ResourceRequestParams(Frame, frozen=True, kw_only=True):
    uri: str


class ReadResourceRequestParams(Frame, frozen=True, kw_only=True):
    uri: str
    input_responses: Json | None = None
    request_state: str | None = None


class ReadResourceResult(Frame, frozen=True, kw_only=True):
    contents: list[ResourceContents]


class CompleteRequestParams(Frame, frozen=True, kw_only=True):
    ref: Json
    argument: Json
    context: Json | None = None


class CompletionValues(Frame, frozen=True, kw_only=True):
    values: list[str]
    total: float | None = None
    has_more: bool | None = None


class CompleteResult(Frame, frozen=True, kw_only=True):
    completion: CompletionValues


class EmptyResult(Frame, frozen=True, kw_only=True):
    """A result that only says that it worked."""


class InputRequiredResult(Frame, frozen=True, kw_only=True):
    """The server needs answers before it can go on (2026-07-28). The request is sent again with them."""

    input_requests: dict[str, Raw] | None = None
    request_state: str | None = None


# Requests of the server.


class ElicitRequestParams(Frame, frozen=True, kw_only=True):
    """A question to the person: a form with a schema, or a page to open."""

    message: str = ""
    mode: str = "form"
    requested_schema: Json | None = None
    url: str | None = None
    elicitation_id: str | None = None


class ElicitResult(Frame, frozen=True, kw_only=True):
    action: Literal["accept", "decline", "cancel"]
    content: Json | None = None


class Root(Frame, frozen=True, kw_only=True):
    uri: str
    name: str | None = None


class ListRootsResult(Frame, frozen=True, kw_only=True):
    roots: list[Root]


class ModelHint(Frame, frozen=True, kw_only=True):
    name: str | None = None


class ModelPreferences(Frame, frozen=True, kw_only=True):
    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class SamplingMessage(Frame, frozen=True, kw_only=True):
    role: Role
    content: SamplingBlock | list[SamplingBlock]


class CreateMessageRequestParams(Frame, frozen=True, kw_only=True):
    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    include_context: str | None = None
    metadata: Json | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None


class CreateMessageResult(Frame, frozen=True, kw_only=True):
    role: Role
    content: SamplingBlock | list[SamplingBlock]
    model: str
    stop_reason: str | None = None


# Notifications.


class CancelledNotificationParams(Frame, frozen=True, kw_only=True):
    request_id: Id = None
    reason: str | None = None


class ProgressNotificationParams(Frame, frozen=True, kw_only=True):
    progress_token: Id
    progress: float
    total: float | None = None
    message: str | None = None


class SetLevelRequestParams(Frame, frozen=True, kw_only=True):
    level: LoggingLevel


class LoggingMessageNotificationParams(Frame, frozen=True, kw_only=True):
    level: str = "info"
    logger: str | None = None
    data: Any = None


class ResourceUpdatedNotificationParams(Frame, frozen=True, kw_only=True):
    uri: str


class ElicitationCompleteNotificationParams(Frame, frozen=True, kw_only=True):
    elicitation_id: str


class SubscriptionFilter(Frame, frozen=True, kw_only=True):
    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class SubscriptionsListenRequestParams(Frame, frozen=True, kw_only=True):
    notifications: SubscriptionFilter = SubscriptionFilter()


class SubscriptionsAcknowledgedNotificationParams(Frame, frozen=True, kw_only=True):
    notifications: SubscriptionFilter = SubscriptionFilter()
    meta: Json | None = field(default=None, name="_meta")


# Reading what needs more than its shape.


class _Kind(Struct):
    type: str


_BLOCKS: dict[str, type[ContentBlock]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
}


def read_block(data: Raw) -> ContentBlock:
    """One part of content. Raises Malformed, also for a kind that the protocol does not have."""
    try:
        block: ContentBlock = msgspec.json.decode(data, type=ContentBlock)
        return block
    except (ValueError, RecursionError):
        kind = read(data, _Kind).type
        if kind not in _BLOCKS:
            raise Malformed(f"there is no content of the type {kind[:40]!r}") from None
        return read(data, _BLOCKS[kind])


def read_tool(data: Raw) -> Tool:
    """A tool of a list. Raises Malformed if its name is missing, or if its schema is no object."""
    tool = read(data, Tool)
    if not bytes(tool.input_schema).startswith(b"{"):
        if bytes(tool.input_schema) != b"null":
            raise Malformed(f"{tool.name[:80]} has no schema")
        tool = msgspec.structs.replace(tool, input_schema=Raw(b'{"type":"object"}'))
    if not bytes(tool.output_schema).startswith(b"{"):
        tool = msgspec.structs.replace(tool, output_schema=Raw())
    return tool


def read_call_result(data: Raw) -> CallToolResult | InputRequiredResult:
    """The result of a call, limited to MOST_PARTS and MOST_STRUCTURED. A part of text tells what was left out.

    Raises Malformed if it has no content, or if no part of it can be read.
    """
    fields = decode(data, dict[str, Raw])
    if needed := _input_required(fields):
        return needed
    structured = bytes(fields.get("structuredContent", b""))
    if "content" in fields:
        entries = _entries(fields, "content", read_block, MOST_PARTS)
    elif structured:
        entries = Entries([])
    else:
        raise Malformed("content is missing")
    parts: list[ContentBlock] = list(entries.items)
    if entries.wrong:
        parts.append(TextContent(text=f"[{entries.wrong} parts could not be read: {entries.fault}]"))
    if entries.left_out:
        total = entries.left_out + MOST_PARTS
        parts.append(TextContent(text=f"[{entries.left_out} of the {total} parts of this result were left out]"))
    shortened = len(structured) > MOST_STRUCTURED
    if shortened:
        note = f"[the structured form of this result was left out: it has {len(structured)} bytes]"
        parts.append(TextContent(text=note if parts else structured.decode(errors="replace")))
    is_error = fields.get("isError") == Raw(b"true")
    if shortened:
        return ShortenedResult(content=parts, is_error=is_error)
    value = decode_any(structured) if structured else UNSET
    return CallToolResult(content=parts, structured_content=value, is_error=is_error)


def read_prompt_result(data: Raw) -> GetPromptResult | InputRequiredResult:
    fields = decode(data, dict[str, Raw])
    if needed := _input_required(fields):
        return needed
    description = decode_any(fields.get("description", Raw(b"null")))
    messages = _entries(fields, "messages", _read_message, MOST_ENTRIES).items
    return GetPromptResult(messages=messages, description=description if isinstance(description, str) else None)


def read_resource_result(data: Raw) -> ReadResourceResult | InputRequiredResult:
    fields = decode(data, dict[str, Raw])
    if needed := _input_required(fields):
        return needed
    return ReadResourceResult(contents=_entries(fields, "contents", _contents, MOST_ENTRIES).items)


def read_tools_page(data: Raw) -> ListPage:
    """A page of tools, which are still JSON: there may be 50 000, which are read in slices with `read_tool`."""
    fields = decode(data, dict[str, Raw])
    if "tools" not in fields:
        raise Malformed("tools is missing")
    return ListPage(entries=Entries(decode(fields["tools"], list[Raw])), next_cursor=_cursor(fields))


def read_page(data: Raw, key: str, shape: type[Struct]) -> ListPage:
    """A page of prompts, resources or templates, limited to MOST_ENTRIES."""
    fields = decode(data, dict[str, Raw])
    entries = _entries(fields, key, lambda row: read(row, shape), MOST_ENTRIES)
    return ListPage(entries=entries, next_cursor=_cursor(fields))


def _entries(fields: dict[str, Raw], key: str, read_one: Any, most: int) -> Entries:
    """The entries of a field. Raises Malformed if it is missing or no list, or if no entry can be read."""
    if key not in fields:
        raise Malformed(f"{key} is missing")
    try:
        entries = read_entries(fields[key], read_one, most)
    except Malformed as error:
        raise Malformed(f"{key}: {error}") from None
    if entries.wrong and not entries.items:
        raise Malformed(f"{key}: {entries.fault}")
    return entries


def _cursor(fields: dict[str, Raw]) -> str | None:
    cursor = decode_any(fields.get("nextCursor", Raw(b"null")))
    return cursor if isinstance(cursor, str) and cursor else None


def _input_required(fields: dict[str, Raw]) -> InputRequiredResult | None:
    kind = decode_any(fields.get("resultType", Raw(b'"complete"')))
    if kind == "complete":
        return None
    if kind != "input_required":
        raise Malformed("its resultType is unknown")
    return read(msgspec.json.encode(fields), InputRequiredResult)


def _read_message(data: Raw) -> PromptMessage:
    fields = decode(data, dict[str, Raw])
    role = fields.get("role", Raw(b'"user"'))
    return PromptMessage(role=decode(role, str), content=read_block(fields.get("content", Raw(b"{}"))))


def _contents(data: Raw) -> ResourceContents:
    contents = read(data, ResourceContents)
    if contents.text is None and contents.blob is None:
        raise Malformed("neither text nor blob")
    return contents
