"""Limits of a turn, and the cost of a session that they are compared with.

Some wires report the cost of each turn, others only that of the session so far. `SessionCost` accepts both, so that
`host/supervision/open_turns.py` can hold `Limits.cost` in either case. A cost is None where nobody knows it, and never
a guess.
"""

import math
import sys
import warnings
from collections.abc import Collection, Iterator

from msgspec import Struct

from polylect.host.errors import InvalidType, InvalidValue
from polylect.vocab.content import Usage
from polylect.vocab.events import BudgetExceeded


class Limits(Struct, frozen=True):
    """Limits for a turn. Zero is no limit.

    Attributes:
        total: Seconds for all of the turn, from when it runs.
        idle: Seconds without any event.
        cost: Dollars.
        tokens: Tokens, in and out together.

    Raises:
        InvalidType: A limit is no number, or `tokens` is no whole number.
        InvalidValue: A limit is below zero, infinite or not a number (NaN).
    """

    total: float = 0.0
    idle: float = 0.0
    cost: float = 0.0
    tokens: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int if name == "tokens" else int | float):
                kind = "a whole number" if name == "tokens" else "a number"
                raise InvalidType(f"Limits({name}=...) is {kind}, not {value!r}; 0 is no limit")
            if not math.isfinite(value) or value < 0:
                raise InvalidValue(f"Limits({name}=...) is finite and zero or more, not {value!r}; 0 is no limit")


class LimitWarning(UserWarning):
    """A limit cannot hold as it should: it is noticed only at the end of a turn, or the price is not known."""


def warn_caller(text: str, kind: type[Warning] = LimitWarning) -> None:
    """Gives a warning at the line of the program that called the SDK, however deep in the SDK this is."""
    level, frame = 1, sys._getframe()  # warnings.warn has skip_file_prefixes only since 3.12
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("polylect."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def unreported(limits: Limits, reported: Collection[str], engine: str) -> Iterator[str]:
    """What to say about limits that cannot be watched while a turn runs.

    Args:
        limits: The limits.
        reported: What the engine reports as a turn goes: `tokens`, `cost`.
        engine: The name of the engine.
    """
    if limits.tokens and "tokens" not in reported:
        yield f"{engine} tells the tokens of a turn only at its end, so a limit of tokens is noticed only then"
    if limits.cost and "cost" not in reported:
        yield f"{engine} tells the cost of a turn only at its end, so a limit in dollars is noticed only then"


def dollars(amount: float) -> str:
    """Returns an amount of money for people: cents, and smaller parts where there are any."""
    if 0 < amount < 0.0001:
        return f"${amount:g}"
    return f"${amount:.2f}" if round(amount, 4) == round(amount, 2) else f"${amount:.4f}"


def describe(passed: BudgetExceeded) -> str:
    """Which limit was passed, in words for people and without a full stop."""
    match passed.reason:
        case "tokens":
            what = f"the turn used {passed.observed} tokens"
        case "cost":
            what = f"the turn cost {passed.observed}"
        case limit:
            what = f"{limit}: {passed.observed} used"
    return f"{what}; the limit is {passed.limit}"


def checked(limits: Limits) -> Limits:
    """Returns `limits`. Raises InvalidType if they are no `Limits`."""
    if not isinstance(limits, Limits):
        raise InvalidType(f"limits are given as Limits(total=600, cost=0.50), not {limits!r}")
    return limits


class SessionCost:
    """What a session has cost: as the engine reports it, else the sum of its turns. None if nobody knows.

    Args:
        resumed: Whether the session has a past whose cost is not known.
    """

    def __init__(self, *, resumed: bool) -> None:
        self.total: float | None = None if resumed else 0.0
        self._before: float | None = 0.0
        """What the sessions before had cost that this one goes on for."""
        self._reported = False

    def set_total(self, total: Usage) -> None:
        """Sets what the engine reports for the session so far, which is `total`."""
        self._reported = True
        known = self._before is not None and total.cost is not None
        self.total = round((self._before or 0) + (total.cost or 0), 9) if known else None

    def start_at(self, cost: float | None) -> None:
        """Sets what the session `cost` before the engine was started, as that says when it is asked for it.

        An engine that knows less than this program counts only for itself.
        """
        if cost is not None and cost >= (self.total or 0.0):
            self.total = cost

    def begin_session(self) -> None:
        """The conversation goes on in a new session, whose cost the engine reports from zero."""
        self._before = self.total

    def add(self, turn: Usage) -> None:
        """Adds the usage of a `turn` that has ended, unless the engine reports the session."""
        if not self._reported and turn.tokens:
            self.total = None if self.total is None or turn.cost is None else round(self.total + turn.cost, 9)

    @property
    def is_priced(self) -> bool:
        """Whether the engine reports what the session costs."""
        return self._reported and self.total is not None

    def since(self, before: float | None) -> float | None:
        """Returns the cost since the session had cost `before`; None where the engine does not report the session."""
        return None if before is None or self.total is None or not self._reported else round(self.total - before, 9)
