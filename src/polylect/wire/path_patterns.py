"""Turns file patterns into regular expressions whose matching time is bounded, whoever wrote the pattern and the path.

Patterns and paths come from models, projects and hosts, so matching must not backtrack: the work for a path of `n`
characters and a pattern of `m` is at most in the order of `n * m`. `tools/text/glob_pattern.py` (Glob, the fallback
search) and `permissions/rules.py` (permission rules) cut their own notations into tokens; this module makes the
expression.

A token is an expression for exactly one character, or one of

    STAR      any characters of one name           `*`
    FOLDERS   any number of whole folders          `**/`
    (FOLDERS, STAR) together are anything at all   `**`

Why no backtracking is needed: between two gaps stands a chunk of fixed length, and the earliest place where a chunk
fits leaves the most for what follows. So every chunk is searched for once and its place is final, which is what an
atomic group `(?>...)` says. After FOLDERS a chunk is tried from the beginning of each folder: a later start inside
the same folder cannot fit where an earlier one does not.
"""

import re
from collections.abc import Iterator, Sequence

STAR = "[^/]*"
FOLDERS = "(?:[^/]*+/)*"
ANYTHING = (FOLDERS, STAR)
ONE = "[^/]"
MOST_LENGTH = 1000
"""Most characters of a pattern: both factors of the work have to be bounded."""


def check_length(pattern: str) -> None:
    """Raises re.error for a pattern that is too long."""
    if len(pattern) > MOST_LENGTH:
        raise re.error(f"the pattern has {len(pattern)} characters: use one of at most {MOST_LENGTH}")


def literal(path: str) -> str:
    """A path as a pattern that matches only this path: `*`, `?` and backslashes are escaped."""
    return re.sub(r"[*?\\]", r"\\\g<0>", path)


def expression(tokens: Sequence[str], end: str = r"\Z") -> str:
    """The source of a regular expression for `match`. `end` is an assertion about what follows."""
    *groups, last = _split(tokens, FOLDERS)
    parts = []
    for number, group in enumerate(groups):
        chunks = _in_order(group)
        parts.append(f"(?>{FOLDERS}?{chunks})" if number and chunks else chunks)
    fixed, *others = ["".join(chunk) for chunk in _split(last, STAR)]
    tail = "".join([fixed, *(f"(?>{STAR}?{chunk})" for chunk in others[:-1]), *(STAR + chunk for chunk in others[-1:])])
    # A last group without a slash can only match from the last folder on.
    lead = f"(?>{FOLDERS})" if end == r"\Z" and "/" not in last else FOLDERS
    return "".join(parts) + (lead if groups else "") + tail + end


def _in_order(group: Sequence[str]) -> str:
    first, *others = ["".join(chunk) for chunk in _split(group, STAR)]
    return first + "".join(f"(?>{STAR}?{chunk})" for chunk in others)


def _split(tokens: Sequence[str], gap: str) -> Iterator[Sequence[str]]:
    begin = 0
    for at, token in enumerate(tokens):
        if token == gap:
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]
