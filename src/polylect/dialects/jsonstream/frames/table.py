"""The frames of each version of the wire, by name.

Both ends read with these tables, and `schemas/` is generated from them. A frame that is not in the table of a version
is unknown in that version.
"""

from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.dialects.schema import by_name, defined_in

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
    shapes.AddMcpServer,
    shapes.Ping,
)

EXTRAS = by_name(*defined_in(optional, shapes.ExtraFrame))
"""Events that no other wire has. In the vocabulary they are an `Extra` of the same kind; a trace only if it is
incomplete."""

EVENTS = {
    "0.1.0": by_name(shapes.OldReady, *_SHARED_EVENTS, shapes.OldStreamEnd, shapes.OldError, shapes.OldConfigChanged),
    "0.2.0": {
        **by_name(
            shapes.Ready, *_SHARED_EVENTS, shapes.StreamEnd, shapes.Error, shapes.ConfigChanged, shapes.McpFailed
        ),
        **by_name(*defined_in(optional, shapes.Frame)),
    },
}
COMMANDS = {
    "0.1.0": by_name(shapes.OldMessage, *_SHARED_COMMANDS, shapes.OldSetConfig),
    "0.2.0": by_name(shapes.Message, *_SHARED_COMMANDS, shapes.SetConfig, shapes.ApprovalResume),
}
