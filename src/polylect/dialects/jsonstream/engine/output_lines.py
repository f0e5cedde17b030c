"""Cuts the output of running calls into whole lines.

A `tool_chunk` of json-stream carries one line without its end. The encoder uses it for each `ToolOutput`; an unfinished
line waits for its end, and is written when the call finishes.
"""

_MOST = 64 * 1024
"""A line that is longer than this is not waited for."""


class OutputLines:
    """The last line of each call is kept until it is whole, or the call ends."""

    def __init__(self) -> None:
        self._partial: dict[str, str] = {}

    def add(self, call: str, text: str, *, replace: bool) -> list[str]:
        """The lines that are whole now, without their ends. With `replace`, an unfinished one is forgotten."""
        before = "" if replace else self._partial.get(call, "")
        *lines, rest = (before + text).split("\n")
        if len(rest) > _MOST:
            lines, rest = [*lines, rest], ""
        self._partial[call] = rest
        return lines

    def end(self, call: str) -> list[str]:
        rest = self._partial.pop(call, "")
        return [rest] if rest else []
