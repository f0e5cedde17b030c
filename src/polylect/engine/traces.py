"""Records what each model request and tool call took, from the events that are emitted anyway.

    StepRecord    one model request and the tool calls that followed from it
    TurnRecord    one turn, made when it has ended

With the setting `structured_traces` the host gets each step as a `trace_event`; OpenTelemetry (`app/serving/otel.py`)
gets all records. The engine puts a `Tracer` between itself and the output only if one of them is on.
"""

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from polylect.vocab.content import Outcome, Usage
from polylect.vocab.events import (
    Event,
    Extra,
    ReplyEnded,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from polylect.wire import jsonl

PRODUCT = "polylect"
_SUMMARY = 200


class CallRecord(Struct, frozen=True):
    """One tool call. Times are in nanoseconds since 1970."""

    call: str
    name: str
    args: dict[str, Any]
    output: str
    outcome: Outcome
    began: int
    ended: int


class StepRecord(Struct, frozen=True):
    """One model request. `number` counts those of this engine; `ended` is the time of the reply's last chunk."""

    number: int
    turn: str
    agent: str
    provider: str
    reply: ReplyEnded
    calls: tuple[CallRecord, ...]
    began: int
    ended: int


class TurnRecord(Struct, frozen=True):
    """One turn."""

    turn: str
    reason: str
    usage: Usage
    began: int
    ended: int


Record = StepRecord | TurnRecord


class _Open(Struct):
    """A step that has not ended."""

    began: int
    called: dict[str, tuple[ToolCalled, int]] = field(default_factory=dict)
    calls: list[CallRecord] = field(default_factory=list)
    reply: ReplyEnded | None = None
    ended: int = 0


class Tracer:
    """Passes every event on to `output`, and makes records.

    `provider` names the provider in use. With `emit_traces`, steps are also emitted as events. `record` receives
    records.
    """

    def __init__(
        self,
        output: Callable[[Event], None],
        provider: Callable[[], str],
        *,
        emit_traces: bool,
        record: Callable[[Record], None] | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._output = output
        self._provider = provider
        self._emit_traces = emit_traces
        self._record = record
        self._now = now
        self._number = 0
        self._steps: dict[str, _Open] = {}
        """By agent."""
        self._turns: dict[str, int] = {}

    def receive(self, event: Event) -> None:
        self._output(event)
        match event:
            case TurnStarted(turn=turn):
                self._turns[turn] = self._now()
            case StepStarted(agent=agent):
                self._steps[agent] = _Open(self._now())
            case ReplyEnded() | ToolCalled() | ToolStarted() | ToolFinished() if step := self._steps.get(event.agent):
                self._note(step, event)
            case StepEnded() if step := self._steps.pop(event.agent, None):
                self._end(step, event)
            case TurnEnded(reason, usage, turn=turn) if (began := self._turns.pop(turn, None)) and self._record:
                self._record(TurnRecord(turn, reason, usage, began, self._now()))

    def _note(self, step: _Open, event: ReplyEnded | ToolCalled | ToolStarted | ToolFinished) -> None:
        now = self._now()
        match event:
            case ReplyEnded():
                step.reply, step.ended = event, now
            case ToolCalled(call):
                step.called[call] = (event, 0)
            case ToolStarted(call) if call in step.called:
                step.called[call] = (step.called[call][0], now)
            case ToolFinished(call, name, output, outcome) if call in step.called:
                called, began = step.called[call]  # one that never started took no time
                step.calls.append(CallRecord(call, name, called.args, output, outcome, began or now, now))

    def _end(self, step: _Open, event: StepEnded) -> None:
        if step.reply is None:
            return
        calls = tuple(step.calls)
        record = StepRecord(
            self._number, event.turn, event.agent, self._provider(), step.reply, calls, step.began, step.ended
        )
        self._number += 1
        if self._emit_traces:
            self._output(Extra("trace_event", trace_event(record), turn=event.turn, agent=event.agent))
        if self._record:
            self._record(record)


def trace_event(step: StepRecord) -> dict[str, Any]:
    """A step in the form that wayland-core defines. An unknown price is zero with `cost_priced` false (T6)."""
    usage = step.reply.usage
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "turn": step.number,
        "model": step.reply.model,
        "provider": step.provider,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cache_hit_rate": usage.cache_read / read if read else 0.0,
        "cost_usd": usage.cost or 0.0,
        "cost_priced": usage.cost is not None,
        "duration_ms": (step.ended - step.began) // 1_000_000,
        "tool_calls": [_row(call) for call in step.calls],
        "hook_actions": [],
        "source_product": PRODUCT,
    }


def _row(call: CallRecord) -> dict[str, Any]:
    row = {
        "call_id": call.call,
        "tool_name": call.name,
        "input": call.args,
        "output_summary": call.output[:_SUMMARY],
        "duration_ms": (call.ended - call.began) // 1_000_000,
        "bytes_in": len(jsonl.dump(call.args)) - 1,
        "bytes_out": len(call.output.encode(errors="replace")),
        "source_product": PRODUCT,
    }
    match call.outcome:
        case "error" | "denied":
            row["error"] = call.output[:_SUMMARY]
        case "cancelled" | "skipped":
            row["cancelled"] = True
    return row
