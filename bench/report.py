"""The figures of a run as a table in docs/performance.md, between its two marks."""

from collections.abc import Iterator
from pathlib import Path

from bench.table import Result, number

BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"


def write(page: Path, result: Result, caption: str) -> None:
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has lost its marks for the figures")
    page.write_text("\n".join([before + BEGIN, "", *_lines(result, caption), "", end + after]))


def _lines(result: Result, caption: str) -> Iterator[str]:
    yield f"`{caption}`"
    yield ""
    yield from _rows([("figure", *result.engines, "to the best peer"), *_figures(result)])
    yield ""
    yield from _rows([("goal", "reached", "bound", ""), *_goals(result)])
    missing = [(who, what, why) for who, whys in result.failures.items() for what, why in whys.items()]
    if missing:
        yield ""
        yield "Not measured: " + "; ".join(f"{who} {what} ({why})" for who, what, why in missing) + "."


def _figures(result: Result) -> Iterator[tuple[str, ...]]:
    for figure in dict.fromkeys(name for found in result.engines.values() for name in found):
        medians = [number(found[figure].median) if figure in found else "" for found in result.engines.values()]
        ours, best = result.engines.get(result.first, {}).get(figure), result.best(figure)
        ratio = f"{ours.median / best[1]:.2f} of {best[0]}" if ours and best and best[1] else ""
        yield figure, *medians, ratio


def _goals(result: Result) -> Iterator[tuple[str, ...]]:
    for goal, of, value in result.verdicts():
        times = " times" if of else ""
        sign = "at most" if goal.way == "most" else "at least"
        yield (
            f"{goal.figure} {of}".strip(),
            number(value) + times,
            f"{sign} {number(goal.bound)}",
            "" if goal.holds(value) else "not met",
        )


def _rows(rows: list[tuple[str, ...]]) -> Iterator[str]:
    head, *rest = rows
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rest:
        yield f"| {' | '.join(row)} |"
