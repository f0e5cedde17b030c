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


def ending(found: Object, *, stopped: bool) -> tuple[Reason, Failure | None]:
    """Only we know whether we stopped it: the older engines do not say."""
    subtype, stop = text(found, "subtype"), text(found, "stop_reason")
    failed = found.get("is_error") is True or subtype.startswith("error")
    if subtype in _LIMITS:
        return "limit", _failure(found, "host")
    if subtype == "error_during_execution" and (stopped or text(found, "terminal_reason").startswith("aborted")):
        return "cancelled", _told(found)
    if stop in _STOPS and not subtype.startswith("error"):
        return _STOPS[stop], _told(found)
    if failed:
        asked = text(found, "terminal_reason") == "api_error" or bool(whole(found, "api_error_status"))
        return "error", _failure(found, "provider" if asked else "engine")
    return "end", None


def _told(found: Object) -> Failure | None:
    """What polylect adds, because the wire says it only in prose."""
    fault = inner(found, "failure")
    owner = _OWNERS.get(text(fault, "owner"))
    if owner is None:
        return None
    return Failure(text(fault, "code"), text(fault, "message"), owner, fault.get("retryable") is True)


def _failure(found: Object, owner: Owner) -> Failure:
    codes = (text(found, key) for key in ("api_error", "api_error_type", "terminal_reason", "subtype"))
    code = next((code for code in codes if code and code != "success"), "error").removeprefix("error_")
    message = said(found.get("result")) or "; ".join(words(found, "errors")) or "the engine did not say why"
    return _told(found) or Failure(code, message, owner, whole(found, "api_error_status") in _BUSY)


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


class Books:
    """The wire tells a session's totals and, of a turn, only what its main agent used.

    The totals of a `resumed` session begin with what nobody has told us.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self.total = Usage()
        self.rows: tuple[Object, ...] = ()

    def enter(self, found: Object) -> tuple[Usage, CostChanged | None]:
        """What the turn has used, all agents together, and the totals if they are told."""
        own = usage(inner(found, "usage"))
        models = inner(found, "modelUsage")
        rows = tuple(_row(name, row) for name, row in models.items() if isinstance(row, dict))
        sums = sum((row["usage"] for row in rows), Usage()) if rows else self.total + own
        total = _priced(sums, amount(found, "total_cost_usd"))
        spent = _less(total, self.total)
        self.total, self.rows = total, rows
        turn = spent if spent.tokens > own.tokens else _priced(own, spent.cost or 0.0)
        if self._resumed:
            turn, self._resumed = own if spent.tokens > own.tokens else turn, False
        return turn, CostChanged(total, rows) if rows or "total_cost_usd" in found else None


def usage(found: Object) -> Usage:
    return Usage(
        whole(found, "input_tokens"),
        whole(found, "output_tokens"),
        whole(found, "cache_read_input_tokens"),
        whole(found, "cache_creation_input_tokens"),
    )


def _row(model: str, found: Object) -> Object:
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    used = _priced(Usage(*(whole(found, key) for key in keys)), amount(found, "costUSD"))
    return {"model": model, "provider": text(found, "provider"), "cost_usd": used.cost, "usage": used}


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
