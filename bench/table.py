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


Summaries = dict[str, dict[str, Summary]]
"""By engine and figure."""


def summarise(rounds: Mapping[str, Rounds]) -> Summaries:
    return {who: {name: Summary.of(values) for name, values in found.items()} for who, found in rounds.items()}


def render(engines: Summaries, floors: Summaries) -> str:
    """The floor, then a row for each figure: every engine's, its ratio to the best peer, and the goals."""
    first, *others = engines
    rows = [("floor", "median", "spread")]
    for what, found in floors.items():
        rows += [(f"{what}, to its {name}", *_cells(one)) for name, one in found.items()]
    figures = [("figure", *(cell for who in engines for cell in (who, "spread")), "to best peer")]
    for name in engines[first]:
        cells = [cell for who in engines for cell in _cells(engines[who].get(name))]
        figures.append((name, *cells, _to_best(name, engines[first][name], [engines[who].get(name) for who in others])))
    goals = [("goal", first, "now", "", "later", ""), *_goals(engines[first], floors)]
    return "\n\n".join(_aligned(part) for part in (rows, figures, goals))


def verdicts(found: Mapping[str, Summary], floors: Summaries) -> Iterator[tuple[Goal, float]]:
    """Every goal that was measured, and the value to hold against it."""
    for goal in GOALS:
        if goal.figure in found:
            yield goal, found[goal.figure].median / (floors[goal.of[0]][goal.of[1]].median if goal.of else 1)


def _goals(found: Mapping[str, Summary], floors: Summaries) -> Iterator[tuple[str, ...]]:
    for goal, value in verdicts(found, floors):
        name = f"{goal.figure} / {' to its '.join(goal.of)}" if goal.of else goal.figure
        yield name, _number(value), *_against(goal, value, goal.now), *_against(goal, value, goal.later)


def _against(goal: Goal, value: float, bound: float | None) -> tuple[str, str]:
    if bound is None:
        return "", ""
    miss = "over" if goal.way == "most" else "under"
    return f"{'<=' if goal.way == 'most' else '>='} {_number(bound)}", "ok" if goal.holds(value, bound) else miss


def _to_best(name: str, ours: Summary, others: Sequence[Summary | None]) -> str:
    medians = [other.median for other in others if other is not None]
    if not medians:
        return ""
    best = max(medians) if name.endswith("per s") else min(medians)
    return f"{ours.median / best:.2f} x" if best else ""


def _cells(found: Summary | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    return _number(found.median), f"{_number(found.low)} .. {_number(found.high)}"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
