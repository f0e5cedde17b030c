"""Bash: runs a shell command in the workspace, in the sandbox if there is one, and shows what it printed.

The command runs in custody, so nothing that it started is left when the call ends. Output arrives while it runs:
`Progress` shows the first part of it to the host at once, and `Output` keeps both ends for the model and the whole in a
file. With `run_in_background` the call returns at once, and BashOutput and KillBash go on with the command.

Where the settings say so, a command that is waited for runs in a terminal of the host, with the same limits.
"""

import asyncio
import codecs
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from msgspec import Meta, Struct, defstruct

from polylect.tools.arguments import TypedTool, text_argument
from polylect.tools.process.background_jobs import Background, exit_code
from polylect.tools.process.output_spool import Output, format_streams
from polylect.tools.process.programs import find_program
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.tools.setup import CommandLimits, ToolSetup
from polylect.vocab.answers import TaskOutput
from polylect.vocab.content import Category
from polylect.vocab.ports import Exit, Processes, Tool, ToolContext, ToolReturn

TEXT = """\
Runs a command in a shell, in the workspace folder, and shows its exit code and what it printed.
Every call is a new shell with empty standard input; whatever still runs when the command ends is ended too. To let
something run on (a server, a long build), set run_in_background: the answer is an id at once, BashOutput shows what it
has printed since, KillBash ends it, and so does the end of the session. Very long output is cut in the middle and kept
whole in a file that is named there. To read, find or change files, the other tools are better. A sandbox may keep
commands from writing outside the workspace and temporary folders and from reading keys; if so, ask the user."""

_USUAL = CommandLimits()
DEFAULT_TIMEOUT = _USUAL.timeout
MOST_TIMEOUT = _USUAL.most_timeout
MOST = _USUAL.output
"""Bytes of output that the model is shown."""
PROGRESS_MOST = 50_000
PROGRESS_LINES = 500
"""json-stream has a frame for each line, and sixteen calls of `yes` would keep the engine busy with them for long."""
PROGRESS_PAUSE = 0.05


class Arguments(Struct, frozen=True):
    command: Annotated[str, Meta(description="What to run.")]
    timeout: Annotated[int, Meta(ge=1, description=f"Milliseconds; at most {MOST_TIMEOUT}.")] = DEFAULT_TIMEOUT
    description: Annotated[str, Meta(description="What it is for, in a few words.")] = ""
    run_in_background: Annotated[bool, Meta(description="Let it run on; timeout does not count then.")] = False


class Bash(TypedTool[Arguments]):
    name = "Bash"
    category: Category = "exec"
    text = TEXT
    arguments = Arguments
    other_parameters: Mapping[str, str] = {"cmd": "command"}
    ignored = ("dangerouslyDisableSandbox", "shell")

    def __init__(self, background: Background, sandbox: Sandbox | None = None, limits: CommandLimits = _USUAL) -> None:
        if limits != _USUAL:
            self.arguments = _arguments(limits)
        super().__init__()
        self._limits = limits
        self._background = background
        self._sandbox = sandbox

    def describe(self, args: dict[str, Any]) -> str:
        command = " ".join(text_argument(args, "command").split())
        return f"Execute: {command[:80]}{'…' if len(command) > 80 else ''}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        argv: Sequence[str] = (find_program("bash", context.env, context.workspace) or "/bin/sh", "-c", args.command)
        timeout, most = min(args.timeout, self._limits.most_timeout), self._limits.output
        if context.terminals and not args.run_in_background:
            return await _run(context.terminals, argv, timeout, most, context)
        if self._sandbox:
            argv = await self._sandbox.argv(argv, context.workspace, context.roots, context.processes)
        if args.run_in_background:
            job = await self._background.start(args.command, argv, context)
            text = f"Running in the background as {job.id}. BashOutput shows what it prints, KillBash ends it."
            return ToolReturn(text, metadata={"bash_id": job.id, "pid": job.pid})
        return await _run(context.processes, argv, timeout, most, context)

    def task_output(self, task: str) -> TaskOutput | None:
        """The end of what a command in the background has printed, for the host; None if there is no such command."""
        return self._background.output_of(task)

    def stop_task(self, task: str) -> bool:
        """End a command in the background. False if none with this id runs."""
        return self._background.stop(task)

    async def close(self) -> None:
        """End what runs in the background."""
        await self._background.close()

    leave_session = close


def _arguments(limits: CommandLimits) -> type[Arguments]:
    """The arguments, with other limits for the timeout."""
    timeout = Annotated[int, Meta(ge=1, description=f"Milliseconds; at most {limits.most_timeout}.")]
    made = defstruct("Arguments", [("timeout", timeout, limits.timeout)], bases=(Arguments,), frozen=True)
    return cast("type[Arguments]", made)


async def _run(processes: Processes, argv: Sequence[str], timeout: int, most: int, context: ToolContext) -> ToolReturn:
    out, err = Output(context.spill, most), Output(context.spill, most)
    progress = Progress(context)

    def on_output(stream: str, data: bytes) -> None:
        (out if stream == "out" else err).add(data)
        progress.add(stream, data)

    try:
        end = await processes.run(
            argv, cwd=context.workspace, env=context.env, timeout=timeout / 1000, on_output=on_output
        )
        text = f"{_outcome(end, timeout)}\n{format_streams(out, err, most)}"
    finally:
        progress.end()
        out.close()
        err.close()
    return ToolReturn(text, ok=not end.code and not end.timed_out)


def _outcome(end: Exit, timeout: int) -> str:
    if end.timed_out:
        return f"Command timed out after {timeout}ms"
    return f"Exit code: {exit_code(end)}"


class Progress:
    """Shows output to the host while it arrives: whole lines, 20 times a second at most, up to PROGRESS_MOST
    bytes and PROGRESS_LINES lines.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")}
        self._partial = {"out": "", "err": ""}
        self._ready = ""
        self._left = PROGRESS_MOST
        self._lines_left = PROGRESS_LINES
        self._cut = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: str, data: bytes) -> None:
        shown = self._fitting(data)
        self._left -= len(shown)
        self._lines_left -= shown.count(b"\n")
        if len(shown) < len(data):
            self._left, self._cut = 0, True
        if not shown:
            return
        text = self._partial[stream] + self._decoders[stream].decode(shown)
        lines, newline, self._partial[stream] = text.rpartition("\n")
        self._ready += lines + newline
        if self._ready and not self._timer:
            self._show()
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_PAUSE, self._tick)

    def _fitting(self, data: bytes) -> bytes:
        """As much of the data as may still be shown."""
        data = data[: self._left]
        lines = data.split(b"\n", self._lines_left)
        return data if len(lines) <= self._lines_left else data[: len(data) - len(lines[-1])]

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._ready += "(more than can be shown while it runs)\n" if self._cut else "".join(self._partial.values())
        self._show()

    def _tick(self) -> None:
        self._timer = None
        self._show()

    def _show(self) -> None:
        text, self._ready = self._ready, ""
        if text:
            self._context.progress(text)


def open_tool(setup: ToolSetup) -> Tool:
    return Bash(setup.background, setup.sandbox, setup.command_limits)
