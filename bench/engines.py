"""Engines that can be measured: how each is started, and how one talks to it.

A dialect is one small class. To add one, write the class and name it in DIALECTS.
"""

import json
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, Self

PATIENCE = 60.0
"""An engine that is silent for this many seconds has failed."""
_READ = 1 << 18


class EngineFailed(Exception):
    """An engine ended or fell silent; the text says which and what it was asked."""


class Dialect(Protocol):
    hello: bytes
    """What a host has to say before anything else."""
    ping: bytes
    """A request that the engine answers by itself."""
    text: bytes
    """What is in every line that carries text of the model, and in no other."""

    def is_ready(self, line: bytes) -> bool: ...
    def is_pong(self, line: bytes) -> bool: ...
    def is_end(self, line: bytes) -> bool: ...
    def prompt(self, text: str, number: int) -> bytes: ...


class JsonStream:
    """The wire of wayland-core (0.2.0), and with `input` for `content` that of aionrs (0.1.0)."""

    hello = b""
    ping = b'{"type":"ping"}\n'
    text = b'{"type":"text_delta"'

    def __init__(self, text_key: str = "content") -> None:
        self._text_key = text_key

    def is_ready(self, line: bytes) -> bool:
        return line.startswith(b'{"type":"ready"')

    def is_pong(self, line: bytes) -> bool:
        return line.startswith(b'{"type":"pong"')

    def is_end(self, line: bytes) -> bool:
        return line.startswith(b'{"type":"stream_end"')

    def prompt(self, text: str, number: int) -> bytes:
        return json.dumps({"type": "message", "msg_id": f"bench-{number}", self._text_key: text}).encode() + b"\n"


DIALECTS: dict[str, Dialect] = {"json-stream": JsonStream(), "json-stream-0.1": JsonStream("input")}


class Candidate(NamedTuple):
    """An engine to measure. Its command line may hold {base_url} and {model}, which chooses what the server does."""

    name: str
    command: str
    dialect: Dialect

    def argv(self, *, base_url: str, model: str) -> list[str]:
        return [word.replace("{base_url}", base_url).replace("{model}", model) for word in shlex.split(self.command)]


def polylect() -> Candidate:
    program = shlex.quote(str(Path(sys.executable).with_name("polylect")))
    flags = "--json-stream --provider anthropic --base-url {base_url} --model {model}"
    return Candidate("polylect", f"{program} {flags}", DIALECTS["json-stream"])


def peer(words: str) -> Candidate:
    """NAME=COMMAND, or NAME:DIALECT=COMMAND. Raises ValueError."""
    who, given, command = words.partition("=")
    name, _, dialect = who.partition(":")
    if not given or not name or not command.strip():
        raise ValueError(f"{words!r}: give a peer as NAME=COMMAND or NAME:DIALECT=COMMAND")
    if (dialect or "json-stream") not in DIALECTS:
        raise ValueError(f"{dialect!r} is no dialect of the bench; it knows {', '.join(DIALECTS)}")
    return Candidate(name, command, DIALECTS[dialect or "json-stream"])


class Running:
    """One engine at work. All its input goes through `say`, all its output through `lines` or `pieces`."""

    def __init__(self, candidate: Candidate, argv: list[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.name, self.dialect = candidate.name, candidate.dialect
        self._rest = b""
        self._prompts = 0
        self.spawned = time.monotonic_ns()
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=dict(env)
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.say(self.dialect.hello)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._stdin, data) :]

    def prompt(self, text: str = "Hello") -> int:
        """Returns when it was said, in nanoseconds of the clock that all processes share."""
        self._prompts += 1
        data = self.dialect.prompt(text, self._prompts)
        at = time.monotonic_ns()
        self.say(data)
        return at

    def pieces(self) -> Iterator[bytes]:
        """What comes out, as it comes."""
        while True:
            if not select.select([self._stdout], [], [], PATIENCE)[0]:
                raise EngineFailed(f"{self.name} has been silent for {PATIENCE:g} s")
            if not (data := os.read(self._stdout, _READ)):
                raise EngineFailed(f"{self.name} ended by itself (exit code {self._process.wait()})")
            yield data

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with the time at which it was here."""
        for piece in self.pieces():
            now = time.monotonic_ns()
            *ended, self._rest = (self._rest + piece).split(b"\n")
            for line in ended:
                yield now, line

    def wait_ready(self) -> int:
        return next(at for at, line in self.lines() if self.dialect.is_ready(line))

    def wait_end(self) -> int:
        return next(at for at, line in self.lines() if self.dialect.is_end(line))
