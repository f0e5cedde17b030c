"""What a client asks of an agent: params and results of `initialize`, `authenticate` and `session/*`."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from polylect.dialects.acp.frames.content import AnyBlock, Shape
from polylect.dialects.acp.frames.updates import AnyConfig
from polylect.dialects.schema import one_of

StopReason = Annotated[str, one_of("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")]


class Empty(Shape, frozen=True, kw_only=True):
    """An object without fields: a capability that is there, or a result that says nothing more."""


# initialize


class Implementation(Shape, frozen=True, kw_only=True):
    """The name and the version of a program."""

    name: str
    version: str
    title: str | None = None


class FileCapabilities(Shape, frozen=True, kw_only=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientAuth(Shape, frozen=True, kw_only=True):
    terminal: bool = False


class ConfigCapabilities(Shape, frozen=True, kw_only=True):
    boolean: Empty | None = None


class ClientSession(Shape, frozen=True, kw_only=True):
    config_options: ConfigCapabilities | None = None
    notices: Empty | None = None
    compaction: Empty | None = None


class Elicitation(Shape, frozen=True, kw_only=True):
    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(Shape, frozen=True, kw_only=True):
    """What a client offers. What is absent is not there."""

    fs: FileCapabilities | None = None
    terminal: bool = False
    auth: ClientAuth | None = None
    session: ClientSession | None = None
    elicitation: Elicitation | None = None
    subagents: Empty | None = None


class Initialize(Shape, frozen=True, kw_only=True):
    protocol_version: int
    client_info: Implementation | None = None
    client_capabilities: ClientCapabilities | None = None


class PromptCapabilities(Shape, frozen=True, kw_only=True):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Shape, frozen=True, kw_only=True):
    http: bool = False
    sse: bool = False
    acp: bool = False


class SessionCapabilities(Shape, frozen=True, kw_only=True):
    list: Empty | None = None
    resume: Empty | None = None
    close: Empty | None = None
    delete: Empty | None = None
    fork: Empty | None = None
    additional_directories: Empty | None = None
    system_prompt: Empty | None = None
    archive: Empty | None = None
    status: Empty | None = None
    title: Empty | None = None


class AgentAuth(Shape, frozen=True, kw_only=True):
    logout: Empty | None = None
    status: Empty | None = None


class AgentCapabilities(Shape, frozen=True, kw_only=True):
    """What an agent offers. What is absent is not there."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuth | None = None


class AuthMethod(Shape, frozen=True, kw_only=True):
    """A way to log in. With the type `terminal` the client runs the agent's own command with `args` added."""

    id: str
    name: str
    description: str | None = None
    type: Annotated[str, one_of("terminal")] | UnsetType = UNSET
    args: list[str] | UnsetType = UNSET
    env: dict[str, str] | UnsetType = UNSET


class Initialized(Shape, frozen=True, kw_only=True):
    protocol_version: int
    agent_info: Implementation | None = None
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: tuple[AuthMethod, ...] = ()


class Authenticate(Shape, frozen=True, kw_only=True):
    method_id: str


# Sessions


class NameValue(Shape, frozen=True, kw_only=True):
    """A variable of an environment, or a header."""

    name: str
    value: str


class McpServer(Shape, frozen=True, kw_only=True):
    """An MCP server. Without a `type` it is a program; `http` and `sse` have an address, `acp` is in the client."""

    name: str
    type: Annotated[str, one_of("http", "sse", "acp")] | UnsetType = UNSET
    command: str | UnsetType = UNSET
    args: list[str] | UnsetType | None = UNSET
    env: list[NameValue] | UnsetType | None = UNSET
    url: str | UnsetType = UNSET
    headers: list[NameValue] | UnsetType | None = UNSET
    server_id: str | UnsetType = UNSET


class SystemPrompt(Shape, frozen=True, kw_only=True):
    """Instructions of the client beside those of the agent. Not in the stable version; claude and codex have it."""

    mode: str
    content: list[AnyBlock]


class NewSession(Shape, frozen=True, kw_only=True):
    cwd: str
    mcp_servers: list[McpServer] | None
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class LoadSession(Shape, frozen=True, kw_only=True):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer] | None
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class ResumeSession(Shape, frozen=True, kw_only=True):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer] | None = None
    additional_directories: list[str] | None = None
    system_prompt: SystemPrompt | None = None


class ForkSession(ResumeSession, frozen=True, kw_only=True):
    """Not in the stable version, and widely in use."""


class SessionMode(Shape, frozen=True, kw_only=True):
    id: str
    name: str
    description: str | None = None


class SessionModes(Shape, frozen=True, kw_only=True):
    current_mode_id: str
    available_modes: list[SessionMode]


class SessionOpened(Shape, frozen=True, kw_only=True):
    """The result of load and resume, and with `session_id` of new and fork."""

    session_id: str | UnsetType = UNSET
    modes: SessionModes | None = None
    config_options: list[AnyConfig] | None = None


class ListSessions(Shape, frozen=True, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None
    archived: str | None = None


class SessionInfo(Shape, frozen=True, kw_only=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class SessionList(Shape, frozen=True, kw_only=True):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class OneSession(Shape, frozen=True, kw_only=True):
    """The params of close, delete and cancel."""

    session_id: str


class SetTitle(Shape, frozen=True, kw_only=True):
    """The params of `session/set_title`, which is not in the stable version."""

    session_id: str
    title: str


class TitleSet(Shape, frozen=True, kw_only=True):
    title: str


class SessionStatus(Shape, frozen=True, kw_only=True):
    """The result of `session/status`, which is not in the stable version."""

    status: Annotated[str, one_of("open", "saved")]


class AuthStatus(Shape, frozen=True, kw_only=True):
    """The result of `auth/status`, which is not in the stable version."""

    state: Annotated[str, one_of("authenticated", "unauthenticated", "not_required", "unknown")]


class SetMode(Shape, frozen=True, kw_only=True):
    session_id: str
    mode_id: str


class SetConfigOption(Shape, frozen=True, kw_only=True):
    """Sets a select option to a text, or with `type` `boolean` a boolean one to true or false."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | UnsetType = UNSET


class ConfigOptions(Shape, frozen=True, kw_only=True):
    """The result of `session/set_config_option`: all options, because one may change others."""

    config_options: list[AnyConfig]


class SendPrompt(Shape, frozen=True, kw_only=True):
    session_id: str
    prompt: list[AnyBlock]


class TurnUsage(Shape, frozen=True, kw_only=True):
    """Tokens of a turn. Not in the stable version, and widely in use."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptEnded(Shape, frozen=True, kw_only=True):
    stop_reason: StopReason
    usage: TurnUsage | None = None


class CancelRequest(Shape, frozen=True, kw_only=True):
    """Either side withdraws a request that it sent."""

    request_id: int | str | None


class Steering(Shape, frozen=True, kw_only=True):
    """The params of `_session/steering`: a message for the running turn."""

    session_id: str
    prompt: list[AnyBlock]


class Steered(Shape, frozen=True, kw_only=True):
    outcome: Annotated[str, one_of("injected", "startedNewTurn", "promptRequired")]
    reason: str | UnsetType = UNSET


REQUESTS: dict[str, tuple[type[Shape], type[Shape]]] = {
    "initialize": (Initialize, Initialized),
    "authenticate": (Authenticate, Empty),
    "logout": (Empty, Empty),
    "session/new": (NewSession, SessionOpened),
    "session/load": (LoadSession, SessionOpened),
    "session/resume": (ResumeSession, SessionOpened),
    "session/fork": (ForkSession, SessionOpened),
    "session/list": (ListSessions, SessionList),
    "session/close": (OneSession, Empty),
    "session/delete": (OneSession, Empty),
    "session/archive": (OneSession, Empty),
    "session/unarchive": (OneSession, Empty),
    "session/status": (OneSession, SessionStatus),
    "session/set_title": (SetTitle, TitleSet),
    "auth/status": (Empty, AuthStatus),
    "session/set_mode": (SetMode, Empty),
    "session/set_config_option": (SetConfigOption, ConfigOptions),
    "session/prompt": (SendPrompt, PromptEnded),
    "_session/steering": (Steering, Steered),
}
"""The requests of a client: their params and their results."""

NOTIFICATIONS: dict[str, type[Shape]] = {"session/cancel": OneSession, "$/cancel_request": CancelRequest}
"""The notifications of a client."""
