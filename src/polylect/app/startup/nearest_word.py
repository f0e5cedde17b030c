"""Finds the nearest of some words: "did you mean --model?" for `--modle`.

Called only for error messages, so that no start pays for the import. The distance counts letters that are added, left
out, changed or swapped with their neighbour. Of two equally near words the one of the same length is preferred, because
two swapped letters are a more common mistake than a missing one.
"""

from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """The nearest of `words`, or an empty text if none is near enough."""
    if len(word) > 40:
        return ""
    scored = [(_distance(word, other), abs(len(word) - len(other)), other) for other in words]
    distance, _, other = min(scored, default=(len(word), 0, ""))
    letters = len(word.lstrip("-"))
    return other if distance <= max(1, letters // 3) else ""


def _distance(one: str, two: str) -> int:
    """The optimal string alignment distance of two words."""
    before: list[int] = []
    last = list(range(len(two) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, other in enumerate(two, 1):
            cost = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == two[column - 2] and other == one[row - 2]:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        before, last = last, now
    return last[-1]


def hint(word: str, words: Iterable[str], otherwise: str) -> str:
    """`did you mean X?`, or the text `otherwise` if no word is near."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else otherwise
