"""Every frame of the wire, by name.

Both ends read with it, and `schemas/` is generated from it. All versions know all frames, because a host may send what
only a later engine understands.
"""

from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import events as shapes

VERSIONS = ("13", "18", "pi")
"""The default first: omp 13, the documented protocol; omp 18; and pi, from which omp came."""


def _by_name(*frames: type[shapes.Frame]) -> dict[str, type[shapes.Frame]]:
    return {str(frame.__struct_config__.tag): frame for frame in frames}


EVENTS = _by_name(
    shapes.Ready,
    shapes.Response,
    shapes.AgentStart,
    shapes.AgentEnd,
    shapes.TurnStart,
    shapes.TurnEnd,
    shapes.MessageStart,
    shapes.MessageUpdate,
    shapes.MessageEnd,
    shapes.ToolExecutionStart,
    shapes.ToolExecutionUpdate,
    shapes.ToolExecutionEnd,
    shapes.AutoCompactionStart,
    shapes.AutoCompactionEnd,
    shapes.CompactionStart,
    shapes.CompactionEnd,
    shapes.AutoRetryStart,
    shapes.AutoRetryEnd,
    shapes.TtsrTriggered,
    shapes.TodoReminder,
    shapes.TodoAutoClear,
    shapes.RetryFallbackApplied,
    shapes.RetryFallbackSucceeded,
    shapes.ExtensionError,
    shapes.ExtensionUIRequest,
    shapes.PromptResult,
    shapes.SessionSettled,
    shapes.AgentSettled,
    shapes.Alive,
    shapes.QueueUpdate,
    shapes.Notice,
    shapes.CommandOutput,
    shapes.ModelChanged,
    shapes.ThinkingLevelChanged,
    shapes.SessionInfoUpdate,
    shapes.ConfigUpdate,
    shapes.AvailableCommandsUpdate,
    shapes.HostToolCall,
    shapes.HostToolCancel,
    shapes.HostUriRequest,
    shapes.HostUriCancel,
    shapes.SubagentLifecycle,
    shapes.SubagentProgress,
    shapes.SubagentEvent,
)
REQUESTS = _by_name(
    requests.Prompt,
    requests.Steer,
    requests.FollowUp,
    requests.Abort,
    requests.AbortAndPrompt,
    requests.ClearQueue,
    requests.GetQueue,
    requests.GetState,
    requests.GetMessages,
    requests.GetLastAssistantText,
    requests.SetModel,
    requests.CycleModel,
    requests.GetAvailableModels,
    requests.SetThinkingLevel,
    requests.CycleThinkingLevel,
    requests.SetSteeringMode,
    requests.SetFollowUpMode,
    requests.SetInterruptMode,
    requests.SetAutoCompaction,
    requests.SetAutoRetry,
    requests.AbortRetry,
    requests.Compact,
    requests.Bash,
    requests.AbortBash,
    requests.NewSession,
    requests.GetSessionStats,
    requests.ExportHtml,
    requests.SwitchSession,
    requests.Branch,
    requests.GetBranchMessages,
    requests.SetSessionName,
    requests.Fork,
    requests.GetForkMessages,
    requests.Clone,
    requests.GetCommands,
    requests.SetTodos,
    requests.SetHostTools,
    requests.SetHostUriSchemes,
    requests.GetLoginProviders,
    requests.Login,
    requests.SetSubagentSubscription,
    requests.GetSubagents,
    requests.GetSubagentMessages,
    requests.GetAvailableCommands,
    requests.NegotiateProtocol,
    requests.GetMessagesPage,
    requests.SetFastMode,
    requests.GetEntries,
    requests.GetAvailableThinkingLevels,
    requests.OpenSession,
    requests.SetEventFilter,
)
ANSWERS = _by_name(
    requests.ExtensionUIResponse,
    requests.HostToolResult,
    requests.HostToolUpdate,
    requests.HostUriResult,
)
COMMANDS = {**REQUESTS, **ANSWERS}
