"""File patterns of Glob and of the fallback search, compiled to regular expressions that cannot blow up.

`*` and `?` stay within a folder, `**` crosses folders, `[a-z]` and `{one,other}` choose, a backslash takes the next
character as it is. Paths are relative and normalised. The model writes these patterns, and file names can be made to
match them slowly, so braces are written out into a bounded number of alternatives and each of them is matched without
backtracking (see `wire/path_patterns.py`).
"""

import re

from polylect.wire.path_patterns import ANYTHING, FOLDERS, ONE, STAR, check_length, expression

MOST_ALTERNATIVES = 64
_MOST_TOKENS = 10_000  # in all alternatives together

_Alternatives = list[tuple[str, ...]]


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Matches whole relative paths with `match`. Raises re.error, whose text says what is wrong with the pattern."""
    check_length(pattern)
    return re.compile("|".join(dict.fromkeys(map(expression, _alternatives(pattern)))), re.DOTALL)


def _alternatives(pattern: str) -> _Alternatives:
    """The tokens of each alternative: `a{b,c}` is `ab` and `ac`."""
    outer: list[tuple[_Alternatives, _Alternatives]] = []  # what stands before an open brace, and its choices so far
    current: _Alternatives = [()]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        size = 1
        if character == "{":
            outer.append((current, []))
            current = [()]
        elif character in ",}" and outer:
            before, choices = outer[-1]
            choices += current
            current = [()]
            if character == "}":
                outer.pop()
                current = _combined(before, choices)
        else:
            size, tokens = _token(pattern, at)
            current = [alternative + tokens for alternative in current]
        at += size
    if outer:
        raise re.error("a brace is not closed: write {one,other}, or \\{ for the character itself")
    return _combined(current, [()])


def _combined(before: _Alternatives, choices: _Alternatives) -> _Alternatives:
    tokens = sum(map(len, before)) * len(choices) + sum(map(len, choices)) * len(before)
    if len(before) * len(choices) > MOST_ALTERNATIVES or tokens > _MOST_TOKENS:
        raise re.error(f"its braces make more than {MOST_ALTERNATIVES} alternatives, or very long ones: use fewer")
    return [one + other for one in before for other in choices]


def _token(pattern: str, at: int) -> tuple[int, tuple[str, ...]]:
    """How many characters of the pattern the next piece takes, and its tokens."""
    if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
        return 3, (FOLDERS,)
    if pattern.startswith("**", at):
        return 2, ANYTHING
    character = pattern[at]
    if character == "[" and (end := pattern.find("]", at + 2)) > 0:
        return end + 1 - at, (_one_of(pattern[at + 1 : end]),)
    if character == "\\" and at + 1 < len(pattern):
        return 2, (re.escape(pattern[at + 1]),)
    return 1, ({"*": STAR, "?": ONE}.get(character) or re.escape(character),)


def _one_of(choice: str) -> str:
    """A character class. A slash is never in it, so that a name ends where a folder does."""
    negated = "^" if choice[0] in "!^" else ""
    characters = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", choice[len(negated) :])
    return f"(?!/)[{negated}{characters}]"


def fixed_folder(pattern: str) -> str:
    """The part of a pattern before its first choice, cut at a slash: where a search can start."""
    plain = re.split(r"[*?\[{\\]", pattern, maxsplit=1)[0]
    return plain.rpartition("/")[0]
