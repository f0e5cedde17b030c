"""`polylect demo`: shows an engine at work on a small project, as a person would see it through a host.

The engine is a child process that plays a script, so the demo needs no key and no network. The project is a copy in a
temporary folder, which is removed at the end. `demo_screen.py` does the drawing.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from typing import Any, Literal

from polylect.app.cli.demo_screen import Screen
from polylect.app.cli.terminal import print_error, print_usage_error
from polylect.host import Ask, EngineDied, connect
from polylect.vocab import events as e

PROMPT = "The tests of this project fail. Find out why and repair it."
USAGE = """\
usage: polylect demo [--frames] [--yes]   watch an engine find and repair a bug, with no key and no network
  --frames   show what went over the wire
  --yes      allow everything it asks for"""
_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_SECONDS_PER_CHUNK = "0.02"


def main(words: list[str]) -> int:
    if not set(words) <= {"--frames", "--yes"}:
        return print_usage_error(words, ("--frames", "--yes"), USAGE, "polylect demo")
    with tempfile.TemporaryDirectory(prefix="polylect-demo-") as scratch:
        demo = _Demo(scratch, interactive=sys.stdin.isatty() and sys.stdout.isatty() and "--yes" not in words)
        try:
            code = asyncio.run(demo.run())
        except EngineDied as error:
            print_error(error, several_lines=True)
            return 1
        except KeyboardInterrupt:
            print()
            return 130
        except asyncio.CancelledError:  # a terminal that was closed cannot be written to
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 128 + demo.signal
        if "--frames" in words:
            demo.show_frames()
        return code


class _Demo:
    """One run of the demo on a copy of the sample project in `scratch`."""

    def __init__(self, scratch: str, *, interactive: bool) -> None:
        self._screen = Screen(sys.stdout)
        self._interactive = interactive
        self._partial_lines: dict[str, bytearray] = {"in": bytearray(), "out": bytearray()}
        self._frames: list[tuple[str, str]] = []
        self._descriptions: dict[str, str] = {}
        self._workspace = os.path.join(scratch, "sample-project")
        self._state = os.path.join(scratch, "state")
        self.signal = 0
        """The signal that ended the demo, or 0."""
        shutil.copytree(sample_project(), self._workspace, ignore=shutil.ignore_patterns("__pycache__"))

    async def run(self) -> int:
        """Returns the exit code. Raises CancelledError after a signal, so that the folder is removed then too."""
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, asyncio.current_task(), number)
        argv = [sys.executable, "-P", "-m", "polylect", "--json-stream", "--provider", "scripted"]
        env = {**os.environ, "POLYLECT_HOME": self._state, "POLYLECT_SCRIPT_PACE": _SECONDS_PER_CHUNK}
        env.pop("POLYLECT_SCRIPT", None)
        self._screen.title("polylect demo", f"an engine in {self._workspace}, with no key and no network")
        async with connect(argv, dialect="jsonstream", cwd=self._workspace, env=env, tap=self._record) as agent:
            self._screen.fact(f"engine {agent.pid} is ready, session {agent.ready.session}")
            self._screen.prompt(PROMPT)
            async for event in agent.prompt(PROMPT):
                await self._show(event)
                if isinstance(event, e.TurnEnded):
                    ended = event
        return 0 if ended.reason == "end" else 1

    def _on_signal(self, task: "asyncio.Task[Any] | None", number: int) -> None:
        self.signal = number
        if task:
            task.cancel()

    async def _show(self, event: e.Event) -> None:
        screen = self._screen
        match event:
            case e.TextDelta(text):
                screen.text(text)
            case e.ThinkingDelta(text):
                screen.thought(text)
            case e.ToolCalled(call, name, _, _, description):
                self._descriptions[call] = description or name
            case Ask() as ask:
                self._descriptions[ask.call] = ask.title
                await self._decide(ask)
            case e.ToolStarted(call, name):
                screen.call(self._descriptions.get(call) or name)
            case e.ToolFinished() as finished:
                screen.outcome(finished)
            case e.Notice(text) | e.Failed(failure=text):
                screen.fact(str(text))
            case e.TurnEnded():
                screen.end(event)

    async def _decide(self, ask: Ask) -> None:
        self._screen.ask(ask.title, ask.args)
        if not self._interactive:
            self._screen.fact("nobody at the terminal: approved by itself")
            return await ask.allow()
        match await self._screen.choose():
            case "n":
                await ask.deny("you said no")
            case answer:
                await ask.allow(always=answer == "a")

    def show_frames(self) -> None:
        self._screen.title("the wire", "→ to the engine, ← from it")
        for way, line in self._frames:
            self._screen.frame("→" if way == "in" else "←", line)

    def _record(self, way: Literal["in", "out"], data: bytes) -> None:
        pending = self._partial_lines[way]
        pending += data
        *lines, rest = pending.split(b"\n")
        self._frames += [(way, line.decode(errors="replace")) for line in lines]
        self._partial_lines[way] = bytearray(rest)


def sample_project() -> str:
    """The project to work on: beside the sources in a checkout, inside the package when installed."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = (os.path.join(here, "sample-project"), os.path.join(here, "..", "..", "examples", "sample-project"))
    return next(os.path.realpath(place) for place in places if os.path.isdir(place))
