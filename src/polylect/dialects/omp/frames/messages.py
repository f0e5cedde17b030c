"""The parts of frames: content blocks, messages by their role, models, and the data of responses.

Python names stand for the camelCase names of the wire. A field with a default may be left out, and is left out if it
has that value. A field is null only if its type says so. `timestamp` is in milliseconds since 1970.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from polylect.dialects.schema import one_of

QueueMode = Annotated[str, one_of("all", "one-at-a-time")]
InterruptMode = Annotated[str, one_of("immediate", "wait")]
Level = Annotated[str, one_of("off", "minimal", "low", "medium", "high", "xhigh", "max")]
StopReason = Annotated[str, one_of("stop", "length", "toolUse", "error", "aborted")]


class Part(Struct, frozen=True, omit_defaults=True, rename="camel"):
    pass


# Content.


class Text(Part, frozen=True, tag_field="type", tag="text"):
    text: str
    text_signature: str | UnsetType = UNSET


class Image(Part, frozen=True, tag_field="type", tag="image"):
    data: str
    mime_type: str


class Thinking(Part, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    thinking_signature: str | UnsetType = UNSET


class RedactedThinking(Part, frozen=True, tag_field="type", tag="redactedThinking"):
    data: str


class ToolCall(Part, frozen=True, tag_field="type", tag="toolCall"):
    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | UnsetType = UNSET
    intent: str | UnsetType = UNSET


ContentBlock = Text | Image
ReplyBlock = Text | Thinking | RedactedThinking | ToolCall


class Cost(Part, frozen=True, omit_defaults=False):
    """Dollars. In a message: what it cost. In a model: the price of a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Total(Cost, frozen=True):
    total: float = 0


class Usage(Part, frozen=True, omit_defaults=False):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Total = Total()


class ToolOutcome(Part, frozen=True):
    """`result` and `partialResult` of a tool: its output, and details for the host."""

    content: list[ContentBlock]
    details: Any = UNSET


# Messages, by role.


class UserMessage(Part, frozen=True, tag_field="role", tag="user"):
    content: str | list[ContentBlock]
    timestamp: int
    attribution: Literal["user", "agent"] | UnsetType = UNSET
    synthetic: bool | UnsetType = UNSET


class DeveloperMessage(Part, frozen=True, tag_field="role", tag="developer"):
    """A message to the model that no person typed, such as a reminder."""

    content: str | list[ContentBlock]
    timestamp: int
    attribution: Literal["user", "agent"] | UnsetType = UNSET


class AssistantMessage(Part, frozen=True, tag_field="role", tag="assistant"):
    """Before `message_end`, `stop_reason` and `usage` are placeholders."""

    content: list[ReplyBlock]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: StopReason
    timestamp: int
    error_message: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET


class ToolResultMessage(Part, frozen=True, tag_field="role", tag="toolResult"):
    tool_call_id: str
    tool_name: str
    content: list[ContentBlock]
    is_error: bool
    timestamp: int
    details: Any = UNSET


class BashExecution(Part, frozen=True, tag_field="role", tag="bashExecution"):
    command: str
    output: str
    cancelled: bool
    truncated: bool
    timestamp: int
    exit_code: int | UnsetType = UNSET
    full_output_path: str | UnsetType = UNSET


class CompactionSummary(Part, frozen=True, tag_field="role", tag="compactionSummary"):
    summary: str
    tokens_before: int
    timestamp: int


class BranchSummary(Part, frozen=True, tag_field="role", tag="branchSummary"):
    summary: str
    from_id: str
    timestamp: int


class CustomMessage(Part, frozen=True, tag_field="role", tag="custom"):
    custom_type: str
    content: str | list[ContentBlock]
    display: bool
    timestamp: int
    details: Any = UNSET


class FileMention(Part, frozen=True, tag_field="role", tag="fileMention"):
    files: list[dict[str, Any]]
    timestamp: int


Message = (
    UserMessage
    | DeveloperMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecution
    | CompactionSummary
    | BranchSummary
    | CustomMessage
    | FileMention
)


# What responses carry.


class Model(Part, frozen=True, omit_defaults=False):
    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool
    input: list[str]
    cost: Cost
    context_window: int
    max_tokens: int
    thinking: dict[str, Any] | UnsetType = UNSET


class State(Part, frozen=True):
    """The data of `get_state`. pi has `pendingMessageCount` instead of `queuedMessageCount`, and no `interruptMode`.
    The fields after them are of omp 18."""

    model: Model | UnsetType = UNSET
    thinking_level: Level | UnsetType = UNSET
    is_streaming: bool | UnsetType = UNSET
    is_compacting: bool | UnsetType = UNSET
    steering_mode: QueueMode | UnsetType = UNSET
    follow_up_mode: QueueMode | UnsetType = UNSET
    interrupt_mode: InterruptMode | UnsetType = UNSET
    session_file: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    session_name: str | UnsetType = UNSET
    auto_compaction_enabled: bool | UnsetType = UNSET
    message_count: int | UnsetType = UNSET
    queued_message_count: int | UnsetType = UNSET
    pending_message_count: int | UnsetType = UNSET
    fast_mode_enabled: bool | UnsetType = UNSET
    fast_mode_active: bool | UnsetType = UNSET
    tokens_per_second: float | UnsetType | None = UNSET
    has_pending_async_work: bool | UnsetType = UNSET
    is_settled: bool | UnsetType = UNSET
    todo_phases: list[dict[str, Any]] | UnsetType = UNSET
    context_usage: dict[str, Any] | UnsetType = UNSET


class CompactionResult(Part, frozen=True):
    """The data of `compact`, and `result` of `auto_compaction_end`."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    estimated_tokens_after: int | UnsetType = UNSET
    details: Any = UNSET


class BashResult(Part, frozen=True):
    output: str
    cancelled: bool
    truncated: bool
    exit_code: int | UnsetType = UNSET
    full_output_path: str | UnsetType = UNSET
    total_lines: int | UnsetType = UNSET
    total_bytes: int | UnsetType = UNSET
    output_lines: int | UnsetType = UNSET
    output_bytes: int | UnsetType = UNSET


class Tokens(Part, frozen=True, omit_defaults=False):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class Stats(Part, frozen=True, kw_only=True):
    """The data of `get_session_stats`."""

    session_file: str | UnsetType = UNSET
    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: Tokens
    cost: float
    premium_requests: int | UnsetType = UNSET


class ForkMessage(Part, frozen=True):
    """A row of `get_branch_messages` and `get_fork_messages`."""

    entry_id: str
    text: str
