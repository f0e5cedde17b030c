"""The frames that an engine sends, as structs. `commands.py` has those of a host, `messages.py` the parts of both.

Readers accept more than these structs allow. Frames and fields marked "addition" are polylect's own; hosts of omp and
pi ignore what they do not know.
"""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from polylect.dialects.omp.frames import messages as m
from polylect.dialects.schema import one_of


class Frame(Struct, frozen=True, omit_defaults=True, tag_field="type", rename="camel"):
    pass


# Events, engine to host.


class Ready(Frame, frozen=True, tag="ready"):
    protocol_version: int | UnsetType = UNSET
    supported_protocol_versions: list[int] | UnsetType = UNSET
    max_frame_bytes: int | UnsetType = UNSET
    max_reassembled_frame_bytes: int | UnsetType = UNSET


class Response(Frame, frozen=True, kw_only=True, tag="response"):
    """The answer to a command. `data` is null only for `cycle_*`. The answers to unknown commands and to lines that are
    no JSON (`parse`) have no id."""

    id: str | int | UnsetType = UNSET
    command: str
    success: bool
    data: Any = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class RpcChunk(Frame, frozen=True, tag="rpc_chunk"):
    """18, protocol 2: a part of a frame that is longer than a line. `data` is base64 of at most 256 KiB."""

    chunk_id: str
    index: int
    count: int
    byte_length: int
    data: str


class AgentStart(Frame, frozen=True, tag="agent_start"):
    pass


class AgentEnd(Frame, frozen=True, tag="agent_end"):
    """The end of a run, with all its messages. `isTerminal` (omp 18) is false if the turn continues with another run.
    We write it only then; the end of a turn is `prompt_result`. `yielded` (omp 18) is the opposite, and `willRetry`
    (pi) says that another run follows."""

    messages: list[m.Message]
    is_terminal: bool | UnsetType = UNSET
    yielded: bool | UnsetType = UNSET
    will_retry: bool | UnsetType = UNSET


class TurnStart(Frame, frozen=True, tag="turn_start"):
    pass


class TurnEnd(Frame, frozen=True, tag="turn_end"):
    message: m.Message
    tool_results: list[m.ToolResultMessage]


class MessageStart(Frame, frozen=True, tag="message_start"):
    """`messageId` (18) is the same in the start, the updates and the end of one message."""

    message: m.Message
    message_id: str | UnsetType = UNSET


class AssistantMessageEvent(Struct, frozen=True, omit_defaults=True, kw_only=True, rename="camel"):
    """One step of a message that is being written. A delta has `delta`; the end of a text or of thinking has `content`;
    the end of a call has `tool_call`. The start of a call has `id` and `toolName` in pi, and where the frame has no
    message."""

    type: Annotated[
        str,
        one_of(
            "text_start", "text_delta", "text_end", "thinking_start", "thinking_delta", "thinking_end",
            "toolcall_start", "toolcall_delta", "toolcall_end",
        ),
    ]  # fmt: skip
    content_index: int | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_call: m.ToolCall | UnsetType = UNSET
    id: str | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    partial: m.AssistantMessage | UnsetType = UNSET


class MessageUpdate(Frame, frozen=True, tag="message_update"):
    """Slim frames have neither `message` nor `partial`. With `messageUpdates: "delta"`, `message` has only its role.
    When the byte quota of a reply is used up, `message` has no content. `usage` is of pi since 0.84, and like that of
    `message` empty until the reply has ended."""

    assistant_message_event: AssistantMessageEvent
    message: m.AssistantMessage | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    usage: m.Usage | UnsetType = UNSET


class MessageEnd(Frame, frozen=True, tag="message_end"):
    message: m.Message
    message_id: str | UnsetType = UNSET


class ToolExecutionStart(Frame, frozen=True, tag="tool_execution_start"):
    tool_call_id: str
    tool_name: str
    args: Any
    intent: str | UnsetType = UNSET


class ToolExecutionUpdate(Frame, frozen=True, tag="tool_execution_update"):
    """Addition: `agent`, set if this is only the progress of a sub-agent. The `subagent_*` frames say more."""

    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: m.ToolOutcome
    agent: str | UnsetType = UNSET


class ToolExecutionEnd(Frame, frozen=True, tag="tool_execution_end"):
    """Addition: `outcome` (denied, cancelled, skipped) and `reason` of a call that did not run to its end.
    `durationMs` is of pi."""

    tool_call_id: str
    tool_name: str
    result: m.ToolOutcome
    is_error: bool
    outcome: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET


class AutoCompactionStart(Frame, frozen=True, tag="auto_compaction_start"):
    reason: Annotated[str, one_of("threshold", "overflow", "idle", "manual")]
    action: str | UnsetType = UNSET


class AutoCompactionEnd(Frame, frozen=True, kw_only=True, tag="auto_compaction_end"):
    result: m.CompactionResult | UnsetType = UNSET
    aborted: bool
    will_retry: bool
    error_message: str | UnsetType = UNSET
    action: str | UnsetType = UNSET


class CompactionStart(Frame, frozen=True, tag="compaction_start"):
    """Only in pi."""

    reason: Annotated[str, one_of("threshold", "overflow", "manual", "idle")]


class CompactionEnd(Frame, frozen=True, kw_only=True, tag="compaction_end"):
    """Only in pi."""

    reason: Annotated[str, one_of("threshold", "overflow", "manual", "idle")]
    result: m.CompactionResult | UnsetType = UNSET
    aborted: bool
    will_retry: bool
    error_message: str | UnsetType = UNSET


class AutoRetryStart(Frame, frozen=True, tag="auto_retry_start"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Frame, frozen=True, tag="auto_retry_end"):
    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class TtsrTriggered(Frame, frozen=True, tag="ttsr_triggered"):
    rules: list[dict[str, Any]]


class Todo(Struct, frozen=True):
    id: str
    content: str
    status: Annotated[str, one_of("pending", "in_progress", "completed")]


class TodoReminder(Frame, frozen=True, tag="todo_reminder"):
    todos: list[Todo]
    attempt: int
    max_attempts: int


class TodoAutoClear(Frame, frozen=True, tag="todo_auto_clear"):
    pass


class RetryFallbackApplied(Frame, frozen=True, tag="retry_fallback_applied"):
    origin: str = field(name="from")
    to: str
    role: str


class RetryFallbackSucceeded(Frame, frozen=True, tag="retry_fallback_succeeded"):
    model: str
    role: str


class ExtensionError(Frame, frozen=True, tag="extension_error"):
    extension_path: str
    event: str
    error: str


class Question(Struct, frozen=True, omit_defaults=True):
    """A question of the dialog `ask`. An option has a label, and maybe a description."""

    id: str
    question: str
    options: list[dict[str, str]]
    header: str | UnsetType = UNSET
    multi: bool | UnsetType = UNSET


class ExtensionUIRequest(Frame, frozen=True, tag="extension_ui_request"):
    """A dialog (select, confirm, input, editor, ask) waits for an answer; other methods are only shown. Addition: a
    request for permission is a `select` that names the call, and the agent if it is a sub-agent."""

    id: str
    method: Annotated[
        str,
        one_of(
            "select", "confirm", "input", "editor", "ask", "notify", "setStatus", "setWidget", "setTitle",
            "set_editor_text", "cancel", "open_url",
        ),
    ]  # fmt: skip
    title: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    options: list[str] | UnsetType = UNSET
    option_details: list[dict[str, Any]] | UnsetType = UNSET
    questions: list[Question] | UnsetType = UNSET
    placeholder: str | UnsetType = UNSET
    prefill: str | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    notify_type: Annotated[str, one_of("info", "warning", "error")] | UnsetType = UNSET
    status_key: str | UnsetType = UNSET
    status_text: str | UnsetType = UNSET
    widget_key: str | UnsetType = UNSET
    widget_lines: list[str] | UnsetType = UNSET
    widget_placement: Annotated[str, one_of("aboveEditor", "belowEditor")] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    target_id: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    launch_url: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    args: dict[str, Any] | UnsetType = UNSET
    agent: str | UnsetType = UNSET


# Later engines, and additions.


class PromptResult(Frame, frozen=True, kw_only=True, tag="prompt_result"):
    """omp 18. One for each turn, right after its last `agent_end`. Additions: `reason`, `usage` (of all agents) and
    `steps` of the turn, `owner` and `code` of its failure. Without an id the turn was started by the engine."""

    id: str | UnsetType = UNSET
    agent_invoked: bool
    status: Annotated[str, one_of("completed", "aborted", "error")]
    error: dict[str, Any] | UnsetType = UNSET
    session_settled: bool
    reason: str | UnsetType = UNSET
    usage: m.Usage | UnsetType = UNSET
    steps: int | UnsetType = UNSET


class SessionSettled(Frame, frozen=True, tag="session_settled"):
    pass


class AgentSettled(Frame, frozen=True, tag="agent_settled"):
    """Only in pi: what `session_settled` is in omp. `aborted` says whether the last turn was."""

    aborted: bool


class Alive(Frame, frozen=True, tag="alive"):
    """Addition: the turn still runs. Written when nothing else was written for a while."""

    tool_call_id: str | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET


class QueueUpdate(Frame, frozen=True, tag="queue_update"):
    """In pi, and in omp after 18.3."""

    steering: list[str]
    follow_up: list[str]


class BashExecutionUpdate(Frame, frozen=True, tag="bash_execution_update"):
    """pi: what a command of `bash` has printed; `id` is that of the command."""

    delta: str
    id: str | int | UnsetType = UNSET


class Notice(Frame, frozen=True, tag="notice"):
    level: str
    message: str
    source: str | UnsetType = UNSET


class CommandOutput(Frame, frozen=True, tag="command_output"):
    text: str


class ModelChanged(Frame, frozen=True, tag="model_changed"):
    model: m.Model | str


class ThinkingLevelChanged(Frame, frozen=True, tag="thinking_level_changed"):
    thinking_level: m.Level | UnsetType = UNSET


class SessionInfoUpdate(Frame, frozen=True, tag="session_info_update"):
    session_id: str | UnsetType = UNSET
    session_name: str | UnsetType = UNSET


class ConfigUpdate(Frame, frozen=True, tag="config_update"):
    config: dict[str, Any]


class AvailableCommandsUpdate(Frame, frozen=True, tag="available_commands_update"):
    commands: list[dict[str, Any]]


class HostToolCall(Frame, frozen=True, tag="host_tool_call"):
    id: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any]


class HostToolCancel(Frame, frozen=True, tag="host_tool_cancel"):
    id: str
    target_id: str


class HostUriRequest(Frame, frozen=True, tag="host_uri_request"):
    id: str
    operation: str
    url: str
    content: str | UnsetType = UNSET


class HostUriCancel(Frame, frozen=True, tag="host_uri_cancel"):
    id: str
    target_id: str


class SubagentLifecycle(Frame, frozen=True, tag="subagent_lifecycle"):
    """`payload` has id and status (started, completed, failed). At the start also agent, and maybe parentId,
    toolCallId, task and background; at the end maybe summary."""

    payload: dict[str, Any]


class SubagentProgress(Frame, frozen=True, tag="subagent_progress"):
    """`payload` has id, text, usage and toolCount."""

    payload: dict[str, Any]


class SubagentEvent(Frame, frozen=True, tag="subagent_event"):
    """`payload` has id and event: a slim frame of the sub-agent."""

    payload: dict[str, Any]
