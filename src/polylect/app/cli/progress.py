"""Shows on one line of a terminal what an engine is doing, how long it has run and what it has cost.

`polylect run` draws the line on stderr while it waits, so that stdout has only the answer. Texts of the engine are
escaped before they are drawn.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from polylect.vocab import events as e
from polylect.vocab.content import Usage
from polylect.vocab.escape import escape_controls

_INTERVAL = 0.2
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """The progress line. It writes nothing where the stream is no terminal.

    Call `clear` before writing anything else to that terminal.
    """

    def __init__(self, stream: TextIO = sys.stderr, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._on = stream.isatty()
        self._now = now
        self._start_time = now()
        self._activity = "starting"
        self._usage = Usage()
        self._descriptions: dict[str, str] = {}
        self._frame = 0

    def update(self, event: e.Event) -> None:
        match event:
            case e.StepStarted():
                self._activity = "asking the model"
            case e.ThinkingDelta():
                self._activity = "thinking"
            case e.TextDelta():
                self._activity = "answering"
            case e.ToolCalled(call, name, _, _, description):
                self._descriptions[call] = description or name
            case e.ToolStarted(call, name):
                self._activity = self._descriptions.get(call) or name
            case e.ToolFinished(call):
                self._descriptions.pop(call, None)
                self._activity = "going on"
            case e.ReplyEnded(usage=usage):
                self._usage += usage
            case e.CostChanged(total):
                self._usage = total
            case e.RetryStarted(attempt, most):
                self._activity = f"waiting to try again ({attempt} of {most})"
            case e.CompactionStarted():
                self._activity = "shortening the conversation"

    async def run(self) -> None:
        """Redraws the line until the task is cancelled."""
        while self._on:
            self._frame += 1
            self._write(self.line())
            await asyncio.sleep(_INTERVAL)

    def line(self) -> str:
        spent = [f"{self._now() - self._start_time:.0f} s"]
        if tokens := self._usage.tokens:
            spent.append(f"{tokens:,} tokens")
        if self._usage.cost is not None:
            spent.append(f"${self._usage.cost:.4f}")
        activity = escape_controls(" ".join(self._activity.split()))
        return f"{_SPINNER[self._frame % len(_SPINNER)]} {activity}  [{', '.join(spent)}]"

    def clear(self) -> None:
        if self._on:
            self._write("")

    def _write(self, text: str) -> None:
        width = _terminal_width(self._stream)
        self._stream.write("\r\x1b[2K" + (text if len(text) < width else text[: width - 2] + "…"))
        self._stream.flush()


def _terminal_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # some terminals report 0
    except OSError:
        return 80


_MAIN_ARGUMENTS = ("command", "cmd", "file_path", "path", "url", "pattern")
"""aionrs calls a command `cmd`."""


def describe_call(name: str, args: Mapping[str, Any]) -> str:
    """A call in one short line: the tool and its main argument."""
    argument = next((str(args[key]) for key in _MAIN_ARGUMENTS if key in args), "")
    return escape_controls(f"{name} {' '.join(argument.split())[:80]}".strip())
