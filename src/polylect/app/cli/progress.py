"""One line on a terminal that says what an engine is doing, for how long and for how much."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from polylect.vocab.content import Usage
from polylect.vocab.escape import escape_controls
from polylect.vocab.events import (
    CompactionStarted,
    CostChanged,
    Event,
    ReplyEnded,
    RetryStarted,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
)

_BEAT = 0.2
_MARKS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """Silent where the stream is no terminal. To be cleared before anything else is written."""

    def __init__(self, stream: TextIO = sys.stderr, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._on = stream.isatty()
        self._now = now
        self._began = now()
        self._doing = "starting"
        self._usage = Usage()
        self._described: dict[str, str] = {}
        self._beats = 0

    def hear(self, event: Event) -> None:
        match event:
            case StepStarted():
                self._doing = "asking the model"
            case ThinkingDelta():
                self._doing = "thinking"
            case TextDelta():
                self._doing = "answering"
            case ToolCalled(call, name, _, _, description):
                self._described[call] = description or name
            case ToolStarted(call, name):
                self._doing = self._described.get(call) or name
            case ToolFinished(call):
                self._described.pop(call, None)
                self._doing = "going on"
            case ReplyEnded(usage=usage):
                self._usage += usage
            case CostChanged(total):
                self._usage = total
            case RetryStarted(attempt, most):
                self._doing = f"waiting to try again ({attempt} of {most})"
            case CompactionStarted():
                self._doing = "shortening the conversation"

    async def beat(self) -> None:
        """Until cancelled."""
        while self._on:
            self._beats += 1
            self._write(self.line())
            await asyncio.sleep(_BEAT)

    def line(self) -> str:
        spent = [f"{self._now() - self._began:.0f} s"]
        if tokens := self._usage.tokens:
            spent.append(f"{tokens:,} tokens")
        if self._usage.cost is not None:
            spent.append(f"${self._usage.cost:.4f}")
        told = escape_controls(" ".join(self._doing.split()))
        return f"{_MARKS[self._beats % len(_MARKS)]} {told}  [{', '.join(spent)}]"

    def clear(self) -> None:
        if self._on:
            self._write("")

    def _write(self, text: str) -> None:
        width = _width(self._stream)
        self._stream.write("\r\x1b[2K" + (text if len(text) < width else text[: width - 2] + "…"))
        self._stream.flush()


def _width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # there are terminals that do not know
    except OSError:
        return 80


def in_short(name: str, args: Mapping[str, Any]) -> str:
    """A call in a few words."""
    told = next((str(args[key]) for key in ("command", "file_path", "path", "url", "pattern") if key in args), "")
    return escape_controls(f"{name} {' '.join(told.split())[:80]}".strip())
