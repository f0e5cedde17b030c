"""What a `result` frame needs to know of its turn and its session, collected while they run.

`TurnState` has the state of one turn, `SessionCost` the totals of the session, `result` makes the frame that ends a
turn: how it ended (`subtype`, `terminal_reason`), what it cost, which calls were denied. `EventWriter` owns both.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from polylect.dialects.claude.engine.block_stream import usage_of
from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.stop_reasons import WIRE_STOPS
from polylect.vocab.content import Failure, Stop, Usage
from polylect.vocab.events import BudgetExceeded, CostChanged, ReplyEnded, TurnEnded
from polylect.wire import jsonl

API_ERRORS = {
    "auth": ("authentication_failed", 401),
    "rate_limit": ("rate_limit", 429),
    "overloaded": ("overloaded", 529),
    "server": ("server_error", 500),
    "bad_request": ("invalid_request", 400),
    "overflow": ("invalid_request", 400),
}
"""By our code for a provider's failure: its name on the wire, and the HTTP status it most likely came with."""


class TurnState:
    """One turn: filled in by `EventWriter` as events come, read by `result` when the turn ends."""

    def __init__(self, id: str, uuids: list[str], at: int, *, unasked: bool = False) -> None:
        self.id = id
        self.uuids = uuids
        """The uuid of the prompt, if it has one."""
        self.unasked = unasked
        """Whether the engine began this turn by itself."""
        self.started_at = at
        self.opened = False
        """Whether `system/init` is written."""
        self.denials: dict[str, shapes.Denial] = {}
        self.structured: Any = UNSET
        self.answers: list[str] = []
        """Texts of notices before the first model request. Without any request they are the answer (slash commands)."""
        self.compacted = False
        self.steps = 0
        self.called = False
        """Whether the last reply has asked for calls: then an interrupt stops tools, not the model."""
        self.stop: Stop | None = None
        self.first_at = 0

    def step_started(self) -> None:
        self.steps += 1
        self.called = False
        self.stop = None

    def replied(self, event: ReplyEnded) -> None:
        self.stop = event.stop
        self.called = self.called and event.stop != "cancelled"

    @property
    def without_model(self) -> bool:
        """No model was asked: a slash command, or the turn ended before its first step."""
        return not self.steps


class SessionCost:
    """What the session has cost since this process began, and how many results were written."""

    def __init__(self) -> None:
        self.total: float = 0.0
        self._before = CostChanged(Usage())
        """The totals that a resumed session began with."""
        self.models: dict[str, shapes.ModelUsage] = {}
        self._reported: dict[str, shapes.ModelUsage] = {}
        self.api_ms = 0
        self.budget: BudgetExceeded | None = None
        self.results = 0
        self.max_output: Callable[[str], int] = lambda model: 0
        """The most output tokens of a model; 0 if unknown."""

    def update(self, event: CostChanged, window: int) -> None:
        if not event.turn:  # the total that a resumed session starts with
            self._before = event
        self.total = _known_cost(event) - _known_cost(self._before)
        self.models = {}
        for row in event.rows[len(self._before.rows) :]:
            name = str(row.get("model") or "unknown")
            used = row.get("usage")
            spent = used if isinstance(used, Usage) else Usage()
            before = self.models.get(name) or _zero_usage(window, self.max_output(name), str(row.get("provider") or ""))
            self.models[name] = _sum(before, spent, row.get("cost_usd"))

    def since_last(self) -> dict[str, shapes.ModelUsage]:
        """Usage by model since the last call of this method."""
        models = {name: _difference(now, self._reported.get(name)) for name, now in self.models.items()}
        self._reported = dict(self.models)
        return {name: used for name, used in models.items() if used.inputTokens or used.outputTokens}


def _known_cost(event: CostChanged) -> float:
    """The cost in dollars. Requests without a known price count as 0."""
    if event.total.cost is not None:
        return event.total.cost
    return sum((row.get("cost_usd") or 0.0 for row in event.rows), 0.0)


def result(
    event: TurnEnded, turn: TurnState, cost: SessionCost, out: LineWriter, text: str, queued: int
) -> shapes.Result:
    """The frame that ends a turn. `text` is the answer, `queued` the number of prompts that wait."""
    outcome = _outcome_fields(event, turn, cost, text)
    local = turn.without_model and event.reason == "end"
    cost.results += 1
    since = cost.since_last()
    return shapes.Result(
        **outcome,
        session_id=out.session,
        uuid=out.new_id(),
        duration_ms=max(out.now() - turn.started_at, 0),
        duration_api_ms=0 if local else cost.api_ms,
        num_turns=event.steps,
        total_cost_usd=cost.total,
        usage=usage_of(event.usage),
        modelUsage=cost.models,
        model_usage_since_last_result=since if out.newer else UNSET,
        permission_denials=list(turn.denials.values()),
        structured_output=turn.structured if event.reason == "end" else UNSET,
        ttft_ms=max(turn.first_at - turn.started_at, 0) if turn.first_at else UNSET,
        queued_turn_count=queued if out.newer else UNSET,
        result_index=cost.results - 1 if out.newer else UNSET,
        origin={"kind": "task-notification"} if turn.unasked else None,
        user_message_uuid=turn.uuids[-1] if turn.uuids else "",
        user_message_uuids=turn.uuids or UNSET,
        local_command=local,
        failure=_fault(event.failure),
    )


def _outcome_fields(event: TurnEnded, turn: TurnState, cost: SessionCost, text: str) -> dict[str, Any]:
    failure = event.failure
    match event.reason:
        case "cancelled":
            why = "aborted_tools" if turn.called else "aborted_streaming"
            return _error("error_during_execution", why, "the turn was interrupted", failure)
        case "limit" if cost.budget or (failure and "budget" in failure.code):
            spent = f" ({cost.budget.observed} of {cost.budget.limit})" if cost.budget else ""
            return _error("error_max_budget_usd", "budget_exhausted", f"Reached maximum budget{spent}", failure)
        case "limit":
            return _error(
                "error_max_turns", "max_turns", f"Reached maximum number of turns ({event.steps})", failure, "tool_use"
            )
        case "error" if failure and failure.code == "structured_output":
            return _error("error_max_structured_output_retries", "structured_output_retry_exhausted", "", failure)
        case "error" if failure and is_of_the_service(failure):
            why = "prompt_too_long" if failure.code == "overflow" else "api_error"
            status = API_ERRORS.get(failure.code, ("unknown", None))[1]
            return {**_success(api_text(failure), True, "stop_sequence", why), "api_error_status": status}
        case "error":
            return _error("error_during_execution", "", "the turn failed", failure)
    if turn.structured is not UNSET:
        text = jsonl.dump(turn.structured).decode().rstrip()
    stop = WIRE_STOPS.get(event.reason if event.reason in ("length", "refused") else turn.stop or "end")
    return _success(text, event.reason != "end", stop, "" if turn.without_model else "completed")


def _success(text: str, failed: bool, stop: str | None, why: str) -> dict[str, Any]:
    return {"subtype": "success", "is_error": failed, "result": text, "stop_reason": stop, "terminal_reason": why}


def _error(subtype: str, why: str, text: str, failure: Failure | None, stop: str | None = None) -> dict[str, Any]:
    errors = [failure.message if failure else text]
    return {"subtype": subtype, "is_error": True, "errors": errors, "stop_reason": stop, "terminal_reason": why}


def is_of_the_service(failure: Failure) -> bool:
    """Whether the model's service failed. A reply that does not fit the requested schema is not its failure."""
    return failure.owner == "provider" and failure.code != "structured_output"


def api_text(failure: Failure) -> str:
    return f"API Error: {failure.message}"


def _fault(failure: Failure | None) -> shapes.Fault | None:
    return shapes.Fault(failure.code, failure.owner, failure.message, failure.retryable) if failure else None


# Sums.


def _zero_usage(window: int, max_output: int, provider: str) -> shapes.ModelUsage:
    return shapes.ModelUsage(0, 0, 0, 0, 0, 0.0, window, max_output, provider)


def _sum(before: shapes.ModelUsage, spent: Usage, cost: Any) -> shapes.ModelUsage:
    return replace(
        before,
        inputTokens=before.inputTokens + spent.input,
        outputTokens=before.outputTokens + spent.output,
        cacheReadInputTokens=before.cacheReadInputTokens + spent.cache_read,
        cacheCreationInputTokens=before.cacheCreationInputTokens + spent.cache_write,
        costUSD=before.costUSD + (cost if isinstance(cost, int | float) else 0.0),
    )


_SUMMED: Iterable[str] = (
    "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "costUSD",
)  # fmt: skip


def _difference(now: shapes.ModelUsage, before: shapes.ModelUsage | None) -> shapes.ModelUsage:
    if before is None:
        return now
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in _SUMMED})
