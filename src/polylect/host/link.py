"""Ways to an engine: a child process that speaks a dialect, or an engine in this process that speaks none."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from polylect.dialects.base import Dialect, Env, HostSide
from polylect.host.errors import EngineDied
from polylect.host.process import EngineProcess, Spawn, spawn
from polylect.host.supported_commands import can_say
from polylect.vocab.commands import Command
from polylect.vocab.events import Event

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees the bytes of the wire: `in` to the engine, `out` from it."""
Hear = Callable[[Event], None]
Gone = Callable[[EngineDied], None]

_LAST_EVENTS = 1.0
"""How long what an ended engine has said may take to be read: something it started may keep its stdout open."""
_log = logging.getLogger(__name__)


class Link(Protocol):
    """What an `Agent` needs of a connection."""

    @property
    def pid(self) -> int:
        """The engine's process; our own if it is in ours."""
        ...

    async def open(self, hear: Hear, gone: Gone) -> None:
        """From here on `hear` is told every event, and `gone`, once, that there will be no more."""
        ...

    def send(self, command: Command) -> list[Event]:
        """Say it. What follows from that at this end alone comes back: a refusal above all."""
        ...

    def can(self, word: str) -> bool:
        """Whether the wire has this word; see `words.py`."""
        ...

    async def look(self) -> None:
        """If the engine is gone, return only once everybody has been told."""
        ...

    async def drain(self) -> None: ...

    async def close(self) -> int:
        """Bounded. Returns the exit code."""
        ...

    def death(self, what: str = "has ended") -> EngineDied:
        """Why it is gone, with its last words."""
        ...


def environment() -> Env:
    return Env(lambda: time.time_ns() // 1_000_000, new_id)


def new_id() -> str:
    return os.urandom(8).hex()


class ProcessLink:
    """An engine as a child process."""

    def __init__(
        self,
        argv: Sequence[str],
        dialect: Dialect,
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        tap: Tap = lambda way, data: None,
        name: str = "",
        install: str = "",
        spawn: Spawn = spawn,
        **options: Any,
    ) -> None:
        self._argv = argv
        self._name = name or argv[0]
        self._install = install
        """How it could be had, if it is not there."""
        self._cwd = cwd
        self._env = os.environ if env is None else env
        self._tap = tap
        self._spawn = spawn
        self._make: Callable[[], HostSide] = lambda: dialect.host_side(environment(), **options)
        self._codec: HostSide = self._make()
        self._weak = dialect.weak
        self._process: EngineProcess | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def open(self, hear: Hear, gone: Gone) -> None:
        try:
            child = self._spawn(self._argv, self._cwd, self._env)
        except OSError as error:
            hint = f"; to install it: {self._install}" if self._install and error.filename == self._argv[0] else ""
            raise EngineDied(f"{self._name} cannot be started: {error.strerror}: {error.filename}{hint}") from None
        self._process = await EngineProcess.around(child)
        self._codec = self._make()
        for event in self._codec.start():
            hear(event)
        self._flush()
        self._reading = asyncio.create_task(self._read(self._process, hear, gone))

    def send(self, command: Command) -> list[Event]:
        if self._process is None or self._reading.done():
            raise self.death()
        events = self._codec.send(command)
        self._flush()
        return events

    def can(self, word: str) -> bool:
        return word not in self._weak and can_say(self._make, word)

    async def look(self) -> None:
        if self._process and self._process.gone:
            await asyncio.wait([self._reading])

    async def drain(self) -> None:
        if self._process:
            await self._process.drain()

    async def close(self) -> int:
        if self._process is None:
            return 0
        code = await self._process.close()
        await asyncio.wait([self._reading], timeout=_LAST_EVENTS)
        self._reading.cancel()
        return code

    async def _read(self, process: EngineProcess, hear: Hear, gone: Gone) -> None:
        try:
            while data := await process.read():
                self._tap("out", data)
                self._hear(self._codec.receive(data), hear)
                self._flush()
            await process.last_breath()  # so that whoever hears of the end can also hear why
            self._hear(self._codec.receive_eof(), hear)
        except Exception:
            _log.exception("reading from the engine failed")
            raise
        finally:
            gone(self.death())

    def _hear(self, events: list[Event], hear: Hear) -> None:
        for event in events:
            hear(event)
        for line in self._codec.to_log():
            _log.warning("%s: %s", self._name, line)

    def _flush(self) -> None:
        if (data := self._codec.data_to_send()) and self._process:
            self._tap("in", data)
            self._process.write(data)

    def death(self, what: str = "has ended") -> EngineDied:
        process = self._process
        code, words = (process.code, process.last_words) if process else (None, "")
        exit_code = f" with exit code {code}" if code is not None else ""
        told = f"; it said: {words}" if words else ""
        return EngineDied(f"the engine {self._name} {what}{exit_code}{told}", code, words)
