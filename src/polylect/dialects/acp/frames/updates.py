"""The kinds of `session/update`: everything that an agent tells of a session without being asked."""

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from polylect.dialects.acp.frames.content import AnyBlock, AnyContent, CallUpdate, Location, Shape, ToolKind, ToolStatus
from polylect.dialects.schema import one_of
from polylect.wire.jsonrpc import Error

Severity = Annotated[str, one_of("info", "warning", "error")]
CompactionStatus = Annotated[str, one_of("in_progress", "completed", "failed", "cancelled")]


class Update(Shape, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    """An update; its `sessionUpdate` decides the other fields."""


class UserChunk(Update, frozen=True, kw_only=True, tag="user_message_chunk"):
    content: AnyBlock
    message_id: str | None = None


class AgentChunk(Update, frozen=True, kw_only=True, tag="agent_message_chunk"):
    content: AnyBlock
    message_id: str | None = None


class ThoughtChunk(Update, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    content: AnyBlock
    message_id: str | None = None


class ToolCalled(Update, frozen=True, kw_only=True, tag="tool_call"):
    """A new tool call."""

    tool_call_id: str
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolStatus | UnsetType = UNSET
    content: tuple[AnyContent, ...] = ()
    locations: tuple[Location, ...] = ()
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallChanged(CallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """News of a tool call."""


class PlanEntry(Shape, frozen=True, kw_only=True):
    content: str
    priority: Annotated[str, one_of("high", "medium", "low")]
    status: Annotated[str, one_of("pending", "in_progress", "completed")]


class Plan(Update, frozen=True, kw_only=True, tag="plan"):
    """The whole plan, in the place of the one before."""

    entries: list[PlanEntry]


class CommandInput(Shape, frozen=True, kw_only=True):
    hint: str


class AvailableCommand(Shape, frozen=True, kw_only=True):
    """A slash command; `name` has no slash."""

    name: str
    description: str
    input: CommandInput | None = None


class CommandsChanged(Update, frozen=True, kw_only=True, tag="available_commands_update"):
    available_commands: list[AvailableCommand]


class ModeChanged(Update, frozen=True, kw_only=True, tag="current_mode_update"):
    current_mode_id: str


class SelectOption(Shape, frozen=True, kw_only=True):
    value: str
    name: str
    description: str | None = None


class ConfigOption(Shape, frozen=True, kw_only=True, tag_field="type"):
    """A setting that the client can change; its `type` decides the other fields."""

    id: str
    name: str
    description: str | None = None
    category: Annotated[str, one_of("mode", "model", "model_config", "thought_level")] | None = None


class SelectConfig(ConfigOption, frozen=True, kw_only=True, tag="select"):
    current_value: str
    options: list[SelectOption]


class BooleanConfig(ConfigOption, frozen=True, kw_only=True, tag="boolean"):
    current_value: bool


AnyConfig = SelectConfig | BooleanConfig


class ConfigChanged(Update, frozen=True, kw_only=True, tag="config_option_update"):
    """All config options, in the place of those before."""

    config_options: list[AnyConfig]


class SessionInfoChanged(Update, frozen=True, kw_only=True, tag="session_info_update"):
    """News of the session itself; null clears a field."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class Cost(Shape, frozen=True, kw_only=True):
    amount: float
    currency: str


class UsageChanged(Update, frozen=True, kw_only=True, tag="usage_update"):
    """`used` of `size` tokens of the model's window are in use; `cost` is that of the session so far."""

    used: int
    size: int
    cost: Cost | None = None


class Notice(Update, frozen=True, kw_only=True, tag="notice"):
    """A remark for the person. Only for clients that take notices."""

    severity: Severity
    title: str
    description: str | None = None


class CompactionChanged(Update, frozen=True, kw_only=True, tag="compaction_update"):
    """News of a compaction. Only for clients that show compactions."""

    compaction_id: str
    status: CompactionStatus
    summary: list[AnyBlock] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class CompactionChunk(Update, frozen=True, kw_only=True, tag="compaction_summary_chunk"):
    compaction_id: str
    content: AnyBlock


class State(Shape, frozen=True, kw_only=True):
    """What a sub-agent is doing: `running`, `requires_action` or `idle`, which may have a stop reason and an error."""

    state: str
    stop_reason: str | None = None
    error: Error | None = None


class SubagentChanged(Update, frozen=True, kw_only=True, tag="subagent_update"):
    """News of a child session. Not in the stable version: only for clients that show sub-agents."""

    session_id: str
    title: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    capabilities: dict[str, Any] | UnsetType | None = UNSET
    state: State | UnsetType | None = UNSET


AnyUpdate = (
    UserChunk
    | AgentChunk
    | ThoughtChunk
    | ToolCalled
    | ToolCallChanged
    | Plan
    | CommandsChanged
    | ModeChanged
    | ConfigChanged
    | SessionInfoChanged
    | UsageChanged
    | Notice
    | CompactionChanged
    | CompactionChunk
    | SubagentChanged
)


class SessionUpdate(Shape, frozen=True, kw_only=True):
    """The params of `session/update`."""

    session_id: str
    update: AnyUpdate
