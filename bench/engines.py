"""An engine to measure: how it is started, and one of them at work."""

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from bench.talks import TALKS, Talk

PATIENCE = 30.0
"""An engine that is silent for this many seconds has failed."""
_LIFE = 90.0
"""So has one that has not done what it was asked in so many."""
_READ = 1 << 18


class EngineFailed(Exception):
    """An engine ended, fell silent or did something else than it was asked; the text says what."""


class Place(NamedTuple):
    """Where an engine runs, and which model it asks, by which it chooses what the server answers."""

    base_url: str
    model: str
    home: Path
    workspace: Path

    def fill(self, text: str) -> str:
        for name, value in self._asdict().items():
            text = text.replace("{" + name + "}", str(value))
        return text


class Candidate(NamedTuple):
    """An engine to measure. {base_url}, {model}, {home} and {workspace} are filled in wherever they stand."""

    name: str
    talk: type[Talk]
    command: str
    """One conversation on stdin and stdout."""
    once: str = ""
    """One prompt, and out."""
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """What its home has to hold."""
    ruled: str = ""
    """What is added to the command for rules of approval."""
    ours: bool = False
    version: str = ""

    def argv(self, place: Place, *, ruled: bool = False) -> list[str]:
        return [place.fill(word) for word in shlex.split(f"{self.command} {self.ruled}" if ruled else self.command)]

    def once_argv(self, place: Place) -> list[str]:
        return [place.fill(word) for word in shlex.split(self.once)]

    def environment(self, place: Place) -> dict[str, str]:
        """Nothing of ours, so that no setting of this machine has a say."""
        shared = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TMPDIR": str(place.home)}
        keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "bench")
        return {**shared, "HOME": str(place.home), **keys, **{name: place.fill(self.env[name]) for name in self.env}}

    def furnish(self, place: Place) -> None:
        place.home.mkdir(exist_ok=True)
        for name, text in self.files.items():
            path = place.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(place.fill(text))


def given(words: str) -> Candidate:
    """NAME=COMMAND, or NAME:TALK=COMMAND. Raises ValueError."""
    who, told, command = words.partition("=")
    name, _, talk = who.partition(":")
    if not told or not name or not command.strip():
        raise ValueError(f"{words!r}: give a peer as NAME=COMMAND or NAME:TALK=COMMAND")
    if (talk or "json-stream") not in TALKS:
        raise ValueError(f"{talk!r} is no talk of the bench; it knows {', '.join(TALKS)}")
    return Candidate(name, TALKS[talk or "json-stream"], command)


class Running:
    """One engine at work. All its input goes through `say`, all its output through `lines` or `pieces`."""

    def __init__(self, candidate: Candidate, place: Place, *, ruled: bool = False) -> None:
        candidate.furnish(place)
        self.name, self.talk = candidate.name, candidate.talk()
        self.talk.workspace = str(place.workspace)
        self._rest = b""
        self._prompts = 0
        argv, env = candidate.argv(place, ruled=ruled), candidate.environment(place)
        self.spawned = time.monotonic_ns()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=place.workspace,
            env=env,
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.say(self.talk.opening)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # its own group: whatever it started goes with it
        self._process.communicate()

    def say(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._stdin, data) :]

    def prompt(self, text: str = "Hello") -> int:
        """Returns when it was said, in nanoseconds of the clock that all processes share."""
        self._prompts += 1
        data = self.talk.prompt(text, self._prompts)
        at = time.monotonic_ns()
        self.say(data)
        return at

    def pieces(self) -> Iterator[bytes]:
        """What comes out, as it comes."""
        until = time.monotonic() + _LIFE
        while True:
            if not select.select([self._stdout], [], [], PATIENCE)[0]:
                raise EngineFailed(f"silent for {PATIENCE:g} s")
            if not (data := os.read(self._stdout, _READ)):
                raise EngineFailed(f"ended by itself (exit code {self._process.wait()})")
            if time.monotonic() > until:
                raise EngineFailed(f"not done after {_LIFE:g} s")
            yield data

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with the time at which it was here."""
        for piece in self.pieces():
            now = time.monotonic_ns()
            *ended, self._rest = (self._rest + piece).split(b"\n")
            for line in ended:
                self.say(self.talk.hear(line))
                yield now, line

    def wait_for(self, mark: bytes) -> int:
        """When a line with this in it was here."""
        return next(at for at, line in self.lines() if mark in line)

    def wait_ready(self) -> int:
        return self.wait_for(self.talk.ready)

    def wait_end(self) -> int:
        return self.wait_for(self.talk.end)
