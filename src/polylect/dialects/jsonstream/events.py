"""Translates parts of events between frames of the wire and the vocabulary, in both directions and without state.

Functions whose name ends in `_of` read frames for the host's end; the others make frames for the engine's end.
"""

from typing import Any

import msgspec

from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.dialects.jsonstream.frames.table import EXTRAS
from polylect.dialects.jsonstream.versions import ALL_CAPABILITIES, ERROR_CODES, IMAGE_WORDS, OUR_MODES
from polylect.dialects.provider_failures import provider_failure
from polylect.vocab import events as e
from polylect.vocab.content import Abilities, CallRecord, CircuitState, Failure, Form, Image, Outcome, Owner, Usage
from polylect.wire import jsonl

_OWNERS: dict[str, Owner] = {
    "protocol_error": "host",
    "config_error": "user",
    "auth_required": "user",
    "auth_invalid": "user",
    "provider_error": "provider",
    "tool_error": "tool",
}
_FORMS: dict[str, Form] = {"text": "text", "diff": "diff", "image": "image"}
_CIRCUIT_STATES: dict[str, CircuitState] = {"closed": "closed", "half_open": "half_open"}
_MS = 1_000_000
"""Nanoseconds."""
_SUMMARY = 200
_PRODUCT = "polylect"
_WORDS_OF = {"notify": "message", "notification": "text", "command_output": "text"}
_OFFLOADS = {"threshold": "window_pressure", "overflow": "window_pressure"}


def fault(failure: Failure) -> shapes.Fault:
    return shapes.Fault(ERROR_CODES[failure.owner], failure.message, failure.retryable)


def failure_of(fault: shapes.Fault) -> Failure:
    """aionrs and wayland-core report failures of the model's service as `engine_error`, never retryable."""
    if fault.code not in _OWNERS and (failure := provider_failure(fault.message)):
        return failure
    return Failure(fault.code, fault.message, _OWNERS.get(fault.code, "engine"), fault.retryable)


def usage(usage: Usage) -> shapes.Usage:
    return shapes.Usage(usage.input, usage.output, usage.cache_read, usage.cache_write)


def usage_of(usage: shapes.Usage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)


def usage_since(total: Usage, before: Usage) -> Usage:
    """What a turn took, from two totals of the session whose input includes what was read from the cache and written
    to it. A total that is smaller than the one before is that of another session."""
    before = before if total.input >= before.input else Usage()
    read, written = total.cache_read - before.cache_read, total.cache_write - before.cache_write
    return Usage(total.input - before.input - read - written, total.output - before.output, read, written)


def turn_usage(frame: shapes.StreamEnd, fields: dict[str, Any]) -> Usage:
    """Later engines also tell what this turn alone has used."""
    try:
        return usage_of(msgspec.convert(fields["usage_delta"], shapes.Usage))
    except (KeyError, msgspec.ValidationError):
        return usage_of(frame.usage)


def result(event: e.ToolFinished, msg_id: str) -> shapes.ToolResult:
    """An image travels as base64 in `output`, and its media type in `metadata`."""
    output, metadata = event.output, event.metadata
    if event.form == "image" and event.images and event.images[0].data:
        output = event.images[0].data
        metadata = {**(metadata or {}), "media_type": event.images[0].media_type}
    status = "success" if event.outcome == "ok" else "error"
    return shapes.ToolResult(msg_id, event.call, event.name, status, output, event.form, metadata)


def finished_of(frame: shapes.ToolResult) -> e.ToolFinished:
    """Success is only what says so."""
    form = _FORMS.get(frame.output_type, "text")
    metadata = frame.metadata if isinstance(frame.metadata, dict) else None
    images: tuple[Image, ...] = ()
    if form == "image":
        metadata = dict(metadata or {})
        images = (Image(str(metadata.pop("media_type", "image/png")), frame.output),)
    return e.ToolFinished(
        frame.call_id,
        frame.tool_name,
        "" if images else frame.output,
        "ok" if frame.status == "success" else "error",
        form,
        metadata=metadata or None,
        images=images,
        turn=frame.msg_id,
    )


def abilities_of(offered: dict[str, Any]) -> Abilities:
    """What a `capabilities` object offers. A missing key is false; what nobody knows is kept as an extra."""
    names = (*ALL_CAPABILITIES["0.1.0"], "current_model")
    modes = [OUR_MODES.get(mode, mode) for mode in offered.get("modes", Abilities().modes)]
    return Abilities(
        approval=offered.get("tool_approval") is True,
        thinking=offered.get("thinking") is True,
        effort_levels=tuple(offered.get("effort_levels", ())),
        modes=tuple(modes),
        mcp=offered.get("mcp") is True,
        images=next((able for able, word in IMAGE_WORDS.items() if word == offered.get("image_input")), None),
        extras={key: value for key, value in offered.items() if key not in names},
    )


def cost(event: e.CostChanged, session: str) -> optional.SessionCost:
    """The known part, and which rows lack a price. Raises ValueError if all do (T6), or lack what the wire wants."""
    prices = [row["cost_usd"] for row in event.rows if row.get("cost_usd") is not None]
    total = event.total.cost if event.total.cost is not None else sum(prices) if prices else None
    if total is None:
        raise ValueError("what this session cost is not known")
    rows = [_priced(row) for row in event.rows]
    frame = {"session_id": event.session or session, "total_cost_usd": total, "per_turn": rows}
    return msgspec.convert({**frame, "type": "session_cost"}, optional.SessionCost)


def _priced(row: dict[str, Any]) -> dict[str, Any]:
    return row if row.get("cost_usd") is not None else {**row, "cost_usd": 0.0, "priced": False}


def cost_of(frame: optional.SessionCost, before: float | None) -> e.CostChanged:
    """The cost is not known if a row has no price, for which engines count 0, or if it is not known what the session
    had cost `before`, which the frame does not include."""
    rows = tuple(_row_of(row) for row in frame.per_turn)
    if any(row["cost_usd"] is None for row in rows):
        return e.CostChanged(Usage(), rows)
    return e.CostChanged(Usage(cost=None if before is None else before + frame.total_cost_usd), rows)


def _row_of(row: optional.CostRow) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(row)
    return fields if fields.pop("priced", True) else {**fields, "cost_usd": None}


def offload(event: e.CompactionEnded, why: e.CompactionStarted, msg_id: str, window: int) -> optional.CompactOffload:
    freed = max(0, event.before - event.after)
    percent = round(100 * event.after / window) if window and event.after else None
    return optional.CompactOffload(msg_id, _OFFLOADS.get(why.reason, why.reason), freed, percent)


def extra(event: e.Extra, msg_id: str) -> shapes.Frame:
    """Raises ValueError for what is no word of this wire, or lacks something."""
    if event.kind not in EXTRAS:
        raise ValueError(f"there is no event {event.kind}")
    return msgspec.convert({**event.data, "msg_id": msg_id, "type": event.kind}, EXTRAS[event.kind])


def extra_of(fields: dict[str, Any]) -> e.Extra:
    """All it says, also what nobody has a field for. Whose turn it was is in the event."""
    kind, turn = str(fields["type"]), str(fields.get("msg_id") or "")
    data = {key: value for key, value in fields.items() if key not in ("type", "msg_id")}
    return e.Extra(kind, data, turn=turn)


def circuit(event: e.CircuitChanged) -> optional.ProviderCircuitEvent:
    return optional.ProviderCircuitEvent(
        primary=event.primary, fallback=event.fallback or None, state=event.state, error=event.error or None
    )


def circuit_of(frame: optional.ProviderCircuitEvent) -> e.CircuitChanged:
    state = _CIRCUIT_STATES.get(frame.state, "open")
    return e.CircuitChanged(frame.primary, state, frame.fallback or "", frame.error or "")


def trace(event: e.StepTraced, msg_id: str) -> optional.TraceEvent:
    """A step in the form that wayland-core defines. An unknown price is zero with `cost_priced` false (T6)."""
    usage = event.usage
    read = usage.input + usage.cache_read + usage.cache_write
    fields = {
        "turn": event.number,
        "model": event.model,
        "provider": event.provider,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cache_hit_rate": usage.cache_read / read if read else 0.0,
        "cost_usd": usage.cost or 0.0,
        "cost_priced": usage.cost is not None,
        "duration_ms": (event.ended - event.began) // _MS,
        "tool_calls": [_trace_row(call) for call in event.calls],
        "hook_actions": [],
        "source_product": _PRODUCT,
    }
    return optional.TraceEvent(msg_id, fields)


def _trace_row(call: CallRecord) -> dict[str, Any]:
    row = {
        "call_id": call.call,
        "tool_name": call.name,
        "input": call.args,
        "output_summary": call.output[:_SUMMARY],
        "duration_ms": (call.ended - call.began) // _MS,
        "bytes_in": len(jsonl.dump(call.args)) - 1,
        "bytes_out": len(call.output.encode(errors="replace")),
        "source_product": _PRODUCT,
    }
    match call.outcome:
        case "error" | "denied":
            row["error"] = call.output[:_SUMMARY]
        case "cancelled" | "skipped":
            row["cancelled"] = True
    return row


def trace_of(frame: optional.TraceEvent) -> e.StepTraced | e.Extra:
    """The step of a trace, or an `Extra` if it lacks something.

    A trace has no times of day, so its step begins at 0.
    """
    try:
        trace = msgspec.convert(frame.trace, optional.Trace)
    except msgspec.ValidationError:
        return e.Extra("trace_event", {"trace": frame.trace}, turn=frame.msg_id)
    cost = trace.cost_usd if trace.cost_priced else None
    usage = Usage(trace.input_tokens, trace.output_tokens, trace.cache_read, trace.cache_write, cost)
    calls = tuple(map(_call_record, trace.tool_calls))
    ended = trace.duration_ms * _MS
    return e.StepTraced(trace.turn, trace.provider, trace.model, "end", usage, calls, 0, ended, turn=frame.msg_id)


def _call_record(row: optional.TracedCall) -> CallRecord:
    outcome: Outcome = "cancelled" if row.cancelled else "error" if row.error else "ok"
    args = row.input if isinstance(row.input, dict) else {}
    return CallRecord(row.call_id, row.tool_name, args, row.output_summary, outcome, 0, row.duration_ms * _MS)


def display_text(event: e.Display) -> str | None:
    """The words of what a host is to show, if it is made of words."""
    text = event.params.get(_WORDS_OF.get(event.method, ""))
    return text if isinstance(text, str) else None


def retry_text(event: e.RetryStarted) -> str:
    why = f" ({event.error})" if event.error else ""
    wait = f" in {event.delay_ms / 1000:.1f} s" if event.delay_ms else "..."
    return f"The model's service did not answer{why}, retrying{wait} ({event.attempt}/{event.most})"


def compaction_text(event: e.CompactionEnded) -> str:
    if not event.ok:
        return f"The conversation could not be shortened: {event.error}"
    return f"The conversation was shortened from {event.before} to {event.after} tokens."
