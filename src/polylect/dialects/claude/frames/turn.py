"""Shapes of the frames of a turn, in both directions.

A field that may be left out has a default; a field without one is always written. `notices` has the frames around a
turn, `control` the control protocol, and `table` lists all, for the schemas in `schemas/`. These shapes describe what
polylect writes; readers accept more.
"""

# ruff: noqa: N815  (the wire has names in both styles)
from typing import Annotated, Any, Literal, TypedDict

from msgspec import UNSET, Struct, UnsetType

from polylect.dialects.schema import one_of

Opaque = dict[str, Any]


Mode = Annotated[str, one_of("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto", "manual")]
Terminal = Annotated[
    str,
    one_of(
        "completed", "aborted_streaming", "aborted_tools", "max_turns", "budget_exhausted", "api_error",
        "prompt_too_long", "model_error", "structured_output_retry_exhausted", "hook_stopped", "turn_setup_failed",
    ),
]  # fmt: skip
ApiError = Annotated[
    str,
    one_of(
        "authentication_failed", "billing_error", "rate_limit", "overloaded", "invalid_request", "model_not_found",
        "server_error", "unknown", "max_output_tokens",
    ),
]  # fmt: skip


class Frame(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    pass


class SessionFrame(Frame, frozen=True):
    """The fields that nearly every frame of the engine has. `uuid` is new for each line."""

    session_id: str
    uuid: str


class Envelope(TypedDict):
    """The fields of `SessionFrame` as values to be filled in."""

    session_id: str
    uuid: str


class Marks(TypedDict, total=False):
    """The fields that mark a frame as one of a sub-agent."""

    agent_id: str
    subagent_type: str
    task_description: str


# Content blocks.


class Block(Struct, frozen=True, omit_defaults=True, tag_field="type"):
    pass


class TextBlock(Block, frozen=True, tag="text"):
    text: str


class ThinkingBlock(Block, frozen=True, tag="thinking"):
    thinking: str
    signature: str


class RedactedThinkingBlock(Block, frozen=True, tag="redacted_thinking"):
    data: str


class ToolUseBlock(Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: Opaque


class ServerToolUseBlock(Block, frozen=True, tag="server_tool_use"):
    id: str
    name: str
    input: Opaque


class Source(Struct, frozen=True, omit_defaults=True):
    type: Annotated[str, one_of("base64", "text", "url")]
    media_type: str = ""
    data: str = ""
    url: str = ""


class ImageBlock(Block, frozen=True, tag="image"):
    source: Source


class DocumentBlock(Block, frozen=True, tag="document"):
    source: Source
    title: str = ""


class ToolResultBlock(Block, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock]
    is_error: bool | UnsetType = UNSET


Spoken = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ServerToolUseBlock
UserBlock = TextBlock | ImageBlock | DocumentBlock | ToolResultBlock


# Messages of the model.


class CacheCreation(Struct, frozen=True):
    ephemeral_1h_input_tokens: int = 0
    ephemeral_5m_input_tokens: int = 0


class ServerToolUse(Struct, frozen=True):
    web_search_requests: int = 0
    web_fetch_requests: int = 0


class Usage(Struct, frozen=True):
    """Tokens. The three kinds of input do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    server_tool_use: ServerToolUse = ServerToolUse()
    service_tier: str = "standard"
    cache_creation: CacheCreation = CacheCreation()


class Message(Struct, frozen=True, tag_field="type", tag="message"):
    """One reply of the model. Each block of it has a frame of its own with the same `id` and the same `usage`, which
    counts once."""

    id: str
    model: str
    content: list[Spoken]
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage = Usage()
    context_management: None = None
    role: Literal["assistant"] = "assistant"


class ToolMeta(Struct, frozen=True):
    """What to show for a call of an MCP server's tool, instead of `mcp__server__tool`."""

    id: str
    display_name: str
    server_display_name: str
    tool_name: str


class Assistant(SessionFrame, frozen=True, kw_only=True, tag="assistant"):
    """One complete block of a reply."""

    message: Message
    parent_tool_use_id: str | None
    timestamp: str | UnsetType = UNSET
    request_id: str = ""
    error: ApiError = ""
    is_api_error_message: bool = False
    aborted: bool = False
    agent_id: str = ""
    subagent_type: str = ""
    task_description: str = ""
    user_message_uuid: str = ""
    user_message_uuids: list[str] | UnsetType = UNSET
    tool_use_meta: list[ToolMeta] = []


class StreamEvent(SessionFrame, frozen=True, kw_only=True, tag="stream_event"):
    """`event` is an event of the model's API: message_start, content_block_delta and so on."""

    event: Opaque
    parent_tool_use_id: str | None
    ttft_ms: int | UnsetType = UNSET
    api_message_id: str = ""


# Messages to the model.


class Decision(Struct, frozen=True, omit_defaults=True):
    decision: Annotated[str, one_of("accept", "reject")]
    source: str
    reason_type: str = ""


class ResultMeta(Struct, frozen=True, omit_defaults=True):
    """Who allowed or denied the call of a tool_result. `outcome` is an addition of polylect; it tells denied, cancelled
    and skipped apart, which `is_error` does not."""

    id: str
    permission_decision: Decision | None = None
    non_execution_kind: str = ""
    outcome: str = ""
    tool_name: str = ""
    reason: str = ""


class Words(Struct, frozen=True):
    content: str | list[UserBlock]
    role: Literal["user"] = "user"


class User(SessionFrame, frozen=True, kw_only=True, tag="user"):
    """A tool_result, a prompt (replayed, from a sub-agent or made by the engine), or the note that a turn was
    interrupted."""

    message: Words
    parent_tool_use_id: str | None
    timestamp: str = ""
    tool_use_result: Any = UNSET
    tool_result_meta: list[ResultMeta] = []
    isReplay: bool = False
    isSynthetic: bool = False
    agent_id: str = ""
    subagent_type: str = ""
    task_description: str = ""
    origin: Opaque | None = None


# The beginning and the end of a turn.


class ServerState(Struct, frozen=True, omit_defaults=True):
    name: str
    status: Annotated[str, one_of("connected", "failed", "needs-auth", "pending", "disabled")]


class Engine(Struct, frozen=True):
    """Addition: the engine that really runs, because `claude_code_version` is that of claude."""

    name: str
    version: str
    priced: bool | UnsetType = UNSET
    """Whether the price of the model is known."""


class Init(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """The first frame of every turn: session, model, tools and mode."""

    subtype: Literal["init"]
    cwd: str
    tools: list[str]
    mcp_servers: list[ServerState]
    model: str
    permissionMode: Mode
    slash_commands: list[str]
    apiKeySource: str
    claude_code_version: str
    output_style: str
    agents: list[str]
    skills: list[str]
    plugins: list[Opaque]
    capabilities: list[str] | UnsetType = UNSET
    effort: str = ""
    fast_mode_state: str
    analytics_disabled: bool
    user_message_uuids: list[str] | UnsetType = UNSET
    engine: Engine


class Denial(Struct, frozen=True):
    tool_name: str
    tool_use_id: str
    tool_input: Opaque


class ModelUsage(Struct, frozen=True, omit_defaults=True):
    """Usage of one model over the whole session."""

    inputTokens: int
    outputTokens: int
    cacheReadInputTokens: int
    cacheCreationInputTokens: int
    webSearchRequests: int
    costUSD: float
    contextWindow: int
    maxOutputTokens: int
    provider: str = ""


class Fault(Struct, frozen=True, omit_defaults=True):
    """Addition: what went wrong, and whether the host, the provider, a tool or the engine has to act."""

    code: str
    owner: str
    message: str
    retryable: bool = False


class Result(SessionFrame, frozen=True, kw_only=True, tag="result"):
    """The end of a turn. `usage` counts this turn; the cost and `modelUsage` count the whole session."""

    subtype: Annotated[
        str,
        one_of(
            "success", "error_during_execution", "error_max_turns", "error_max_budget_usd",
            "error_max_structured_output_retries",
        ),
    ]  # fmt: skip
    is_error: bool
    result: str | UnsetType = UNSET
    errors: list[str] | UnsetType = UNSET
    api_error_status: int | UnsetType | None = UNSET
    stop_reason: str | None
    terminal_reason: Terminal = ""
    duration_ms: int
    duration_api_ms: int
    num_turns: int
    total_cost_usd: float
    usage: Usage
    modelUsage: dict[str, ModelUsage]
    model_usage_since_last_result: dict[str, ModelUsage] | UnsetType = UNSET
    permission_denials: list[Denial]
    structured_output: Any = UNSET
    ttft_ms: int | UnsetType = UNSET
    queued_turn_count: int | UnsetType = UNSET
    result_index: int | UnsetType = UNSET
    origin: Opaque | None = None
    user_message_uuid: str = ""
    user_message_uuids: list[str] | UnsetType = UNSET
    local_command: bool = False
    failure: Fault | None = None


# Frames of the host.


class Prompt(Frame, frozen=True, kw_only=True, tag="user"):
    message: Words
    session_id: str = ""
    parent_tool_use_id: str | None = None
    uuid: str = ""
    priority: Annotated[str, one_of("now", "next", "later")] = ""
    shouldQuery: bool = True
    client_composed: bool = False
    isSynthetic: bool = False
    origin: Opaque | None = None
    timestamp: str = ""


class KeepAlive(Frame, frozen=True, kw_only=True, tag="keep_alive"):
    """Sent by either side so that the connection is not taken for dead. It needs no answer."""


class Environment(Frame, frozen=True, kw_only=True, tag="update_environment_variables"):
    variables: dict[str, str]
