"""Shapes of the frames around a turn: `system` frames of every subtype but `init`, and the rarer types.

The engine's end writes them; the host's end reads the same frames leniently (`lenient`). `table` lists all.
"""

# ruff: noqa: N815  (the wire has names in both styles)
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from polylect.dialects.claude.frames.turn import Mode, Opaque, SessionFrame
from polylect.dialects.schema import one_of


class Status(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """What the engine is doing, a change of the permission mode, or the result of a compaction."""

    subtype: Literal["status"]
    status: Annotated[str, one_of("requesting", "compacting")] | None
    permissionMode: Mode | UnsetType = UNSET
    compact_result: Annotated[str, one_of("success", "failed")] | UnsetType = UNSET
    compact_error: str = ""
    user_message_uuids: list[str] | UnsetType = UNSET


class CompactBoundary(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """A compaction has ended. `compact_metadata` has trigger, pre_tokens, post_tokens and preserved_segment. The
    summary follows in a `user` frame."""

    subtype: Literal["compact_boundary"]
    compact_metadata: Opaque


class ApiRetry(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["api_retry"]
    attempt: int
    max_retries: int
    retry_delay_ms: int
    error_status: int | None
    error: str


class PermissionDenied(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """A call was denied without asking the host. A call that the host denied gets no such frame."""

    subtype: Literal["permission_denied"]
    tool_name: str
    tool_use_id: str
    message: str
    agent_id: str = ""
    decision_reason_type: str = ""
    decision_reason: str = ""


class Informational(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["informational"]
    content: str
    level: Annotated[str, one_of("info", "notice", "suggestion", "warning")]
    tool_use_id: str = ""


class Notification(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["notification"]
    key: str = ""
    text: str = ""
    priority: str = ""
    params: Opaque | UnsetType = UNSET


class SessionState(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["session_state_changed"]
    state: Annotated[str, one_of("running", "requires_action", "idle")]
    sdk_host_only: bool = False


class CommandsChanged(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["commands_changed"]
    commands: list[Opaque]


class VcsStateChanged(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """A command has changed the repository in `cwd`. The result of the command follows."""

    subtype: Literal["vcs_state_changed"]
    kind: Annotated[str, one_of("commit", "push", "merge", "rebase")]
    cwd: str
    branch: str = ""


class SessionTitleChanged(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["session_title_changed"]
    title: str


class SessionWritesLost(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["session_writes_lost"]
    message: str = ""


# Agents and whatever else runs beside the turn.


class TaskStarted(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["task_started"]
    task_id: str
    tool_use_id: str = ""
    description: str
    task_type: Annotated[str, one_of("local_agent", "local_bash", "local_workflow")]
    subagent_type: str = ""
    prompt: str = ""
    is_backgrounded: bool | UnsetType = UNSET
    spawn_depth: int | UnsetType = UNSET
    parent_task_id: str = ""


class TaskProgress(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """`usage` has total_tokens, tool_uses and duration_ms."""

    subtype: Literal["task_progress"]
    task_id: str
    tool_use_id: str = ""
    description: str
    usage: dict[str, int]
    last_tool_name: str = ""
    subagent_type: str = ""


class TaskUpdated(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """`patch` has the status: pending, running, completed, failed, killed, paused."""

    subtype: Literal["task_updated"]
    task_id: str
    patch: Opaque


class TaskNotification(SessionFrame, frozen=True, kw_only=True, tag="system"):
    subtype: Literal["task_notification"]
    task_id: str
    tool_use_id: str = ""
    status: Annotated[str, one_of("completed", "failed", "stopped")]
    output_file: str
    summary: str
    usage: dict[str, int] | UnsetType = UNSET


class BackgroundTasks(SessionFrame, frozen=True, kw_only=True, tag="system"):
    """The list of all tasks that run in the background at this time."""

    subtype: Literal["background_tasks_changed"]
    tasks: list[Opaque]


# Types of their own.


class CommandLifecycle(SessionFrame, frozen=True, kw_only=True, tag="command_lifecycle"):
    """The state of a prompt that was sent with a uuid."""

    command_uuid: str
    state: Annotated[str, one_of("queued", "started", "completed", "cancelled")]


class ConversationReset(SessionFrame, frozen=True, kw_only=True, tag="conversation_reset"):
    """The conversation was cleared. `session_id` is the old session; the next `init` has the new one."""

    new_conversation_id: str
    trigger: str = ""


class ToolProgress(SessionFrame, frozen=True, kw_only=True, tag="tool_progress"):
    tool_use_id: str
    tool_name: str
    parent_tool_use_id: str | None
    elapsed_time_seconds: float


class PromptSuggestion(SessionFrame, frozen=True, kw_only=True, tag="prompt_suggestion"):
    suggestion: str


# Frames that the vocabulary has no event for: there they are an `Extra` of the same kind.

SYSTEM_EXTRAS = (
    "thinking_tokens", "model_refusal_fallback", "model_refusal_no_fallback", "background_tasks_changed",
    "control_request_progress", "plugin_install", "files_persisted", "memory_recall", "elicitation_complete",
    "worker_shutting_down", "vcs_state_changed", "code_change_published", "hook_started", "hook_progress",
    "hook_response",
)  # fmt: skip
"""By subtype."""
TYPE_EXTRAS = ("tool_use_summary", "auth_status", "active_goal", "transcript_mirror")
"""By type."""
