"""The frames of each version of the wire, by name.

Both ends read with these tables, and `schemas/` is generated from them. A frame that is not in the table of a version
is unknown in that version.
"""

from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import families


def _by_name(*frames: type[shapes.Frame]) -> dict[str, type[shapes.Frame]]:
    return {str(frame.__struct_config__.tag): frame for frame in frames}


_SHARED_EVENTS = (
    shapes.StreamStart,
    shapes.TextDelta,
    shapes.Thinking,
    shapes.ToolRequest,
    shapes.ToolRunning,
    shapes.ToolResult,
    shapes.ToolCancelled,
    shapes.Info,
    shapes.McpReady,
    shapes.Pong,
)
_SHARED_COMMANDS = (
    shapes.Stop,
    shapes.ToolApprove,
    shapes.ToolDeny,
    shapes.InitHistory,
    shapes.SetMode,
    shapes.SetConfig,
    shapes.AddMcpServer,
    shapes.Ping,
)

_FAMILIES = _by_name(
    families.ProviderCircuitEvent,
    families.BudgetExceeded,
    families.ToolPanicked,
    families.PluginRegistrationFailed,
    families.ToolChunk,
    families.SubAgentEvent,
    families.SessionCost,
    families.ApprovalRequired,
    families.Suspend,
    families.ApprovalResumed,
    families.CompactOffload,
    families.TraceEvent,
    families.BrowserEvent,
    families.BrowserPolicyDenied,
    families.CuaEvent,
    families.CuaPolicyDenied,
    families.PluginEvent,
    families.EvolutionEvent,
)
_WITH_WORDS = (
    families.ProviderCircuitEvent,
    families.BudgetExceeded,
    families.ToolPanicked,
    families.PluginRegistrationFailed,
    families.ToolChunk,
    families.SubAgentEvent,
    families.SessionCost,
    families.ApprovalRequired,
    families.Suspend,
    families.ApprovalResumed,
    families.PluginEvent,
)
EXTRAS = {name: frame for name, frame in _FAMILIES.items() if frame not in _WITH_WORDS}
"""Events that nobody else has: inside they are an `Extra` of the same kind, a trace only if it is incomplete."""

EVENTS = {
    "0.1.0": _by_name(shapes.OldReady, *_SHARED_EVENTS, shapes.OldStreamEnd, shapes.OldError, shapes.OldConfigChanged),
    "0.2.0": {
        **_by_name(
            shapes.Ready, *_SHARED_EVENTS, shapes.StreamEnd, shapes.Error, shapes.ConfigChanged, shapes.McpFailed
        ),
        **_FAMILIES,
    },
}
COMMANDS = {
    "0.1.0": _by_name(shapes.OldMessage, *_SHARED_COMMANDS),
    "0.2.0": _by_name(shapes.Message, *_SHARED_COMMANDS, shapes.ApprovalResume),
}
