"""Runs shell commands that the user starts, beside any turn.

The command is not asked about, because the user typed it. Its output becomes part of the conversation, so
that the model sees it with the next prompt; during a turn it is added after the turn, never between a call and its
result.
"""

import asyncio
import codecs
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, TextIO

from polylect.engine.commands.background import LATER
from polylect.engine.commands.context import CommandContext
from polylect.engine.context.output_cleanup import ESCAPES
from polylect.system.search_paths import program_on
from polylect.vocab.answers import ShellResult
from polylect.vocab.commands import RunShell
from polylect.vocab.content import Failure, Rule
from polylect.vocab.errors import SessionError, ToolError
from polylect.vocab.events import Notice, ShellOutput
from polylect.vocab.ports import Exit
from polylect.wire.lazy_regex import pattern

MOST_BYTES = 50 * 1024
MOST_LINES = 3000
"""How much of the end of an output is shown."""
MOST_LIVE = 1024 * 1024
"""Bytes of an output that are told while the command runs; its result has the end of a longer one."""
MOST_ON_DISK = 1024 * 1024 * 1024
"""A command that prints for ever must not fill the disk."""
_LONGEST = 365 * 24 * 3600.0
"""Whoever started it can stop it."""
_BEGUN = pattern(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?$")
_LONGEST_ESCAPE = 1000
_CONTROLS = pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Done = Callable[[ShellResult | ToolError | OSError], None]


class UserShell:
    """The user's commands that are running; several may run at once."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._agent = context.agent
        self._running: dict[asyncio.Task[None], str] = {}

    def run(self, command: RunShell) -> Failure | None:
        """Start a command. The reply comes when it has ended."""
        if not command.command.strip():
            return Failure("empty_command", "there is no command to run", "host")
        task = asyncio.create_task(self._run(command, partial(self._done, command)))
        self._running[task] = command.ref
        task.add_done_callback(self._running.pop)
        return LATER

    def _done(self, command: RunShell, result: ShellResult | ToolError | OSError) -> None:
        context = self._context
        if isinstance(result, ToolError | OSError):
            return context.reply(command, failure=Failure("shell", f"it could not be run: {result}", "user"))
        # The model is told of it, but never between a call and its result.
        if command.private:
            pass
        elif context.turns.running or self._agent.compactor.running:
            context.turns.after_current(lambda: self._store(result))
        else:
            self._store(result)
        context.reply(command, result)

    def _store(self, result: ShellResult) -> None:
        try:
            self._agent.session.add_shell_result(result)
        except SessionError as error:
            self._agent.emit(Notice(f"What a command printed could not be saved: {error}", "warning"))

    def cancel(self, name: str = "") -> None:
        """Stop one command, or all of them. Unknown names are ignored."""
        for task in [task for task, known in self._running.items() if name in ("", known)]:
            if not task.cancelling():  # after its first step: one that never began could not say that it has ended
                asyncio.get_running_loop().call_soon(task.cancel)

    async def finished(self) -> bool:
        """Wait for all of them. False if none was running."""
        running = set(self._running)
        if running:
            await asyncio.wait(running)
        return bool(running)

    async def _run(self, command: RunShell, done: Done) -> None:
        agent, output = self._agent, CommandOutput(self._spill, partial(self._tell, command.ref))
        path = agent.env.get("PATH", os.defpath)
        end: Exit | None = None
        try:
            end = await agent.processes.run(
                (program_on(path, "bash", outside=agent.settings.workspace) or "/bin/sh", "-c", command.command),
                cwd=agent.settings.workspace,
                env=agent.env,
                timeout=_LONGEST,
                on_output=output.add,
            )
        except asyncio.CancelledError:
            pass  # that is how it ends then
        except (ToolError, OSError) as error:
            return done(error)
        finally:
            output.close()
        done(output.result(command.command, end, agent.asks.scrub))

    def _tell(self, ref: str, text: str) -> None:
        """Tell the host what was printed, unless it reads too slowly (T8): the reply has the end of it all."""
        if ref and not self._agent.full():
            self._agent.emit(ShellOutput(ref, self._agent.asks.scrub(text)))

    def _spill(self) -> str:
        """A file for long output, which the model may read."""
        path = self._agent.session.store.spill("")
        self._agent.rules.add(Rule("path", os.path.dirname(path), write=False))
        return path


class CommandOutput:
    """The output of one command, both streams in order of arrival.

    Keeps the end in memory; once the output is long, all of it goes to a file.
    """

    def __init__(self, spill: Callable[[], str], tell: Callable[[str], None]) -> None:
        self._spill = spill
        self._tell = tell
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")}
        self._begun = ""
        """An escape sequence that has not ended."""
        self._tail = ""
        self._size = 0
        self._breaks = 0
        self._path = ""
        self._file: TextIO | None = None

    def add(self, stream: Literal["out", "err"], data: bytes) -> None:
        text = self._begun + self._decoders[stream].decode(data)
        begun = _BEGUN.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        self._begun = begun.group() if begun else ""
        self._append(text.removesuffix(self._begun))

    def close(self) -> None:
        self._append(self._begun + "".join(decoder.decode(b"", final=True) for decoder in self._decoders.values()))
        if self._file:
            with suppress(OSError):
                self._file.close()

    def result(self, command: str, end: Exit | None, scrub: Callable[[str], str]) -> ShellResult:
        """The result of the command. Without an `end` it was cancelled. `scrub` removes secrets from the text."""
        return ShellResult(
            command,
            output=scrub(_last(self._tail) if self._is_long else self._tail),
            code=None if end is None else end.code if end.code >= 0 else 128 - end.code,  # as shells count signals
            cancelled=end is None,
            truncated=self._is_long,
            path=self._path,
            lines=self._breaks + 1 if self._size else 0,
            size=self._size,
        )

    @property
    def _is_long(self) -> bool:
        return self._size > MOST_BYTES or self._breaks >= MOST_LINES

    def _append(self, text: str) -> None:
        text = _CONTROLS.sub("", ESCAPES.sub("", text))
        was_long = self._is_long
        if text and self._size < MOST_LIVE:
            self._tell(text)
        self._size += len(text.encode())
        self._breaks += text.count("\n")
        self._tail += text
        if self._is_long:
            self._write_to_file(text if was_long else self._tail, first=not was_long)
        if len(self._tail) > 8 * MOST_BYTES:  # cut seldom, so that each character is moved once at most
            self._tail = self._tail[-MOST_BYTES:]

    def _write_to_file(self, text: str, *, first: bool) -> None:
        """As far as there is room; what is shown does not depend on it."""
        with suppress(OSError):
            if first:
                self._path = self._spill()
                self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115  (closed with the command)
            if self._file and self._size <= MOST_ON_DISK:
                self._file.write(text)


def _last(text: str) -> str:
    """The last lines, or of a line that is too long its last characters."""
    shown = text.encode()[-MOST_BYTES:].decode(errors="ignore")
    return "\n".join(shown.split("\n")[-MOST_LINES:])
