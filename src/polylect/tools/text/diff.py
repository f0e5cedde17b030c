"""Makes a unified diff of two texts, in bounded time whatever the texts are.

Lines that occur once in both texts are matched and split the rest into small parts (patience diff). A part without such
lines is compared by Myers' algorithm. Both count their steps. Once the steps are used up, the rest becomes one block of
removed and one of added lines, which is correct but not minimal. `difflib` took two minutes for 2000 lines.

Called by `worker/changing.py` for Edit, and by `tools/worker/checkpoint_files.py` to count changed lines.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

CONTEXT = 3
MOST_STEPS = 1_000_000
"""Comparisons of lines; about half a second."""

Span = tuple[int, int, int, int]
"""Lines from, to in the old text and from, to in the new one."""


def unified_diff(path: str, old: str, new: str) -> str:
    before, after = _lines(old), _lines(new)
    hunks = [_hunk(before, after, group) for group in _groups(changed_spans(before, after))]
    name = path.lstrip("/")
    return "\n".join((f"--- a/{name}", f"+++ b/{name}", *hunks))


def _lines(text: str) -> list[str]:
    """Each with its ending. Cut at LF only: other separators are text to every tool that reads diffs."""
    lines = text.split("\n")
    whole = [line + "\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def changed_spans(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Span]:
    """Where two sequences differ, in order."""
    return _Comparison(before, after).spans()


class _Comparison:
    def __init__(self, before: Sequence[Hashable], after: Sequence[Hashable]) -> None:
        self._before, self._after = before, after
        self._steps = MOST_STEPS

    def spans(self) -> list[Span]:
        changed: list[Span] = []
        parts = [(0, len(self._before), 0, len(self._after))]
        while parts:
            part = self._without_ends(*parts.pop())
            if part[0] == part[1] and part[2] == part[3]:
                continue
            if part[0] == part[1] or part[2] == part[3] or self._steps <= 0:
                changed.append(part)
            elif anchors := self._anchors(part):
                parts += _between(part, anchors)
            else:
                changed += self._shortest(part)
        return _joined(sorted(changed))

    def _without_ends(self, old: int, old_end: int, new: int, new_end: int) -> Span:
        """The part without its equal lines at both ends. An edit is local, so this removes most of a file."""
        before, after = self._before, self._after
        while old < old_end and new < new_end and before[old] == after[new]:
            old, new = old + 1, new + 1
        while old < old_end and new < new_end and before[old_end - 1] == after[new_end - 1]:
            old_end, new_end = old_end - 1, new_end - 1
        return old, old_end, new, new_end

    def _anchors(self, part: Span) -> list[tuple[int, int]]:
        """Places of lines that occur once on each side: the longest run of them that is in order on both."""
        old, old_end, new, new_end = part
        self._steps -= old_end - old + new_end - new
        once_before, once_after = _unique_lines(self._before, old, old_end), _unique_lines(self._after, new, new_end)
        pairs = [(at, once_after[line]) for line, at in once_before.items() if line in once_after]
        return _longest_rising(pairs)

    def _shortest(self, part: Span) -> list[Span]:
        """Myers: the fewest lines out and in. Each round allows one more; `furthest` has how far each diagonal gets."""
        old, old_end, new, new_end = part
        before, after = self._before[old:old_end], self._after[new:new_end]
        if not set(before) & set(after):
            return [part]
        rows, columns = len(before), len(after)
        furthest, rounds = {1: 0}, []
        for most in range(rows + columns + 1):
            self._steps -= most + 1
            if self._steps <= 0:
                return [part]
            rounds.append(furthest.copy())
            for diagonal in range(-most, most + 1, 2):
                down = diagonal == -most or (diagonal != most and furthest[diagonal - 1] < furthest[diagonal + 1])
                row = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
                column = row - diagonal
                while row < rows and column < columns and before[row] == after[column]:
                    row, column = row + 1, column + 1
                    self._steps -= 1
                furthest[diagonal] = row
                if row >= rows and column >= columns:
                    return _walked_back(rounds, rows, columns, old, new)
        return [part]


def _walked_back(rounds: list[dict[int, int]], row: int, column: int, old: int, new: int) -> list[Span]:
    """The steps of the shortest way, from its end: each takes one line out or in."""
    spans: list[Span] = []
    for most in range(len(rounds) - 1, 0, -1):
        furthest, diagonal = rounds[most], row - column
        down = diagonal == -most or (diagonal != most and furthest[diagonal - 1] < furthest[diagonal + 1])
        last = diagonal + 1 if down else diagonal - 1
        row = furthest[last]
        column = row - last
        spans.append((old + row, old + row + (not down), new + column, new + column + down))
    return spans


def _unique_lines(lines: Sequence[Hashable], start: int, stop: int) -> dict[Hashable, int]:
    """By line, where it is, of those that occur once."""
    places: dict[Hashable, int] = {}
    for at in range(start, stop):
        places[lines[at]] = -1 if lines[at] in places else at
    return {line: at for line, at in places.items() if at >= 0}


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of pairs in the order of their first numbers, the most whose second numbers rise as well."""
    lasts: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (_, second) in enumerate(pairs):
        at = bisect_left(lasts, second)
        previous.append(ends[at - 1] if at else -1)
        if at == len(lasts):
            lasts.append(second)
            ends.append(number)
        else:
            lasts[at], ends[at] = second, number
    chosen: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = previous[number]
    return chosen[::-1]


def _between(part: Span, anchors: list[tuple[int, int]]) -> list[Span]:
    old, old_end, new, new_end = part
    parts: list[Span] = []
    for old_at, new_at in anchors:
        parts.append((old, old_at, new, new_at))
        old, new = old_at + 1, new_at + 1
    return [*parts, (old, old_end, new, new_end)]


def _joined(spans: list[Span]) -> list[Span]:
    """Spans that touch on both sides are one."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1][1] == span[0] and joined[-1][3] == span[2]:
            joined[-1] = (joined[-1][0], span[1], joined[-1][2], span[3])
        else:
            joined.append(span)
    return joined


def _groups(changes: Sequence[Span]) -> Iterator[list[Span]]:
    """Changes whose surroundings touch share a hunk."""
    group: list[Span] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(before: Sequence[str], after: Sequence[str], group: Sequence[Span]) -> str:
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first[0])
    trail = min(CONTEXT, len(before) - last[1])
    start, stop = first[0] - lead, last[1] + trail
    title = f"@@ -{_range(start, stop)} +{_range(first[2] - lead, last[3] + trail)} @@"
    rows: list[str] = []
    at = start
    for old_from, old_to, new_from, new_to in group:
        rows += [" " + line for line in before[at:old_from]]
        rows += ["-" + line for line in before[old_from:old_to]]
        rows += ["+" + line for line in after[new_from:new_to]]
        at = old_to
    rows += [" " + line for line in before[at:stop]]
    return "\n".join((title, *(_row(row) for row in rows)))


def _row(row: str) -> str:
    return row[:-1] if row.endswith("\n") else row + "\n\\ No newline at end of file"


def _range(start: int, stop: int) -> str:
    """As diff numbers lines: from 1, the count left out if it is 1, an empty range named by the line before it."""
    count = stop - start
    return str(start + 1) if count == 1 else f"{start + 1 if count else start},{count}"
