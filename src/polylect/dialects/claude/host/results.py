"""Reads the `result` frame that ends a turn: why it ended (`ending`), and what it cost (`SessionCost`).

`decode` is the caller. A price is never invented (T6): cost 0 for some tokens means that the price is unknown.
"""

import json
from typing import Any, get_args

from msgspec.structs import replace

from polylect.dialects.claude.stop_reasons import OUR_STOPS
from polylect.dialects.lenient import Object, amount, inner, text, whole, words
from polylect.vocab.content import Failure, Owner, Reason, Usage
from polylect.vocab.errors import fault_of_status
from polylect.vocab.events import CostChanged, Event

_LIMITS = ("error_max_turns", "error_max_budget_usd")
_OWNERS: dict[str, Owner] = {name: name for name in get_args(Owner)}


def ending(frame: Object, *, stopped: bool) -> tuple[Reason, Failure | None]:
    """The reason of `TurnEnded` and its failure.

    `stopped`: the host has stopped this turn. Engines before 2.1.325 do not report that.
    """
    subtype, stop = text(frame, "subtype"), text(frame, "stop_reason")
    failed = frame.get("is_error") is True or subtype.startswith("error")
    if subtype in _LIMITS:
        return "limit", _failure(frame, "host")
    if subtype == "error_during_execution" and (stopped or text(frame, "terminal_reason").startswith("aborted")):
        return "cancelled", _own_failure(frame)
    if (cut := OUR_STOPS.get(stop)) in ("length", "refused") and not subtype.startswith("error"):
        return cut, _own_failure(frame)
    if failed:
        by_provider = text(frame, "terminal_reason") == "api_error" or bool(whole(frame, "api_error_status"))
        return "error", _failure(frame, "provider" if by_provider else "engine")
    return "end", None


def _own_failure(frame: Object) -> Failure | None:
    """The `failure` field that polylect adds to results. Other engines describe a failure in prose only."""
    fault = inner(frame, "failure")
    owner = _OWNERS.get(text(fault, "owner"))
    if owner is None:
        return None
    return Failure(text(fault, "code"), text(fault, "message"), owner, fault.get("retryable") is True)


def _failure(frame: Object, owner: Owner) -> Failure:
    codes = (text(frame, key) for key in ("api_error", "api_error_type", "terminal_reason", "subtype"))
    code = next((code for code in codes if code and code != "success"), "error").removeprefix("error_")
    message = failure_text(frame.get("result")) or "; ".join(words(frame, "errors")) or "the engine did not say why"
    if own := _own_failure(frame):
        return own
    if not (status := whole(frame, "api_error_status")):
        return Failure(code, message, owner)
    kind, retryable = fault_of_status(status)
    return Failure(kind if code == "api_error" else code, message, owner, retryable)


def failure_text(value: Any) -> str:
    """The text of a failure. Old engines wrote it as JSON inside JSON."""
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if value.startswith('"') and value.endswith('"'):
        try:
            inside = json.loads(value)
        except ValueError:
            return value
        return inside if isinstance(inside, str) else value
    return value


class SessionCost:
    """The totals of the session. A result has those, and for the turn only the usage of its main agent, so the usage
    of a turn is the difference of two totals.

    `resumed`: the totals begin with those of an earlier process, which are unknown until `resume` is called. Not every
    earlier process is in them: claude 2.1.197 begins at zero, and 2.1.325 knows nothing of one that was killed.
    `before`: what the session had cost before this process, if the host knows it.
    """

    def __init__(self, *, resumed: bool = False, before: float | None = None) -> None:
        self.resumed = resumed
        self.total = Usage()
        self.rows: tuple[Object, ...] = ()
        self._before = before
        self._missing: float | None = 0.0
        """The part of `before` that is not in the totals. None if nothing is known of the time before."""

    @property
    def of_session(self) -> Usage:
        """The totals, with the cost of the whole session, or without one if it is not known."""
        known = self._missing is not None and self.total.cost is not None
        return replace(self.total, cost=round((self._missing or 0.0) + (self.total.cost or 0.0), 9) if known else None)

    def resume(self, session: Object) -> list[Event]:
        """Sets the totals that a resumed session begins with, from the answer to `get_usage`."""
        if not self.resumed or "total_cost_usd" not in session:
            return []
        self.resumed, self.rows = False, _rows(inner(session, "model_usage"))
        self.total = _priced(sum((row["usage"] for row in self.rows), Usage()), amount(session, "total_cost_usd"))
        if self._before is not None:
            self._missing = max(0.0, self._before - (self.total.cost or 0.0))
        elif not self.total.tokens:
            self._missing = None
        return [CostChanged(self.of_session, self.rows)] if self.total.tokens else []

    def add_result(self, frame: Object) -> tuple[Usage, CostChanged | None]:
        """The usage of the turn by all agents, and the event with the totals if the frame has them."""
        own = usage(inner(frame, "usage"))
        rows = _rows(inner(frame, "modelUsage"))
        sums = sum((row["usage"] for row in rows), Usage()) if rows else self.total + own
        total = _priced(sums, amount(frame, "total_cost_usd"))
        spent = _less(total, self.total)
        self.total, self.rows = total, rows
        turn = spent if spent.tokens > own.tokens else _priced(own, spent.cost or 0.0)
        if self.resumed:
            turn, self.resumed = own if spent.tokens > own.tokens else turn, False
            if self._before and (total.cost or 0.0) < self._before:
                self._missing = self._before
        return turn, CostChanged(self.of_session, rows) if rows or "total_cost_usd" in frame else None


def usage(fields: Object) -> Usage:
    return Usage(
        whole(fields, "input_tokens"),
        whole(fields, "output_tokens"),
        whole(fields, "cache_read_input_tokens"),
        whole(fields, "cache_creation_input_tokens"),
    )


def _rows(models: Object) -> tuple[Object, ...]:
    return tuple(_row(name, row) for name, row in models.items() if isinstance(row, dict))


def _row(model: str, fields: Object) -> Object:
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    used = _priced(Usage(*(whole(fields, key) for key in keys)), amount(fields, "costUSD"))
    return {"model": model, "provider": text(fields, "provider"), "cost_usd": used.cost, "usage": used}


def _priced(used: Usage, cost: float) -> Usage:
    """The usage with a cost. A cost of 0 means that the price is unknown (T6)."""
    return Usage(used.input, used.output, used.cache_read, used.cache_write, cost or None)


def _less(now: Usage, before: Usage) -> Usage:
    """The difference. A total that is smaller than before has started again (`/clear`)."""
    since = Usage(
        now.input - before.input,
        now.output - before.output,
        now.cache_read - before.cache_read,
        now.cache_write - before.cache_write,
        None if now.cost is None else round(now.cost - (before.cost or 0.0), 9),
    )
    shrunk = min(since.input, since.output, since.cache_read, since.cache_write, since.cost or 0.0) < 0
    return now if shrunk else since
