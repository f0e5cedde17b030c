"""File patterns: `*` and `?` stay within a folder, `**` crosses folders, `[a-z]` and `{one,other}` choose."""

import re

_PIECES = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Matches whole relative paths with `match`. Raises re.error for a pattern that makes no sense."""
    parts: list[str] = []
    at = depth = 0
    while at < len(pattern):
        size, piece = _piece(pattern, at, depth)
        depth += (piece == "(?:") - (piece == ")")
        parts.append(piece)
        at += size
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


def _piece(pattern: str, at: int, depth: int) -> tuple[int, str]:
    """How many characters of the pattern the next piece takes, and its regular expression."""
    if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
        return 3, "(?:[^/]+/)*"
    if pattern.startswith("**", at):
        return 2, ".*"
    character = pattern[at]
    if character == "[" and (end := pattern.find("]", at + 2)) > 0:
        chosen = pattern[at + 1 : end].replace("\\", "\\\\")
        return end + 1 - at, f"(?!/)[{'^' + chosen[1:] if chosen[0] in '!^' else chosen}]"
    if character == "\\" and at + 1 < len(pattern):
        return 2, re.escape(pattern[at + 1])
    if character == "," and depth:
        return 1, "|"
    if character == "}" and not depth:
        return 1, "\\}"
    return 1, _PIECES.get(character) or re.escape(character)


def fixed_folder(pattern: str) -> str:
    """The part of a pattern before its first choice, cut at a slash: where a search can start."""
    plain = re.split(r"[*?\[{\\]", pattern, maxsplit=1)[0]
    return plain.rpartition("/")[0]
