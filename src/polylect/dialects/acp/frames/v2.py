"""The messages of version 2, a draft, that differ from those of version 1.

Both ends work with the messages of version 1 and translate at the connection (`engine/v2.py`, `host/v2.py`), so these
are written and never read. Nothing here is imported while version 1 is spoken.
"""

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from polylect.dialects.acp.frames import agent, client, updates
from polylect.dialects.acp.frames.client import Empty, Implementation, NameValue
from polylect.dialects.acp.frames.content import (
    AnyBlock,
    BlockContent,
    CallContent,
    Location,
    Shape,
    TerminalContent,
    ToolKind,
)
from polylect.dialects.acp.frames.updates import PlanEntry, SelectOption, Update
from polylect.dialects.schema import one_of
from polylect.wire.jsonrpc import Error

ToolStatus = Annotated[str, one_of("pending", "in_progress", "paused", "completed", "failed", "cancelled")]
StopReason = Annotated[str, one_of("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")]

# The connection


class ClientAuth(Shape, frozen=True, kw_only=True):
    terminal: Empty | None = None


class ClientCapabilities(Shape, frozen=True, kw_only=True):
    auth: ClientAuth | None = None
    elicitation: client.Elicitation | None = None


class Initialize(Shape, frozen=True, kw_only=True):
    protocol_version: int
    info: Implementation
    capabilities: ClientCapabilities = ClientCapabilities()


class PromptCapabilities(Shape, frozen=True, kw_only=True):
    image: Empty | None = None
    audio: Empty | None = None
    embedded_context: Empty | None = None


class McpCapabilities(Shape, frozen=True, kw_only=True):
    stdio: Empty | None = None
    http: Empty | None = None


class SessionCapabilities(Shape, frozen=True, kw_only=True):
    """An agent that has sessions can always open, resume, list and close them.

    From `fork` on they are not in the stable version.
    """

    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    delete: Empty | None = None
    additional_directories: Empty | None = None
    fork: Empty | None = None
    system_prompt: Empty | None = None
    archive: Empty | None = None
    status: Empty | None = None
    title: Empty | None = None


class AgentAuth(Shape, frozen=True, kw_only=True):
    """`status` is not in the stable version."""

    status: Empty | None = None


class AgentCapabilities(Shape, frozen=True, kw_only=True):
    session: SessionCapabilities | None = None
    auth: AgentAuth | None = None


class AuthMethod(Shape, frozen=True, kw_only=True):
    """A way to log in: with `auth/login`, or for the type `terminal` by the agent's own command with `args` added."""

    method_id: str
    name: str
    type: Annotated[str, one_of("agent", "terminal")]
    description: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[NameValue, ...] = ()


class Initialized(Shape, frozen=True, kw_only=True):
    protocol_version: int
    info: Implementation
    capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: tuple[AuthMethod, ...] = ()


# Sessions


class McpServer(Shape, frozen=True, kw_only=True):
    name: str
    type: Annotated[str, one_of("stdio", "http")]
    command: str | UnsetType = UNSET
    args: list[str] | UnsetType = UNSET
    env: list[NameValue] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    headers: list[NameValue] | UnsetType = UNSET


class NewSession(Shape, frozen=True, kw_only=True):
    cwd: str
    mcp_servers: tuple[McpServer, ...] = ()
    additional_directories: tuple[str, ...] = ()
    system_prompt: client.SystemPrompt | None = None


class ForkSession(NewSession, frozen=True, kw_only=True):
    """Not in the stable version."""

    session_id: str


class ReplayFrom(Shape, frozen=True, kw_only=True):
    type: Annotated[str, one_of("start")]


class ResumeSession(NewSession, frozen=True, kw_only=True):
    """With `replay_from` the conversation is sent before the answer."""

    session_id: str
    replay_from: ReplayFrom | None = None


class ConfigOption(Shape, frozen=True, kw_only=True):
    config_id: str
    name: str
    type: Annotated[str, one_of("select", "boolean")]
    current_value: str | bool
    description: str | None = None
    category: str | None = None
    options: list[SelectOption] | UnsetType = UNSET


class CommandInput(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    hint: str


class AvailableCommand(Shape, frozen=True, kw_only=True, tag_field="type", tag="command"):
    name: str
    description: str
    input: CommandInput | None = None


class SessionOpened(Shape, frozen=True, kw_only=True):
    """The result of resume, and with `session_id` of new and fork."""

    session_id: str | UnsetType = UNSET
    config_options: tuple[ConfigOption, ...] = ()


class ConfigOptions(Shape, frozen=True, kw_only=True):
    config_options: list[ConfigOption]


class SetConfigOption(Shape, frozen=True, kw_only=True):
    session_id: str
    config_id: str
    type: Annotated[str, one_of("id", "boolean")]
    value: str | bool


class PromptInserted(Shape, frozen=True, kw_only=True):
    """The prompt is a message of the conversation now. How its turn ends is told by `state_update`."""

    message_id: str


# Updates


class UserMessage(Update, frozen=True, kw_only=True, tag="user_message"):
    """A message of the user, whole."""

    message_id: str
    content: list[AnyBlock]


class StateChanged(Update, frozen=True, kw_only=True, tag="state_update"):
    """What the session is doing. `idle` has why the work ended, unless it only repeats what is known."""

    state: Annotated[str, one_of("running", "requires_action", "idle")]
    stop_reason: StopReason | None = None
    usage: client.TurnUsage | None = None
    error: Error | None = None


class DiffChange(Shape, frozen=True, kw_only=True):
    operation: Annotated[str, one_of("add", "delete", "modify")]
    path: str


class DiffPatch(Shape, frozen=True, kw_only=True):
    format: Annotated[str, one_of("git_patch")]
    text: str


class DiffContent(CallContent, frozen=True, kw_only=True, tag="diff"):
    changes: list[DiffChange]
    patch: DiffPatch | None = None


AnyContent = BlockContent | DiffContent | TerminalContent


class CallUpdate(Shape, frozen=True, kw_only=True):
    """What is known of a tool call. A field that is absent has not changed, and null clears it."""

    tool_call_id: str
    title: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    kind: ToolKind | UnsetType | None = UNSET
    status: ToolStatus | UnsetType | None = UNSET
    content: list[AnyContent] | UnsetType | None = UNSET
    locations: list[Location] | UnsetType | None = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallChanged(CallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """A new tool call, or news of one."""


class TerminalChanged(Update, frozen=True, kw_only=True, tag="terminal_update"):
    """A terminal of the agent's, or news of one. With an `exit_status` its command has ended."""

    terminal_id: str
    command: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    exit_status: agent.ExitStatus | UnsetType = UNSET


class TerminalChunk(Update, frozen=True, kw_only=True, tag="terminal_output_chunk"):
    """More output of a terminal, as base64."""

    terminal_id: str
    data: str


class PlanItems(Shape, frozen=True, kw_only=True, tag_field="type", tag="items"):
    plan_id: str
    entries: list[PlanEntry]


class PlanChanged(Update, frozen=True, kw_only=True, tag="plan_update"):
    """A whole plan, in the place of the one of the same id."""

    plan: PlanItems


class CommandsChanged(Update, frozen=True, kw_only=True, tag="available_commands_update"):
    available_commands: list[AvailableCommand]


class ConfigChanged(Update, frozen=True, kw_only=True, tag="config_option_update"):
    config_options: list[ConfigOption]


AnyUpdate = (
    updates.UserChunk
    | updates.AgentChunk
    | updates.ThoughtChunk
    | UserMessage
    | StateChanged
    | ToolCallChanged
    | TerminalChanged
    | TerminalChunk
    | PlanChanged
    | CommandsChanged
    | ConfigChanged
    | updates.SessionInfoChanged
    | updates.UsageChanged
    | updates.Notice
    | updates.CompactionChanged
    | updates.SubagentChanged
)


class SessionUpdate(Shape, frozen=True, kw_only=True):
    session_id: str
    update: AnyUpdate


class CallSubject(Shape, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    tool_call: CallUpdate


class RequestPermission(Shape, frozen=True, kw_only=True):
    session_id: str
    title: str
    subject: CallSubject
    options: list[agent.PermissionOption]
    description: str | None = None


CLIENT_REQUESTS: dict[str, tuple[type[Shape], type[Shape]]] = {
    "initialize": (Initialize, Initialized),
    "auth/login": (client.Authenticate, Empty),
    "auth/logout": (Empty, Empty),
    "session/new": (NewSession, SessionOpened),
    "session/resume": (ResumeSession, SessionOpened),
    "session/fork": (ForkSession, SessionOpened),
    **{f"session/{name}": client.REQUESTS[f"session/{name}"] for name in ("list", "close", "delete", "status")},
    **{f"session/{name}": client.REQUESTS[f"session/{name}"] for name in ("set_title", "archive", "unarchive")},
    **{name: client.REQUESTS[name] for name in ("auth/status", "_session/steering")},
    "session/set_config_option": (SetConfigOption, ConfigOptions),
    "session/prompt": (client.SendPrompt, PromptInserted),
}
AGENT_REQUESTS: dict[str, tuple[type[Shape], type[Shape]]] = {
    "session/request_permission": (RequestPermission, agent.PermissionAnswer),
    "elicitation/create": agent.REQUESTS["elicitation/create"],
}
AGENT_NOTIFICATIONS: dict[str, type[Shape]] = {**agent.NOTIFICATIONS, "session/update": SessionUpdate}
