"""Runs commands for an engine, each in a terminal that it asks about by its id.

A command runs below the guardian that our own engine uses for commands (`tools/process/custody.py`), so nothing that it
starts is left behind when its terminal is released, when the host closes, and when the host's program is killed. The
standard input is empty, and both output streams are one text, of which the end is kept.
"""

import asyncio
import codecs
import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from polylect import plug
from polylect.host.client_services.faults import ServiceFault, text_field, whole_field
from polylect.host.client_services.text_files import is_inside
from polylect.system.child_environment import command_environment, loader_variables
from polylect.system.plain_files import real_path
from polylect.system.search_paths import absolute_only, program_on
from polylect.system.tasks import TaskSet

if TYPE_CHECKING:
    from polylect.vocab.ports import Exit, Processes

MOST_TERMINALS = 32
DEFAULT_OUTPUT = 1024 * 1024
MOST_OUTPUT = 4 * 1024 * 1024
"""Bytes of output that are kept of a command."""
_FOR_EVER = 365 * 86400.0
_CLOSE_BOUND = 3.0


class TerminalService:
    """The terminals of one engine. Commands run in these folders, given by their real paths; the first is the usual."""

    METHODS: Final = (
        *("create_terminal", "terminal_output", "wait_for_terminal_exit", "kill_terminal", "release_terminal"),
    )

    def __init__(self, roots: Sequence[str], env: Mapping[str, str]) -> None:
        self._roots = roots
        self._env = absolute_only({**command_environment(env), **loader_variables(env)})
        self._terminals: dict[str, _Terminal] = {}
        self._count = 0
        self._ending = TaskSet()
        self._custody: Processes | None = None

    async def handle(self, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Raises ServiceFault."""
        if method == "create_terminal":
            return {"terminal": self._create(fields)}
        id = text_field(fields, "terminal")
        terminal = self._terminals.get(id)
        if terminal is None:
            raise ServiceFault("bad_params", f"there is no terminal {id[:200]!r}")
        match method:
            case "terminal_output":
                return terminal.output()
            case "wait_for_terminal_exit":
                await asyncio.wait((terminal.task,))
                return terminal.exit_status()
            case "kill_terminal":
                await terminal.end()
            case _:
                await self.release(id)
        return {}

    async def release(self, id: str) -> None:
        """Ends the command of this terminal, and forgets it."""
        if terminal := self._terminals.pop(id, None):
            await terminal.end()

    def end_all(self) -> None:
        for terminal in self._terminals.values():
            terminal.task.cancel()

    def forget_all(self) -> None:
        self.end_all()
        for terminal in self._terminals.values():
            self._ending.start(terminal.end())
        self._terminals.clear()

    async def close(self) -> None:
        self.forget_all()
        await self._ending.finished(_CLOSE_BOUND)
        if self._custody:
            await self._custody.close()

    def _create(self, fields: dict[str, Any]) -> str:
        if len(self._terminals) >= MOST_TERMINALS:
            raise ServiceFault("too_many", f"there are {MOST_TERMINALS} terminals already: release one first")
        argv, cwd = _argv(fields, self._env, self._roots[0]), self._folder(fields)
        env = {**self._env, **_variables(fields)}
        terminal = _Terminal(min(whole_field(fields, "limit", DEFAULT_OUTPUT), MOST_OUTPUT))
        if self._custody is None:
            # By its name: tools and host are neighbours, which do not import each other.
            self._custody = plug.load("tools.process", "custody").Custody()
        terminal.task = asyncio.create_task(terminal.run(self._custody, argv, cwd, env))
        self._count += 1
        id = f"terminal-{self._count}"
        self._terminals[id] = terminal
        return id

    def _folder(self, fields: dict[str, Any]) -> str:
        cwd = text_field({"cwd": fields.get("cwd") or self._roots[0]}, "cwd")
        if not os.path.isabs(cwd) or "\0" in cwd:
            raise ServiceFault("bad_params", f"cwd has to be absolute, not {cwd[:200]!r}")
        real = real_path(cwd)
        if not is_inside(real, self._roots):
            raise ServiceFault("outside", f"{cwd} is outside of the folders that the engine works in")
        if not os.path.isdir(real):
            raise ServiceFault("missing", f"there is no folder {cwd}")
        return real


class _Terminal:
    """One command and the end of its output."""

    def __init__(self, limit: int) -> None:
        self.task: asyncio.Task[None]
        self._limit = limit
        self._data = bytearray()
        self._total = 0
        self._exit: Exit | None = None
        self._fault = ""

    async def run(self, custody: "Processes", argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        """Ends when the command and all that it started is gone; raises nothing."""
        try:
            self._exit = await custody.run(argv, cwd=cwd, env=env, timeout=_FOR_EVER, on_output=self._add)
        except asyncio.CancelledError:
            pass  # it was killed
        except Exception as error:  # noqa: BLE001  (it could not be started; the engine reads why)
            self._add("err", f"{error}\n".encode(errors="replace"))
            self._fault = str(error)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))

    def output(self) -> dict[str, Any]:
        truncated = self._total > self._limit
        data = bytes(self._data[len(self._data) - self._limit :]) if truncated else bytes(self._data)
        start = 0
        while truncated and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # inside of a character
            start += 1
        running = not self.task.done()
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data[start:], final=not running)
        return {"output": text, "truncated": truncated, "running": running, **self.exit_status()}

    def exit_status(self) -> dict[str, Any]:
        """Exit code and signal; both are None while it runs."""
        if not self.task.done():
            return {"exit_code": None, "signal": None}
        if self._fault:
            return {"exit_code": 127, "signal": None}
        code = self._exit.code if self._exit else -signal.SIGKILL
        return {"exit_code": code, "signal": None} if code >= 0 else {"exit_code": None, "signal": _name(-code)}

    def _add(self, stream: str, data: bytes) -> None:
        self._total += len(data)
        self._data += data
        if len(self._data) > 2 * self._limit + 4:  # cut seldom, so that each byte is moved at most twice
            del self._data[: len(self._data) - self._limit]


def _argv(fields: dict[str, Any], env: Mapping[str, str], cwd: str) -> list[str]:
    """The command line. A command without arguments is a line for a shell, as goose sends it."""
    command, args = text_field(fields, "command"), fields.get("args") or []
    if not isinstance(args, list | tuple) or not all(isinstance(word, str) for word in args):
        raise ServiceFault("bad_params", "args has to be a list of texts")
    if not command.strip() or any("\0" in word for word in (command, *args)):
        raise ServiceFault("bad_params", "command and args need words without NUL")
    shell = program_on(env.get("PATH", os.defpath), "bash", outside=cwd) or "/bin/sh"
    if args or (os.path.isabs(command) and os.path.isfile(command)):
        return [shell, "-c", 'exec "$0" "$@"', command, *args]  # the shell looks for it, and says if there is none
    return [shell, "-c", command]


def _variables(fields: dict[str, Any]) -> dict[str, str]:
    env = fields.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(word, str) for pair in env.items() for word in pair):
        raise ServiceFault("bad_params", "env has to be an object with texts")
    if any("\0" in word for pair in env.items() for word in pair) or any("=" in name or not name for name in env):
        raise ServiceFault("bad_params", "env has a name or a value that no variable can have")
    return env


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
