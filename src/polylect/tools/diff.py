"""A change as people and hosts read it."""

from collections.abc import Iterator, Sequence

CONTEXT = 3
MOST_COMPARED = 2000
"""Changed lines that are compared one by one; a larger change is shown as one block, since comparing is quadratic."""

Span = tuple[int, int, int, int]
"""Lines from, to in the old text and from, to in the new one."""


def unified_diff(path: str, old: str, new: str) -> str:
    before, after = _lines(old), _lines(new)
    hunks = [_hunk(before, after, group) for group in _groups(_changes(before, after))]
    name = path.lstrip("/")
    return "\n".join((f"--- a/{name}", f"+++ b/{name}", *hunks))


def _lines(text: str) -> list[str]:
    """Each with its ending. Cut at LF only: other separators are text to every tool that reads diffs."""
    lines = text.split("\n")
    whole = [line + "\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _changes(before: Sequence[str], after: Sequence[str]) -> list[Span]:
    """Where the texts differ. An edit is local, so what is the same at both ends is set aside first."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(old), len(new)) > MOST_COMPARED:
        return [(head, head + len(old), head, head + len(new))]
    from difflib import SequenceMatcher  # 5 ms, only once something was edited

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a + head, b + head, c + head, d + head) for tag, a, b, c, d in codes if tag != "equal"]


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
