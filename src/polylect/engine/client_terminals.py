"""Terminals of the host: `HostCall`s behind the port `Processes`, for Bash.

    create_terminal, wait_for_terminal_exit, terminal_output now and then and at the end, release_terminal

The command runs in the host's program, outside of our sandbox and custody; that is why this is off by default where
there is a sandbox. Every wait has an end: a command that takes too long is killed, and a host that does not answer in
time (the setting `client_timeout`) is given up. Every terminal is released, also if the call is cancelled while the
host creates it; nobody waits for that longer than RELEASE seconds.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from polylect.engine.host_calls import HostFault
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

if TYPE_CHECKING:
    from polylect.engine.agent import Agent

LIMIT = 1024 * 1024
"""Bytes of the output that the host is to keep, and characters that are taken from it."""
RELEASE = 2.0
FIRST_POLL, SLOWEST_POLL = 0.25, 2.0
"""Seconds between two questions for the output. Each answer has all of it, so they become fewer."""
_LONGEST_ID = 1000
_OVERLAP = 4096
"""Characters by which output is found again whose beginning the host has dropped."""

OnOutput = Callable[[Literal["out", "err"], bytes], None]


def client_terminals(agent: "Agent", turn: str = "") -> "ClientTerminals | None":
    """The terminals of the agent's host; None if it offers none, or they are not to be used."""
    if not agent.client.terminal or agent.settings.client_terminal == "off" or agent.host_calls.gone:
        return None
    return ClientTerminals(agent, turn)


class ClientTerminals:
    """Runs the commands of one call. What the host does not say, or says too late, is a note in the error output."""

    def __init__(self, agent: "Agent", turn: str) -> None:
        self._agent = agent
        self._timeout = agent.settings.client_timeout
        self._emit = agent.emitter(turn)
        self._emit_later = agent.emitter("")
        """For what may be said after the end of the turn."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        on_output: OnOutput,
        on_start: Callable[[int], None] = lambda pid: None,
        stdin: bytes = b"",
    ) -> Exit:
        """As `Processes.run`. The command has the environment of the host; `stdin` and `on_start` are not used.

        Args:
            argv: A shell, `-c` and a command line, which gets an empty standard input: the terminal may be a real one,
                where a command that reads would wait for a person.
        """
        shell, flag, line = argv
        params = {"command": shell, "args": [flag, f"exec </dev/null\n{line}"], "cwd": cwd, "limit": LIMIT}
        terminal = await self._create(params)
        output = _Output(on_output)
        try:
            end = await self._wait(terminal, timeout, output)
            if end is None:
                with suppress(HostFault):
                    await self._call("kill_terminal", terminal)
                    output.end(*await self._read(terminal))
                return Exit(-signal.SIGKILL, timed_out=True)
            output.end(*await self._read(terminal))
            return _exit(end, on_output)
        except HostFault as fault:
            raise ToolError(f"The command was started in a terminal of the host, but then: {fault}") from None
        finally:
            await self._release(terminal)

    async def close(self) -> None:
        pass

    async def _create(self, params: dict[str, Any]) -> str:
        """A new terminal. If this is cancelled, the terminal is released as soon as the host has made it."""
        call = self._agent.host_calls.call("create_terminal", params, self._emit_later, timeout=self._timeout)
        creating = self._agent.client.tasks.start(call)
        try:
            terminal = _id(await asyncio.shield(creating))
        except asyncio.CancelledError:
            creating.add_done_callback(self._release_late)
            raise
        except HostFault as fault:
            raise ToolError(f"The host did not run the command: {fault}") from None
        if not terminal:
            raise ToolError("The host did not run the command: its answer names no terminal")
        return terminal

    async def _wait(self, terminal: str, timeout: float, output: "_Output") -> dict[str, Any] | None:
        """How the command ended; None if it takes too long. Raises HostFault."""
        waiting = asyncio.create_task(self._call("wait_for_terminal_exit", terminal, timeout))
        pause = FIRST_POLL
        try:
            while not (await asyncio.wait((waiting,), timeout=pause))[0]:
                try:
                    output.show(*await self._read(terminal))
                    pause = min(pause * 1.5, SLOWEST_POLL)
                except HostFault:
                    pause = timeout  # it is asked once more, at the end
            result = waiting.result()
        except HostFault as fault:
            if fault.code != "timeout":
                raise
            return None
        finally:
            waiting.cancel()
        return result if isinstance(result, dict) else {}

    async def _read(self, terminal: str) -> tuple[str, bool]:
        """What was printed, and whether the beginning is missing. Raises HostFault."""
        result = await self._call("terminal_output", terminal)
        text = result.get("output") if isinstance(result, dict) else None
        if not isinstance(text, str):
            raise HostFault("what the host says of its output is no text")
        return text[-LIMIT:], len(text) > LIMIT or result.get("truncated") is True

    async def _call(self, method: str, terminal: str, timeout: float = 0.0) -> Any:
        calls = self._agent.host_calls
        return await calls.call(method, {"terminal": terminal}, self._emit, timeout=timeout or self._timeout)

    async def _release(self, terminal: str) -> None:
        task = self._agent.client.tasks.start(self._send_release(terminal))
        await asyncio.wait((task,), timeout=RELEASE)

    async def _send_release(self, terminal: str) -> None:
        calls = self._agent.host_calls
        with suppress(HostFault):
            await calls.call("release_terminal", {"terminal": terminal}, self._emit_later, timeout=self._timeout)

    def _release_late(self, creating: "asyncio.Task[Any]") -> None:
        if not creating.cancelled() and not creating.exception() and (terminal := _id(creating.result())):
            self._agent.client.tasks.start(self._send_release(terminal))


class _Output:
    """Makes a stream of texts that each are all of the output, or its end."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output
        self._shown = ""

    def show(self, text: str, truncated: bool) -> None:
        """Pass on what is new. A text that is not longer than the one before is a screen that was redrawn."""
        if not truncated and text.startswith(self._shown):
            self._pass(text[len(self._shown) :])
            self._shown = text

    def end(self, text: str, truncated: bool) -> None:
        """Pass on what is new in the last text."""
        overlap = self._shown[-_OVERLAP:]
        if text.startswith(self._shown):
            self._pass(text[len(self._shown) :])
        elif truncated and (at := text.find(overlap)) >= 0:
            self._pass(text[at + len(overlap) :])
            return
        else:
            self._pass(f"\n(In the end the terminal shows:)\n{text}")
        if truncated:
            self._on_output("err", b"(The host has kept only the end of the output.)\n")

    def _pass(self, text: str) -> None:
        if text:
            self._on_output("out", text.encode(errors="replace"))


def _exit(end: dict[str, Any], on_output: OnOutput) -> Exit:
    match end:
        case {"exit_code": int() as code}:
            return Exit(code)
        case {"signal": str() as name} if name in signal.Signals.__members__:
            return Exit(-signal.Signals[name])
    on_output("err", b"(The host does not say how the command ended.)\n")
    return Exit(1)


def _id(result: Any) -> str:
    """The id of a new terminal; empty if the host's answer has none that can be used."""
    terminal = result.get("terminal") if isinstance(result, dict) else None
    return terminal if isinstance(terminal, str) and len(terminal) <= _LONGEST_ID else ""
