"""`polylect demo`: an engine at work on a small project, as a person would see it through a host."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from typing import Any, Literal

from polylect.app.cli.run_view import Screen
from polylect.app.cli.terminal import print_error
from polylect.host import Ask, EngineDied, connect
from polylect.vocab.events import (
    Event,
    Failed,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)

PROMPT = "The tests of this project fail. Find out why and mend it."
USAGE = """\
usage: polylect demo [--frames] [--yes]   watch an engine find and mend a bug, with no key and no network
  --frames   show what went over the wire
  --yes      allow everything it asks for"""
_ENDS = (signal.SIGHUP, signal.SIGTERM)
_PACE = "0.02"


def main(words: list[str]) -> int:
    if not set(words) <= {"--frames", "--yes"}:
        print(USAGE, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="polylect-demo-") as scratch:
        show = _Show(scratch, asks=sys.stdin.isatty() and sys.stdout.isatty() and "--yes" not in words)
        try:
            code = asyncio.run(show.run())
        except EngineDied as error:
            print_error(error, several_lines=True)
            return 1
        except KeyboardInterrupt:
            print()
            return 130
        except asyncio.CancelledError:  # a terminal that was closed cannot be written to
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 128 + show.signal
        if "--frames" in words:
            show.show_frames()
        return code


class _Show:
    def __init__(self, scratch: str, *, asks: bool) -> None:
        self._screen = Screen(sys.stdout)
        self._asks = asks
        self._wire: dict[str, bytearray] = {"in": bytearray(), "out": bytearray()}
        self._frames: list[tuple[str, str]] = []
        self._described: dict[str, str] = {}
        self._workspace = os.path.join(scratch, "sample-project")
        self._state = os.path.join(scratch, "state")
        self.signal = 0
        """The signal that ended it."""
        shutil.copytree(sample_project(), self._workspace, ignore=shutil.ignore_patterns("__pycache__"))

    async def run(self) -> int:
        """Raises CancelledError after a signal, so that the scratch folder is removed also then."""
        for number in _ENDS:
            asyncio.get_running_loop().add_signal_handler(number, self._end, asyncio.current_task(), number)
        argv = [sys.executable, "-P", "-m", "polylect", "--json-stream", "--provider", "scripted"]
        env = {**os.environ, "POLYLECT_HOME": self._state, "POLYLECT_SCRIPT_PACE": _PACE}
        env.pop("POLYLECT_SCRIPT", None)
        self._screen.title("polylect demo", f"an engine in {self._workspace}, with no key and no network")
        async with connect(argv, dialect="jsonstream", cwd=self._workspace, env=env, tap=self._overhear) as agent:
            self._screen.fact(f"engine {agent.pid} is ready, session {agent.ready.session}")
            self._screen.prompt(PROMPT)
            async for event in agent.prompt(PROMPT):
                await self._see(event)
                if isinstance(event, TurnEnded):
                    ended = event
        return 0 if ended.reason == "end" else 1

    def _end(self, task: "asyncio.Task[Any] | None", number: int) -> None:
        self.signal = number
        if task:
            task.cancel()

    async def _see(self, event: Event) -> None:
        screen = self._screen
        match event:
            case TextDelta(text):
                screen.text(text)
            case ThinkingDelta(text):
                screen.thought(text)
            case ToolCalled(call, name, _, _, description):
                self._described[call] = description or name
            case Ask() as ask:
                self._described[ask.call] = ask.title
                await self._decide(ask)
            case ToolStarted(call, name):
                screen.call(self._described.get(call) or name)
            case ToolFinished() as finished:
                screen.outcome(finished)
            case Notice(text) | Failed(failure=text):
                screen.fact(str(text))
            case TurnEnded():
                screen.end(event)

    async def _decide(self, ask: Ask) -> None:
        self._screen.ask(ask.title, ask.args)
        if not self._asks:
            self._screen.fact("nobody at the terminal: approved by itself")
            return await ask.allow()
        match await self._screen.choose():
            case "n":
                await ask.deny("not now, said the person at the terminal")
            case answer:
                await ask.allow(always=answer == "a")

    def show_frames(self) -> None:
        self._screen.title("the wire", "→ to the engine, ← from it")
        for way, line in self._frames:
            self._screen.frame("→" if way == "in" else "←", line)

    def _overhear(self, way: Literal["in", "out"], data: bytes) -> None:
        pending = self._wire[way]
        pending += data
        *lines, rest = pending.split(b"\n")
        self._frames += [(way, line.decode(errors="replace")) for line in lines]
        self._wire[way] = bytearray(rest)


def sample_project() -> str:
    """The project to work on: beside the sources in a checkout, inside the package when installed."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = (os.path.join(here, "sample-project"), os.path.join(here, "..", "..", "examples", "sample-project"))
    return next(os.path.realpath(place) for place in places if os.path.isdir(place))
