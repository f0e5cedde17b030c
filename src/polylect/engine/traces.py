"""Records what each model request and tool call took, from the events that are emitted anyway.

    StepTraced    one model request and the tool calls that followed from it
    TurnRecord    one turn, made when it has ended

With the setting `structured_traces` the host gets each step as an event; OpenTelemetry (`app/serving/otel.py`)
gets all records. The engine puts a `Tracer` between itself and the output only if one of them is on.
"""

import time
from collections.abc import Callable

from msgspec import Struct, field

from polylect.vocab import events as e
from polylect.vocab.content import CallRecord, Usage

PRODUCT = "polylect"


class TurnRecord(Struct, frozen=True):
    """One turn."""

    turn: str
    reason: str
    usage: Usage
    began: int
    ended: int


Record = e.StepTraced | TurnRecord


class _Open(Struct):
    """A step that has not ended."""

    began: int
    called: dict[str, tuple[e.ToolCalled, int]] = field(default_factory=dict)
    calls: list[CallRecord] = field(default_factory=list)
    reply: e.ReplyEnded | None = None
    ended: int = 0


class Tracer:
    """Passes every event on to `output`, and makes records.

    `provider` names the provider in use. With `emit_traces`, steps are also emitted as events. `record` receives
    records.
    """

    def __init__(
        self,
        output: Callable[[e.Event], None],
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

    def receive(self, event: e.Event) -> None:
        self._output(event)
        match event:
            case e.TurnStarted(turn=turn):
                self._turns[turn] = self._now()
            case e.StepStarted(agent=agent):
                self._steps[agent] = _Open(self._now())
            case e.ReplyEnded() | e.ToolCalled() | e.ToolStarted() | e.ToolFinished() if step := self._steps.get(
                event.agent
            ):
                self._note(step, event)
            case e.StepEnded() if step := self._steps.pop(event.agent, None):
                self._end(step, event)
            case e.TurnEnded(reason, usage, turn=turn) if (began := self._turns.pop(turn, None)) and self._record:
                self._record(TurnRecord(turn, reason, usage, began, self._now()))

    def _note(self, step: _Open, event: e.ReplyEnded | e.ToolCalled | e.ToolStarted | e.ToolFinished) -> None:
        now = self._now()
        match event:
            case e.ReplyEnded():
                step.reply, step.ended = event, now
            case e.ToolCalled(call):
                step.called[call] = (event, 0)
            case e.ToolStarted(call) if call in step.called:
                step.called[call] = (step.called[call][0], now)
            case e.ToolFinished(call, name, output, outcome) if call in step.called:
                called, began = step.called[call]  # one that never started took no time
                step.calls.append(CallRecord(call, name, called.args, output, outcome, began or now, now))

    def _end(self, step: _Open, event: e.StepEnded) -> None:
        if step.reply is None:
            return
        calls = tuple(step.calls)
        reply, provider = step.reply, self._provider()
        about = (self._number, provider, reply.model, reply.stop, reply.usage, calls, step.began, step.ended)
        traced = e.StepTraced(*about, reply.error, turn=event.turn, agent=event.agent)
        self._number += 1
        if self._emit_traces:
            self._output(traced)
        if self._record:
            self._record(traced)
