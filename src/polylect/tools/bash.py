"""Bash: a command line, run in the workspace."""

import asyncio
import codecs
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.limits import Capture, cut_middle
from polylect.tools.programs import find_program
from polylect.vocab.content import Category
from polylect.vocab.ports import Exit, ToolContext, ToolReturn

TEXT = """\
Runs a command in a shell, in the workspace folder, and shows its exit code and what it printed.
Every call is a new shell with empty standard input; whatever still runs when the command ends is ended too, so do not
start things in the background. Very long output is cut in the middle and kept whole in a file that is named there.
To read, find or change files, the other tools are better."""

DEFAULT_TIMEOUT = 120_000
MOST_TIMEOUT = 600_000
MOST = 50_000
"""Characters of output that the model is shown."""
KEPT = 2 * 1024 * 1024
"""Bytes of each stream that are kept for the file beside the answer."""
PROGRESS_MOST = 50_000
PROGRESS_PAUSE = 0.05


class Arguments(Struct, frozen=True):
    command: Annotated[str, Meta(description="What to run.")]
    timeout: Annotated[int, Meta(ge=1, description=f"Milliseconds; at most {MOST_TIMEOUT}.")] = DEFAULT_TIMEOUT
    description: Annotated[str, Meta(description="What it is for, in a few words.")] = ""


class Bash(TypedTool[Arguments]):
    name = "Bash"
    category: Category = "exec"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Execute: {' '.join(shown(args, 'command').split())[:80]}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        shell = find_program("bash", context.env) or "/bin/sh"
        captures = {"out": Capture(KEPT, MOST), "err": Capture(KEPT, MOST)}
        progress = Progress(context)

        def take(stream: str, data: bytes) -> None:
            captures[stream].add(data)
            progress.add(stream, data)

        timeout = min(args.timeout, MOST_TIMEOUT)
        try:
            end = await context.processes.run(
                (shell, "-c", args.command),
                cwd=context.workspace,
                env=context.env,
                timeout=timeout / 1000,
                on_output=take,
            )
        finally:
            progress.end()
        text = f"{_verdict(end, timeout)}\nSTDOUT:\n{captures['out'].text()}\nSTDERR:\n{captures['err'].text()}"
        where = context.spill(text) if len(text) > MOST else ""
        return ToolReturn(cut_middle(text, MOST, where), ok=not end.code and not end.timed_out)


def _verdict(end: Exit, timeout: int) -> str:
    if end.timed_out:
        return f"Command timed out after {timeout}ms"
    return f"Exit code: {end.code if end.code >= 0 else 128 - end.code}"  # a signal counts as shells count it


class Progress:
    """Shows output while it comes: whole lines, a few times a second, up to a bound."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")}
        self._partial = {"out": "", "err": ""}
        self._ready = ""
        self._left = PROGRESS_MOST
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: str, data: bytes) -> None:
        data = data[: self._left]
        if not data:
            return
        self._left -= len(data)
        text = self._partial[stream] + self._decoders[stream].decode(data)
        lines, newline, self._partial[stream] = text.rpartition("\n")
        self._ready += lines + newline
        if self._ready and not self._timer:
            self._show()
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_PAUSE, self._tick)

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._ready += self._partial["out"] + self._partial["err"]
        self._show()

    def _tick(self) -> None:
        self._timer = None
        self._show()

    def _show(self) -> None:
        text, self._ready = self._ready, ""
        if text:
            self._context.progress(text)
