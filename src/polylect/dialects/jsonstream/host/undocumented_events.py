"""Reads events that wayland-core and aionrs added without documenting them. They are never written.

An event that is in no table here stays an `UnknownEvent`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream import events
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.vocab import events as e
from polylect.vocab.content import Failure

Fields = dict[str, Any]


class _Ids(msgspec.Struct, frozen=True):
    """What these events are matched by. The rest of them is taken as it comes."""

    request_id: str = ""
    call_id: str = ""
    name: str = ""
    msg_id: str = ""


def decode(kind: str, fields: Fields) -> list[e.Event] | None:
    """What it says, or None if nobody knows. Raises ValueError if it cannot be used."""
    if kind in EXTRAS:
        return [events.extra_of(fields)]
    read = HANDLERS.get(kind)
    return None if read is None else read(fields, msgspec.convert(fields, _Ids))


def _call_announced(fields: Fields, ids: _Ids) -> list[e.Event]:
    """A call that runs without being asked about."""
    frame = msgspec.convert({**fields, "type": "tool_request"}, shapes.ToolRequest)
    return [asks_format.called_of(frame.call_id, frame.tool, frame.msg_id)]


def _provider_retry(fields: Fields, ids: _Ids) -> list[e.Event]:
    """With counts from the hosts of 0.1.0 that know it, with a bare reason from wayland."""
    attempt, most, delay = (_number(fields.get(key)) for key in ("attempt", "max_retries", "delay_ms"))
    why = str(fields.get("error") or fields.get("failure") or "")
    return [e.RetryStarted(attempt, most, delay, why, turn=ids.msg_id)]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _render_artifact(fields: Fields, ids: _Ids) -> list[e.Event]:
    return [e.Display("artifact", _without(fields, "msg_id"), turn=ids.msg_id)]


def _host_send_message_request(fields: Fields, ids: _Ids) -> list[e.Event]:
    return [e.HostCall(ids.call_id, "send_message", _without(fields, "call_id"))]


def _mcp_removal_result(fields: Fields, ids: _Ids) -> list[e.Event]:
    outcome = str(fields.get("outcome"))
    if outcome not in ("removed", "already_absent"):
        failure = Failure(outcome, f"the server {ids.name} stays: {outcome}", "engine")
        return [e.Reply(ids.request_id, failure=failure)]
    tools = msgspec.convert(fields.get("removed_tools", []), tuple[str, ...])
    return [e.Reply(ids.request_id, _without(fields)), e.ServerChanged(ids.name, "removed", tools)]


def _budget_grant_result(fields: Fields, ids: _Ids) -> list[e.Event]:
    if fields.get("outcome") == "granted":
        return [e.Reply(ids.request_id, _without(fields))]
    why = str(fields.get("refusal_reason") or "refused")
    return [e.Reply(ids.request_id, failure=Failure(why, f"the budget was not raised: {why}", "engine"))]


def _answer(fields: Fields, ids: _Ids) -> list[e.Event]:
    return [e.Reply(ids.request_id, _without(fields))]


def _no_answer(fields: Fields, ids: _Ids) -> list[e.Event]:
    why = str(fields.get("reason") or "it is not available")
    return [e.Reply(ids.request_id, failure=Failure("unavailable", why, "engine"))]


def _grant_refused(fields: Fields, ids: _Ids) -> list[e.Event]:
    """Since contract 1.23; before, an `info` says it."""
    why = str(fields.get("detail") or fields.get("reason") or "refused")
    return [e.Failed(Failure("grant_refused", f"grant refused: {why}", "engine"))]


def _without(fields: Fields, *without: str) -> Fields:
    return {key: value for key, value in fields.items() if key not in ("type", *without)}


HANDLERS: dict[str, Callable[[Fields, _Ids], list[e.Event]]] = {
    "call_announced": _call_announced,
    "provider_retry": _provider_retry,
    "execution_policy": lambda fields, ids: [e.SettingChanged("execution_policy", _without(fields))],
    "workspace_policy": lambda fields, ids: [e.SettingChanged("workspace_policy", fields.get("policy"))],
    "render_artifact": _render_artifact,
    "host_send_message_request": _host_send_message_request,
    "mcp_removal_result": _mcp_removal_result,
    "budget_grant_result": _budget_grant_result,
    "workspace_grant_refused": _grant_refused,
    "session_recovery_snapshot": _answer,
    "session_recovery_unavailable": _no_answer,
    "runtime_diagnostics_snapshot": _answer,
    "runtime_diagnostics_unavailable": _no_answer,
}
EXTRAS = frozenset(
    {
        "workflow_started",
        "workflow_finished",
        "workflow_node_event",
        "anvil_receipt",
        "anvil_receipt_invalidated",
        "capability_activation",
        "session_recovery_replay",
        "turn_recovery_lifecycle",
        "unknown_tool_effect_resolved",
        "provider_attempt",
        "provider_failure",
        "provider_failover_receipt",
        "mid_flight_monitor_decision",
        "goal_snapshot",
        "goal_transition",
        "goal_control_refused",
    }
)
