"""The end of a turn as a `result` tells it: how it went, and what it has cost."""

import json
from typing import Any, Literal

from polylect.dialects.claude.frames.lenient import Object, amount, inner, text, whole, words
from polylect.vocab.content import Failure, Usage
from polylect.vocab.events import CostChanged

Reason = Literal["end", "cancelled", "length", "refused", "limit", "error"]
Owner = Literal["host", "user", "provider", "tool", "engine"]

_STOPS: dict[str, Reason] = {"max_tokens": "length", "refusal": "refused"}
_LIMITS = ("error_max_turns", "error_max_budget_usd")
_OWNERS: dict[str, Owner] = {name: name for name in ("host", "user", "provider", "tool", "engine")}
_BUSY = (408, 409, 429, 500, 502, 503, 504, 529)
"""What a service answers that may go well another time."""


def ending(frame: Object, *, stopped: bool) -> tuple[Reason, Failure | None]:
    """Only we know whether we stopped it: the older engines do not say."""
    subtype, stop = text(frame, "subtype"), text(frame, "stop_reason")
    failed = frame.get("is_error") is True or subtype.startswith("error")
    if subtype in _LIMITS:
        return "limit", _failure(frame, "host")
    if subtype == "error_during_execution" and (stopped or text(frame, "terminal_reason").startswith("aborted")):
        return "cancelled", _own_failure(frame)
    if stop in _STOPS and not subtype.startswith("error"):
        return _STOPS[stop], _own_failure(frame)
    if failed:
        by_provider = text(frame, "terminal_reason") == "api_error" or bool(whole(frame, "api_error_status"))
        return "error", _failure(frame, "provider" if by_provider else "engine")
    return "end", None


def _own_failure(frame: Object) -> Failure | None:
    """What polylect adds, because the wire says it only in prose."""
    fault = inner(frame, "failure")
    owner = _OWNERS.get(text(fault, "owner"))
    if owner is None:
        return None
    return Failure(text(fault, "code"), text(fault, "message"), owner, fault.get("retryable") is True)


def _failure(frame: Object, owner: Owner) -> Failure:
    codes = (text(frame, key) for key in ("api_error", "api_error_type", "terminal_reason", "subtype"))
    code = next((code for code in codes if code and code != "success"), "error").removeprefix("error_")
    message = said(frame.get("result")) or "; ".join(words(frame, "errors")) or "the engine did not say why"
    return _own_failure(frame) or Failure(code, message, owner, whole(frame, "api_error_status") in _BUSY)


def said(value: Any) -> str:
    """The words of a failure. Old engines wrote them as JSON inside JSON."""
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
    """The wire tells a session's totals and, of a turn, only what its main agent used.

    The totals of a `resumed` session begin with what nobody has told us.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self.total = Usage()
        self.rows: tuple[Object, ...] = ()

    def add_result(self, frame: Object) -> tuple[Usage, CostChanged | None]:
        """What the turn has used, all agents together, and the totals if they are told."""
        own = usage(inner(frame, "usage"))
        models = inner(frame, "modelUsage")
        rows = tuple(_row(name, row) for name, row in models.items() if isinstance(row, dict))
        sums = sum((row["usage"] for row in rows), Usage()) if rows else self.total + own
        total = _priced(sums, amount(frame, "total_cost_usd"))
        spent = _less(total, self.total)
        self.total, self.rows = total, rows
        turn = spent if spent.tokens > own.tokens else _priced(own, spent.cost or 0.0)
        if self._resumed:
            turn, self._resumed = own if spent.tokens > own.tokens else turn, False
        return turn, CostChanged(total, rows) if rows or "total_cost_usd" in frame else None


def usage(fields: Object) -> Usage:
    return Usage(
        whole(fields, "input_tokens"),
        whole(fields, "output_tokens"),
        whole(fields, "cache_read_input_tokens"),
        whole(fields, "cache_creation_input_tokens"),
    )


def _row(model: str, fields: Object) -> Object:
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    used = _priced(Usage(*(whole(fields, key) for key in keys)), amount(fields, "costUSD"))
    return {"model": model, "provider": text(fields, "provider"), "cost_usd": used.cost, "usage": used}


def _priced(used: Usage, cost: float) -> Usage:
    """Nothing is free: no cost for some tokens means that nobody knows the price."""
    return Usage(used.input, used.output, used.cache_read, used.cache_write, cost or None)


def _less(now: Usage, before: Usage) -> Usage:
    """What came since. A total that has shrunk began anew (`/clear`)."""
    since = Usage(
        now.input - before.input,
        now.output - before.output,
        now.cache_read - before.cache_read,
        now.cache_write - before.cache_write,
        None if now.cost is None else round(now.cost - (before.cost or 0.0), 9),
    )
    shrunk = min(since.input, since.output, since.cache_read, since.cache_write, since.cost or 0.0) < 0
    return now if shrunk else since
