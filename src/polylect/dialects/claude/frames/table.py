"""All frames of the wire by direction and name: the `type`, or `system/` and the subtype.

`dialect` publishes it, and the JSON schemas in `schemas/` are generated from it.
"""

from msgspec import Struct

from polylect.dialects.claude.frames import control, notices
from polylect.dialects.claude.frames import turn as shapes

SYSTEM: dict[str, type[shapes.Frame]] = {
    "init": shapes.Init,
    "status": notices.Status,
    "compact_boundary": notices.CompactBoundary,
    "thinking_tokens": notices.ThinkingTokens,
    "api_retry": notices.ApiRetry,
    "permission_denied": notices.PermissionDenied,
    "informational": notices.Informational,
    "local_command_output": notices.LocalCommandOutput,
    "notification": notices.Notification,
    "session_state_changed": notices.SessionState,
    "commands_changed": notices.CommandsChanged,
    "session_writes_lost": notices.SessionWritesLost,
    "task_started": notices.TaskStarted,
    "task_progress": notices.TaskProgress,
    "task_updated": notices.TaskUpdated,
    "task_notification": notices.TaskNotification,
    "background_tasks_changed": notices.BackgroundTasks,
    "hook_started": notices.HookStarted,
    "hook_response": notices.HookResponse,
}
"""By subtype."""

EVENTS: dict[str, type[Struct]] = {
    "assistant": shapes.Assistant,
    "user": shapes.User,
    "result": shapes.Result,
    "stream_event": shapes.StreamEvent,
    **{f"system/{subtype}": shape for subtype, shape in SYSTEM.items()},
    "control_request": control.ControlRequest,
    "control_response": control.ControlResponse,
    "control_cancel_request": control.ControlCancel,
    "command_lifecycle": notices.CommandLifecycle,
    "conversation_reset": notices.ConversationReset,
    "rate_limit_event": notices.RateLimit,
    "tool_progress": notices.ToolProgress,
    "tool_use_summary": notices.ToolUseSummary,
    "auth_status": notices.AuthStatus,
    "prompt_suggestion": notices.PromptSuggestion,
    "active_goal": notices.ActiveGoal,
    "transcript_mirror": notices.TranscriptMirror,
    "keep_alive": shapes.KeepAlive,
}

COMMANDS: dict[str, type[Struct]] = {
    "user": shapes.Prompt,
    "control_request": control.ControlRequest,
    "control_response": control.ControlResponse,
    "keep_alive": shapes.KeepAlive,
    "update_environment_variables": shapes.Environment,
}
