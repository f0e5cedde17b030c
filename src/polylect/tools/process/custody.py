"""Runs commands below a guardian, so that no process outlives its call, the engine or a crash of the engine (P1).

A command can still escape by having another service start something for it (cron, a container daemon), or by killing
warden, guardian and engine at once. Only a sandbox prevents that.

Everything that starts processes for an engine uses one `Custody`: Bash, hooks, MCP servers, the worker pool.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from polylect.tools.process.guardian_client import Guardians, NotAccepted
from polylect.tools.process.guardian_protocol import pack
from polylect.tools.process.open_child import OpenChild
from polylect.tools.process.programs import find_program
from polylect.tools.process.stdin_file import stdin_file
from polylect.tools.process.supervised_process import Stream, SupervisedProcess
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

_TRIES = 4
"""Attempts to start a command. That a guardian was killed may be noticed only by the next attempt."""


class Custody:
    """The `Processes` and the `Children` of an engine. Starts nothing before the first command.

    `before` is called before any command is started. With `adopt` the orphans of guardians that were killed become
    children of this process, to be ended; so it has to be the engine's own.
    """

    def __init__(
        self, program: Sequence[str] = (), *, before: Callable[[], None] = lambda: None, adopt: bool = False
    ) -> None:
        self._guardians = Guardians(program, before, adopt=adopt)
        self.reach: Literal["", "tree", "group"] = ""
        """What is ended with a call: its whole tree, or only its process group. Known after the first call."""

    def prepare(self) -> None:
        """Start the guardian, so that it is ready sooner: a command follows at once."""
        self._guardians.start_guardian()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        on_output: Callable[[Stream, bytes], None],
        on_start: Callable[[int], None] = lambda pid: None,
        stdin: bytes = b"",
    ) -> Exit:
        program, request = _request(argv, cwd, env)
        for _ in range(_TRIES):
            process = SupervisedProcess(program, on_output, on_start, self._guardians)
            try:
                self._guardians.start_command((*process.open_pipes(), *([stdin_file(stdin)] if stdin else ())))
                await process.finish(request, timeout)
                return process.exit()
            except NotAccepted:
                continue
            except asyncio.CancelledError:
                await process.interrupt()
                raise
            finally:
                process.close()
                self.reach = process.reach or self.reach
        raise _no_guardian()

    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_error_output: Callable[[bytes], None],
        stdin: int = -1,
    ) -> OpenChild:
        """Start a process that stays. With `stdin`, a copy of that descriptor is its input, and `write` is not
        possible."""
        program, request = _request(argv, cwd, env)
        for _ in range(_TRIES):
            child = OpenChild(program, on_error_output, self._guardians, stdin)
            try:
                self._guardians.start_command(child.open_pipes())
                await child.start(request)
                self.reach = child.reach or self.reach
                return child
            except NotAccepted:
                child.kill()
            except BaseException:
                child.kill()
                raise
        raise _no_guardian()

    async def close(self) -> None:
        """End everything that still runs, in bounded time."""
        await self._guardians.close()


def _no_guardian() -> ToolError:
    return ToolError("Commands cannot be run: the process that watches over them does not stay alive.")


def _request(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> tuple[str, bytes]:
    """The program's path, and the request for its warden. Raises ToolError."""
    program = find_program(argv[0], env, cwd)
    if not program:
        missing = f"There is no program {argv[0]!r} on this machine."
        raise ToolError(f"{missing} One in the workspace counts only if its absolute path is named.")
    if not os.path.isabs(program):
        raise ToolError(f"{program} would be whatever the workspace has there; name the program's absolute path.")
    try:
        return program, pack((program, *argv[1:]), cwd, env)
    except ValueError:
        raise ToolError("A command cannot contain NUL or half a character.") from None
