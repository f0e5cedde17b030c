"""What a person sees of a conversation: text as it streams, calls, diffs in colour, what it cost."""

import asyncio
import os
import sys
from typing import Any, TextIO

from polylect.vocab.events import ToolFinished, TurnEnded

_MOST_LINES = 14
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Screen:
    """Writes to a stream, in colour where it is a terminal and NO_COLOR is not set."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._colour = stream.isatty() and not os.environ.get("NO_COLOR")
        self._open = ""

    def title(self, what: str, more: str) -> None:
        self._line(f"\n{self._in('bold', what)}  {self._in('dim', more)}")

    def fact(self, text: str) -> None:
        self._line(self._in("dim", f"  {text}"))

    def prompt(self, text: str) -> None:
        self._line(f"\n{self._in('bold', 'you')}   {text}\n")

    def text(self, text: str) -> None:
        self._stream_in("agent", text, "")

    def thought(self, text: str) -> None:
        self._stream_in("think", text, "dim")

    def call(self, description: str) -> None:
        self._line(f"{self._in('blue', 'run')}   {description}")

    def ask(self, title: str, args: dict[str, Any]) -> None:
        self._line(f"{self._in('yellow', 'ask')}   {title}")
        if {"old_string", "new_string"} <= args.keys():
            for mark, key, style in (("-", "old_string", "red"), ("+", "new_string", "green")):
                for line in str(args[key]).split("\n"):
                    self._line("      " + self._in(style, f"{mark} {line}"))

    async def choose(self) -> str:
        """y, n or a. Reads the terminal until it is one of them; its end is a no."""
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
            self._line(f"{self._in('red', finished.outcome)} {finished.reason}\n")
        elif finished.form == "diff":
            self._diff(finished.output)
        else:
            self._block(finished.output, "red" if finished.outcome == "error" else "dim")

    def end(self, ended: TurnEnded) -> None:
        usage = ended.usage
        cost = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
        how = "done" if ended.reason == "end" else ended.reason
        self._line(f"\n{self._in('bold', how)}  {usage.input} tokens in, {usage.output} out, {cost}")
        if ended.failure:
            self._line(self._in("red", f"      {ended.failure.message}"))

    def frame(self, arrow: str, line: str) -> None:
        self._line(f"{self._in('green' if arrow == '→' else 'cyan', arrow)} {line}")

    def _stream_in(self, who: str, text: str, style: str) -> None:
        if self._open != who:
            self._close()
            self._stream.write(f"{self._in('green', who)} ")
            self._open = who
        self._stream.write(self._in(style, text.replace("\n", "\n      ")))
        self._stream.flush()

    def _diff(self, diff: str) -> None:
        for line in diff.split("\n"):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
            self._line("      " + self._in(style, line))
        self._line("")

    def _block(self, text: str, style: str) -> None:
        lines = text.rstrip("\n").split("\n")
        for line in lines[:_MOST_LINES]:
            self._line("      " + self._in(style, line))
        if len(lines) > _MOST_LINES:
            self._line(self._in("dim", f"      ... {len(lines) - _MOST_LINES} more lines"))
        self._line("")

    def _line(self, text: str) -> None:
        self._close()
        self._stream.write(text + "\n")
        self._stream.flush()

    def _close(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._open = ""

    def _in(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._colour and text else text
