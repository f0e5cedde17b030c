"""Figures of many rounds as medians with their spread, and as a table for people."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from bench.goals import GOALS, Goal

Rounds = Mapping[str, Sequence[float]]
"""By figure, its value in every round."""


class Summary(NamedTuple):
    """The middle, and what lies a quarter of all rounds from either end."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        if len(values) < 2:
            return cls(values[0], values[0], values[0], len(values))
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median(values), low, high, len(values))

    def __str__(self) -> str:
        """The middle, and half the distance between the quarters as a part of it."""
        spread = (self.high - self.low) / 2 / self.median if self.median else 0
        return f"{number(self.median)} ±{spread:.0%}"


Summaries = dict[str, dict[str, Summary]]
"""By engine and figure."""


def summarise(rounds: Mapping[str, Rounds]) -> Summaries:
    return {who: {name: Summary.of(values) for name, values in found.items()} for who, found in rounds.items()}


class Result(NamedTuple):
    """All that was found. `first` is who is held against the goals; peers are compared with it."""

    first: str
    engines: Summaries
    floors: Summaries
    peers: tuple[str, ...]
    failures: Mapping[str, Mapping[str, str]]
    """By engine and measure, or "" for all of them, why there is no figure."""

    def best(self, figure: str) -> tuple[str, float] | None:
        """The best peer and its figure. How many lines somebody makes is neither good nor bad."""
        if figure.endswith("lines"):
            return None
        found = [(self.engines[who][figure].median, who) for who in self.peers if figure in self.engines.get(who, {})]
        if not found:
            return None
        value, who = max(found) if more_is_better(figure) else min(found)
        return who, value

    def verdicts(self) -> Iterator[tuple[Goal, str, float]]:
        """Every goal that was measured, what it is a multiple of, and the value to hold against it."""
        first = self.engines.get(self.first, {})
        for goal in GOALS:
            ours = self.engines.get(goal.engine or self.first, {})
            if goal.figure not in ours:
                continue
            value, best = ours[goal.figure].median, self.best(goal.against or goal.figure)
            if goal.of is None:
                yield goal, "", value
            elif goal.of == "first":
                if goal.figure in first:
                    yield goal, f"of {goal.engine}, of {self.first}", value / first[goal.figure].median
            elif goal.of == "peer":
                if best:
                    yield goal, f"of {best[0]}{f' {goal.against}' if goal.against else ''}", value / best[1]
            elif goal.of[0] in self.floors:
                yield goal, f"of {goal.of[0]}", value / self.floors[goal.of[0]][goal.of[1]].median


def render(result: Result) -> str:
    """The floor, a row for each figure with every engine's and the ratio to the best peer, the goals, the failures."""
    rows = [("floor", "median")]
    for what, found in result.floors.items():
        rows += [(f"{what}, to its {name}", str(one)) for name, one in found.items()]
    figures = list(dict.fromkeys(name for found in result.engines.values() for name in found))
    table = [("figure", *result.engines, "to best peer"), *(_row(result, name) for name in figures)]
    goals = [("goal", result.first, "", ""), *_goals(result)]
    parts = [_aligned(part) for part in (rows, table, goals)]
    missing = [
        f"{who}{f', {what}' if what else ''}: {why}"
        for who, whys in result.failures.items()
        for what, why in whys.items()
    ]
    if missing:
        parts.append("\n".join(["not measured", *missing]))
    return "\n\n".join(parts)


def more_is_better(figure: str) -> bool:
    return figure.endswith("per s")


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _goals(result: Result) -> Iterator[tuple[str, ...]]:
    for goal, of, value in result.verdicts():
        miss = "over" if goal.way == "most" else "under"
        sign, times = "<=" if goal.way == "most" else ">=", " times" if of else ""
        yield (
            f"{goal.figure} {of}",
            number(value) + times,
            f"{sign} {number(goal.bound)}",
            "ok" if goal.holds(value) else miss,
        )


def _row(result: Result, figure: str) -> tuple[str, ...]:
    return figure, *(_cell(found.get(figure)) for found in result.engines.values()), _to_best(result, figure)


def _to_best(result: Result, figure: str) -> str:
    ours, best = result.engines.get(result.first, {}).get(figure), result.best(figure)
    return f"{ours.median / best[1]:.2f} x {best[0]}" if ours and best and best[1] else ""


def _cell(found: Summary | None) -> str:
    return str(found) if found else ""


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
