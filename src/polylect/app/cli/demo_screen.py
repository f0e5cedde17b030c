"""Prints the conversation of `polylect demo`: streaming text, calls, asks, diffs in colour, the cost.

It uses plain escape codes instead of the libraries of `tui/`, because the demo has to run without them.
"""

import asyncio
import os
import sys
from typing import Any, TextIO

from polylect.vocab.events import ToolFinished, TurnEnded

_MAX_LINES = 14
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Screen:
    """Writes to a stream, in colour where it is a terminal and NO_COLOR is not set."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._colour = stream.isatty() and not os.environ.get("NO_COLOR")
        self._open = ""

    def title(self, what: str, more: str) -> None:
        self._line(f"\n{self._styled('bold', what)}  {self._styled('dim', more)}")

    def fact(self, text: str) -> None:
        self._line(self._styled("dim", f"  {text}"))

    def prompt(self, text: str) -> None:
        self._line(f"\n{self._styled('bold', 'you')}   {text}\n")

    def text(self, text: str) -> None:
        self._stream_text("agent", text, "")

    def thought(self, text: str) -> None:
        self._stream_text("think", text, "dim")

    def call(self, description: str) -> None:
        self._line(f"{self._styled('blue', 'run')}   {description}")

    def ask(self, title: str, args: dict[str, Any]) -> None:
        self._line(f"{self._styled('yellow', 'ask')}   {title}")
        if {"old_string", "new_string"} <= args.keys():
            for mark, key, style in (("-", "old_string", "red"), ("+", "new_string", "green")):
                for line in str(args[key]).split("\n"):
                    self._line("      " + self._styled(style, f"{mark} {line}"))

    async def choose(self) -> str:
        """Reads the terminal until the answer is y, n or a, and returns it. The end of input counts as n."""
        loop = asyncio.get_running_loop()
        while True:
            self._stream.write("      allow it? [y]es, [n]o, [a]lways for this kind: ")
            self._stream.flush()
            typed = asyncio.Event()
            loop.add_reader(sys.stdin.fileno(), typed.set)
            try:
                await typed.wait()  # not in a thread: Ctrl-C has to get through
            finally:
                loop.remove_reader(sys.stdin.fileno())
            words = os.read(sys.stdin.fileno(), 1024).decode(errors="replace")
            if not words:
                self._stream.write("\n")
                return "n"
            if (answer := words.strip().lower()[:1]) in ("y", "n", "a"):
                return answer
            self._stream.write("      please answer y, n or a\n")

    def outcome(self, finished: ToolFinished) -> None:
        if finished.outcome in ("denied", "cancelled", "skipped"):
            self._line(f"{self._styled('red', finished.outcome)} {finished.reason}\n")
        elif finished.form == "diff":
            self._diff(finished.output)
        else:
            self._block(finished.output, "red" if finished.outcome == "error" else "dim")

    def end(self, ended: TurnEnded) -> None:
        usage = ended.usage
        cost = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        how = "done" if ended.reason == "end" else ended.reason
        self._line(f"\n{self._styled('bold', how)}  {usage.input} tokens in, {usage.output} out, {cost}")
        if ended.failure:
            self._line(self._styled("red", f"      {ended.failure.message}"))

    def frame(self, arrow: str, line: str) -> None:
        self._line(f"{self._styled('green' if arrow == '→' else 'cyan', arrow)} {line}")

    def _stream_text(self, who: str, text: str, style: str) -> None:
        if self._open != who:
            self._close()
            self._stream.write(f"{self._styled('green', who)} ")
            self._open = who
        self._stream.write(self._styled(style, text.replace("\n", "\n      ")))
        self._stream.flush()

    def _diff(self, diff: str) -> None:
        for line in diff.split("\n"):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
            self._line("      " + self._styled(style, line))
        self._line("")

    def _block(self, text: str, style: str) -> None:
        lines = text.rstrip("\n").split("\n")
        for line in lines[:_MAX_LINES]:
            self._line("      " + self._styled(style, line))
        if len(lines) > _MAX_LINES:
            self._line(self._styled("dim", f"      ... {len(lines) - _MAX_LINES} more lines"))
        self._line("")

    def _line(self, text: str) -> None:
        self._close()
        self._stream.write(text + "\n")
        self._stream.flush()

    def _close(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._open = ""

    def _styled(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._colour and text else text
