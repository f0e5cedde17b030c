"""What today's Wayland Desktop expects of its engine beyond the documented 0.2.0, and we can say honestly.

`call_announced` shows the arguments of a call that nobody is asked about. Commands for features that this engine does
not have (recovery of a turn, goals, diagnostics, granted programs) get the refusal that their protocol defines: an
`error` would end the turn for that host. The engine's codec calls this; the host's end reads these frames in
`host/undocumented_events.py`. No `contract` is ever claimed: its digests are hashes of another program's source.
"""

from typing import Any

from polylect.dialects.jsonstream.frames.base import Count, Frame, Tool

_VERSION = 1


class CallAnnounced(Frame, frozen=True, tag="call_announced"):
    """A call that runs without a question, right before its `tool_running`."""

    msg_id: str
    call_id: str
    tool: Tool


class SessionRecoveryUnavailable(Frame, frozen=True, tag="session_recovery_unavailable"):
    recovery_version: Count
    request_id: str
    session_id: str
    reason: str


class GoalControlRefused(Frame, frozen=True, tag="goal_control_refused"):
    goal_version: Count
    session_id: str
    goal_id: str
    request_id: str
    reason: str


class RuntimeDiagnosticsUnavailable(Frame, frozen=True, tag="runtime_diagnostics_unavailable"):
    diagnostics_version: Count
    request_id: str
    reason: str
    supported_version: Count


class WorkspaceGrantRefused(Frame, frozen=True, tag="workspace_grant_refused"):
    """A path or a program was not granted. `reason` is `launcher_opt_in_required` or `policy_refused`."""

    command: str
    grant_id: str
    subject: str
    reason: str
    detail: str


def refusal_of(kind: str, fields: dict[str, Any]) -> Frame | None:
    """The refusal of a command that this engine does not serve; None for a command that nobody defines."""
    request, session = _text(fields, "request_id"), _text(fields, "session_id")
    match kind:
        case "session_resync" | "resume_turn" | "resolve_interrupted_approval" | "resolve_unknown_tool_effect":
            return SessionRecoveryUnavailable(_VERSION, request, session, "snapshot_unavailable")
        case "goal_open" | "goal_declare_task" | "goal_advance" | "goal_cancel" | "goal_resync":
            goal = _text(fields, "goal_id")
            return GoalControlRefused(_VERSION, session, goal, request, "journal_unavailable")
        case "get_runtime_diagnostics":
            return RuntimeDiagnosticsUnavailable(_VERSION, request, "unsupported_version", _VERSION)
        case "grant_workspace_capability":
            detail = "this engine runs every program in its sandbox, and grants none"
            return WorkspaceGrantRefused(kind, "", _text(fields, "executable"), "policy_refused", detail)
        case _:
            return None


def path_grant_refused(grant: str, root: str) -> Frame:
    """The answer to `grant_path` where the launcher did not allow that."""
    detail = "start the engine with --allow-host-path-grants to let the host widen what it may reach"
    return WorkspaceGrantRefused("grant_path", grant, root, "launcher_opt_in_required", detail)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value[:256] if isinstance(value, str) else ""
