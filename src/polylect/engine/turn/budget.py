"""Caps on cost, tokens, time and processes, and what has been used of them.

There is a meter for the session and one for each turn. `loop.py` checks both before each model request, so a turn can
pass a cap by one reply, never by two. Compaction and commands that ask a model check the session's. The depth of
sub-agents is no meter's: `subagents/spawn.py` compares it.
"""

import asyncio

from msgspec import Struct
from msgspec.structs import replace

from polylect.vocab.content import Usage
from polylect.vocab.events import BudgetExceeded
from polylect.vocab.ports import ModelInfo


class Budget(Struct, frozen=True):
    """The caps; zero means none. The names are those of the configuration's `[budget]`."""

    max_cost_usd: float = 0.0
    max_tokens: int = 0
    max_tokens_in: int = 0
    max_tokens_out: int = 0
    max_wall_time_secs: float = 0.0
    max_tool_runtime_secs: float = 0.0
    max_processes: int = 0
    max_agent_depth: int = 0
    allow_unpriced: bool = False
    """Whether a model without a price may be used although a cap in dollars cannot hold then."""

    @property
    def limits_usage(self) -> bool:
        """Whether there is a cap on dollars or tokens."""
        return bool(self.max_cost_usd or self.max_tokens or self.max_tokens_in or self.max_tokens_out)


class Meter:
    """What a session or a turn has used.

    `dollars` is the part with a known price, so that one request without a price does not lift the cap for all others.
    """

    def __init__(self, budget: Budget, usage: Usage, dollars: float = 0.0) -> None:
        self.budget = budget
        self.usage = usage
        self.dollars = dollars
        self.tool_seconds = 0.0
        self.processes = 0
        self._began = _now()
        self.reported = False
        """Whether the host knows already that a cap is passed; `grant` makes it False again."""
        self.estimate_reported = False
        """The host is told once that usage is estimated."""

    def spend(self, usage: Usage) -> None:
        self.usage += usage
        self.dollars += usage.cost or 0.0

    def exceeded(self) -> BudgetExceeded | None:
        """The first cap that is exceeded, or None."""
        usage, budget = self.usage, self.budget
        seen = usage.input + usage.cache_read + usage.cache_write
        rows = (
            ("max_cost_usd", self.dollars, budget.max_cost_usd, "${:.4f}"),
            ("max_tokens", usage.tokens, budget.max_tokens, "{}"),
            ("max_tokens_in", seen, budget.max_tokens_in, "{}"),
            ("max_tokens_out", usage.output, budget.max_tokens_out, "{}"),
            ("max_wall_time", _now() - self._began, budget.max_wall_time_secs, "{:.1f}s"),
            ("max_tool_runtime", self.tool_seconds, budget.max_tool_runtime_secs, "{:.1f}s"),
            ("max_processes", self.processes, budget.max_processes, "{}"),
        )
        for reason, observed, limit, form in rows:
            if limit and observed >= limit:
                return BudgetExceeded(reason, form.format(observed), form.format(limit))
        return None

    def used_up(self) -> str:
        """Why no more model requests are possible; empty if they are."""
        passed = self.exceeded()
        return f"the budget {passed.reason} of {passed.limit} is used up ({passed.observed})" if passed else ""

    def grant(self, *, tokens: int, cost: float) -> None:
        """Raise the caps that exist."""
        budget = self.budget
        self.budget = replace(
            budget,
            max_cost_usd=budget.max_cost_usd and budget.max_cost_usd + cost,
            max_tokens=budget.max_tokens and budget.max_tokens + tokens,
            max_tokens_in=budget.max_tokens_in and budget.max_tokens_in + tokens,
            max_tokens_out=budget.max_tokens_out and budget.max_tokens_out + tokens,
        )
        self.reported = False


def tightened(budget: Budget, *, cost: float, tokens: int) -> Budget:
    """The budget with these caps where they are lower than its own; zero means none."""
    return replace(
        budget,
        max_cost_usd=min(filter(None, (budget.max_cost_usd, cost)), default=0.0),
        max_tokens=min(filter(None, (budget.max_tokens, tokens)), default=0),
    )


def estimated_usage(info: ModelInfo, tokens_in: int, tokens_out: int, *budgets: Budget) -> Usage:
    """What to count for a reply without reported usage, so that caps hold: an estimate; nothing if there is no cap."""
    if not any(budget.limits_usage for budget in budgets):
        return Usage()
    read, written = info.prices
    cost = (tokens_in * read + tokens_out * written) / 1_000_000 if info.priced else None
    return Usage(tokens_in, tokens_out, cost=cost)


def price_fault(info: ModelInfo, *budgets: Budget) -> str:
    """Why a cap in dollars could not hold with this model; empty if it could, or if there is no such cap."""
    allowed = any(budget.allow_unpriced for budget in budgets)
    if info.priced or allowed or not any(budget.max_cost_usd for budget in budgets):
        return ""
    text = f"the price of {info.name!r} is not known, so the cap in dollars (max_cost_usd) could not hold"
    return f'{text}: give it in [prices."{info.name}"], or start without the cap'


def _now() -> float:
    return asyncio.get_running_loop().time()
