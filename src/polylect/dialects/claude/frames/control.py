"""Shapes of the control protocol: requests and responses that both sides send, in one envelope.

The sender of a request chooses its `request_id`; the response repeats it.

    {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}
    {"type": "control_response", "response": {"subtype": "success", "request_id": "r1"}}
"""

# ruff: noqa: N815  (the wire has names in both styles)
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from polylect.dialects.claude.frames.turn import Frame, Mode, Opaque
from polylect.dialects.schema import one_of


class Request(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="subtype"):
    pass


class ControlRequest(Frame, frozen=True, kw_only=True, tag="control_request"):
    """A request of either side. Its `request` has a `subtype`, which decides the other fields."""

    request_id: str
    request: Opaque


class Success(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="subtype", tag="success"):
    request_id: str
    response: Opaque | UnsetType = UNSET


class Refusal(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="subtype", tag="error"):
    request_id: str
    error: str
    error_code: str = ""


class ControlResponse(Frame, frozen=True, kw_only=True, tag="control_response"):
    response: Success | Refusal


class ControlCancel(Frame, frozen=True, kw_only=True, tag="control_cancel_request"):
    """The engine withdraws a request that it sent. The host stops working on it and sends no response."""

    request_id: str


# Requests of a host.


class HookMatcher(Struct, frozen=True, omit_defaults=True):
    hookCallbackIds: list[str]
    matcher: str | None = None
    timeout: float | UnsetType = UNSET
    onFailure: Annotated[str, one_of("continue", "block")] = ""


class Initialize(Request, frozen=True, kw_only=True, tag="initialize"):
    hooks: dict[str, list[HookMatcher]] | None = None
    agents: dict[str, Opaque] | UnsetType = UNSET
    skills: list[str] | UnsetType = UNSET
    systemPrompt: list[str] | str | UnsetType = UNSET
    appendSystemPrompt: str | UnsetType = UNSET
    sdkMcpServers: list[str] | UnsetType = UNSET
    jsonSchema: Opaque | UnsetType = UNSET
    forwardSubagentText: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET
    toolAliases: Any = None
    planModeInstructions: Any = None
    promptSuggestions: Any = None
    agentProgressSummaries: Any = None
    sdkMcpServerConfigs: Any = None
    plugins: Any = None


class Interrupt(Request, frozen=True, kw_only=True, tag="interrupt"):
    cancel_queued: bool = False


class SetPermissionMode(Request, frozen=True, kw_only=True, tag="set_permission_mode"):
    mode: Mode


class SetModel(Request, frozen=True, kw_only=True, tag="set_model"):
    model: str | None = None


class SetMaxThinkingTokens(Request, frozen=True, kw_only=True, tag="set_max_thinking_tokens"):
    max_thinking_tokens: int | None = None
    thinking_display: str | UnsetType = UNSET


class McpStatus(Request, frozen=True, kw_only=True, tag="mcp_status"):
    pass


class McpReconnect(Request, frozen=True, kw_only=True, tag="mcp_reconnect"):
    serverName: str


class McpToggle(Request, frozen=True, kw_only=True, tag="mcp_toggle"):
    serverName: str
    enabled: bool


class McpSetServers(Request, frozen=True, kw_only=True, tag="mcp_set_servers"):
    servers: dict[str, Opaque]


class McpReadResource(Request, frozen=True, kw_only=True, tag="mcp_read_resource"):
    serverName: str
    uri: str


class RewindFiles(Request, frozen=True, kw_only=True, tag="rewind_files"):
    user_message_id: str
    dry_run: bool = False


class RewindConversation(Request, frozen=True, kw_only=True, tag="rewind_conversation"):
    target_message_uuid: str


class ReloadPlugins(Request, frozen=True, kw_only=True, tag="reload_plugins"):
    pass


class ReloadSkills(Request, frozen=True, kw_only=True, tag="reload_skills"):
    pass


class GetStatus(Request, frozen=True, kw_only=True, tag="get_status"):
    pass


class GetContextUsage(Request, frozen=True, kw_only=True, tag="get_context_usage"):
    detail: str | UnsetType = UNSET


class GetSettings(Request, frozen=True, kw_only=True, tag="get_settings"):
    pass


class ApplyFlagSettings(Request, frozen=True, kw_only=True, tag="apply_flag_settings"):
    settings: Opaque


class UpdateSettings(Request, frozen=True, kw_only=True, tag="update_settings"):
    source: str
    settings: Opaque


class GetSessionCost(Request, frozen=True, kw_only=True, tag="get_session_cost"):
    pass


class GetUsage(Request, frozen=True, kw_only=True, tag="get_usage"):
    pass


class StopTask(Request, frozen=True, kw_only=True, tag="stop_task"):
    task_id: str


class GetTaskOutput(Request, frozen=True, kw_only=True, tag="get_task_output"):
    task_id: str


class CancelAsyncMessage(Request, frozen=True, kw_only=True, tag="cancel_async_message"):
    message_uuid: str


class GenerateSessionTitle(Request, frozen=True, kw_only=True, tag="generate_session_title"):
    description: str
    persist: bool = False


class SideQuestion(Request, frozen=True, kw_only=True, tag="side_question"):
    question: str


class RenameSession(Request, frozen=True, kw_only=True, tag="rename_session"):
    title: str


class SetColor(Request, frozen=True, kw_only=True, tag="set_color"):
    color: str


class ListModels(Request, frozen=True, kw_only=True, tag="list_models"):
    pass


class ListPermissionRules(Request, frozen=True, kw_only=True, tag="list_permission_rules"):
    pass


class GetHooksListing(Request, frozen=True, kw_only=True, tag="get_hooks_listing"):
    pass


class GetBinaryVersion(Request, frozen=True, kw_only=True, tag="get_binary_version"):
    pass


class FileSuggestions(Request, frozen=True, kw_only=True, tag="file_suggestions"):
    query: str


class ReadFile(Request, frozen=True, kw_only=True, tag="read_file"):
    path: str
    max_bytes: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    encoding: Annotated[str, one_of("utf-8", "base64")] = ""


class SeedReadState(Request, frozen=True, kw_only=True, tag="seed_read_state"):
    """The host has seen that a file was read: it may be edited unless it has changed since. `mtime` is in ms."""

    path: str
    mtime: float


class GetPlan(Request, frozen=True, kw_only=True, tag="get_plan"):
    pass


class ExportConversation(Request, frozen=True, kw_only=True, tag="export_conversation"):
    pass


class ForkConversation(Request, frozen=True, kw_only=True, tag="fork_conversation"):
    pass


class MoveToBackground(Request, frozen=True, kw_only=True, tag="background_tasks"):
    """The calls that the turn waits for, or this one, should go on in the background."""

    tool_use_id: str | UnsetType = UNSET


class ReloadOutputStyles(Request, frozen=True, kw_only=True, tag="reload_output_styles"):
    pass


class SetHasSubscribers(Request, frozen=True, kw_only=True, tag="set_has_subscribers"):
    has_subscribers: bool | None = None


class EndSession(Request, frozen=True, kw_only=True, tag="end_session"):
    reason: str = ""


# Requests of both sides: MCP messages of a server inside the host.


class McpMessage(Request, frozen=True, kw_only=True, tag="mcp_message"):
    server_name: str
    message: Opaque


# Requests of an engine.


class CanUseTool(Request, frozen=True, kw_only=True, tag="can_use_tool"):
    tool_name: str
    display_name: str = ""
    input: Opaque
    tool_use_id: str
    description: str = ""
    permission_suggestions: list[Opaque] = []
    blocked_path: str = ""
    decision_reason: str = ""
    decision_reason_type: str = ""
    agent_id: str = ""
    title: str = ""
    requires_user_interaction: bool = False
    mcp_server: Opaque | UnsetType = UNSET
    """`{"name": ..., "source": ...}`. Our engine leaves it out: the name of the tool has the server in it."""


class HookCallback(Request, frozen=True, kw_only=True, tag="hook_callback"):
    callback_id: str
    input: Opaque
    tool_use_id: str


class Elicitation(Request, frozen=True, kw_only=True, tag="elicitation"):
    mcp_server_name: str
    message: str
    mode: Annotated[str, one_of("form", "url")] | UnsetType = UNSET
    url: str = ""
    elicitation_id: str = ""
    requested_schema: Opaque | UnsetType = UNSET


class UserDialog(Request, frozen=True, kw_only=True, tag="request_user_dialog"):
    dialog_kind: str
    payload: Any
