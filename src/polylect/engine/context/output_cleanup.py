"""Output cleanup: shortens what commands print before it becomes the result of a call.

Removes what a terminal would have overwritten and what carries no information, to save tokens. The level is the setting
`output_cleanup`; json-stream hosts set it as `compaction` with `set_config`. Pure; `engine/turn/calls.py` calls it for
results of commands.
"""

from itertools import groupby
from typing import Literal

from polylect.wire.lazy_regex import pattern

Level = Literal["off", "safe", "full"]
LEVELS: tuple[Level, ...] = ("off", "safe", "full")

ESCAPES = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BLANKS = pattern(r"\n{3,}")
_MANY = 3
"""So many equal lines in a row are told as one and a count."""


def clean_output(text: str, level: Level) -> str:
    """The output without noise.

    `safe` removes colours, overwritten lines, trailing spaces and runs of empty lines; `full` also removes repeated
    lines.
    """
    if level == "off":
        return text
    lines = [_last_said(line).rstrip(" \t") for line in ESCAPES.sub("", text).split("\n")]
    if level == "full":
        lines = [shown for line, same in groupby(lines) for shown in _counted(line, len(list(same)))]
    return _BLANKS.sub("\n\n", "\n".join(lines))


def _last_said(line: str) -> str:
    """The final text of a line that was overwritten, as progress bars do."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def _counted(line: str, count: int) -> list[str]:
    return [line, f"[{count - 1} more lines like this]"] if count >= _MANY and line else [line] * count
