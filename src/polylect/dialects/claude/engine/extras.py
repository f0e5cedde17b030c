"""Frames for `Extra` events: what this family of engines reports and the vocabulary has no event for.

The data of the event becomes a `system` frame of that subtype or a frame of that type. `EventWriter` is the caller.
"""

from typing import Any

from polylect.dialects.claude.frames.turn import Envelope
from polylect.vocab.events import Extra

_SYSTEM = frozenset(
    {
        "thinking_tokens", "model_refusal_fallback", "model_refusal_no_fallback", "background_tasks_changed",
        "control_request_progress", "plugin_install", "files_persisted", "memory_recall", "elicitation_complete",
        "worker_shutting_down",
    }
)  # fmt: skip
_HOOKS = frozenset({"hook_started", "hook_progress", "hook_response"})
_OWN_TYPES = frozenset({"tool_use_summary", "auth_status", "active_goal", "transcript_mirror"})


def extra(event: Extra, envelope: Envelope, *, hooks: bool) -> dict[str, Any] | None:
    """The frame; None if the wire has none of this kind, or `hooks` is false and it is about a hook."""
    if event.kind in _SYSTEM or (event.kind in _HOOKS and hooks):
        return {"type": "system", "subtype": event.kind, **event.data, **envelope}
    if event.kind in _OWN_TYPES:
        return {"type": event.kind, **event.data, **envelope}
    if event.kind == "rate_limit_event":
        return {"type": event.kind, "rate_limit_info": event.data, **envelope}
    return None
