"""A conversation with an engine, whatever its dialect: prompts out, events in.

async with Client(argv, dialect, cwd=".") as agent:
    async for event in agent.prompt("Tidy the imports"):
        match event:
            case TextDelta(text=text): print(text, end="")
            case Ask() as ask: await agent.answer(ask, "allow")
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec

from polylect.dialects.base import Dialect, Env, HostSide
from polylect.host.process import EngineProcess
from polylect.vocab.commands import Answer, Cancel, Command, Prompt
from polylect.vocab.content import Rule
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Ask, Event, Ready, Reply, TurnEnded

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees the bytes of the wire: `in` to the engine, `out` from it."""


_LAST_EVENTS = 1.0
"""How long what an ended engine has said may take to be read: something it started may keep its stdout open."""


class EngineDied(PolylectError):
    """The engine could not be started, was never ready, or is gone; the text has its exit code and its last words."""


class Client:
    """Starts an engine on entering, ends it on leaving. One prompt's events at a time."""

    def __init__(
        self,
        argv: Sequence[str],
        dialect: Dialect,
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        ready_within: float = 30.0,
        tap: Tap = lambda way, data: None,
        **options: Any,
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._environment = os.environ if env is None else env
        self._ready_within = ready_within
        self._tap = tap
        self._codec: HostSide = dialect.host_side(Env(lambda: time.time_ns() // 1_000_000, _new_id), **options)
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._ready: asyncio.Future[Ready] | None = None
        self.ready = Ready()

    async def __aenter__(self) -> Self:
        self._ready = asyncio.get_running_loop().create_future()
        try:
            self._process = await EngineProcess.start(self._argv, cwd=self._cwd, env=self._environment)
        except OSError as error:
            raise EngineDied(f"the engine cannot be started: {error.strerror}: {error.filename}") from None
        self._take(self._codec.start())
        self._reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(self._ready_within):
                self.ready = await self._ready
        except TimeoutError:
            await self.close()
            raise self._death(f"was not ready within {self._ready_within:g} s and was ended") from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def close(self) -> int:
        """Bounded: the engine has a few seconds to end by itself. Returns its exit code."""
        code = await self._process.close()
        await asyncio.wait([self._reading], timeout=_LAST_EVENTS)
        self._reading.cancel()
        return code

    async def prompt(self, text: str, **details: Any) -> AsyncGenerator[Event, None]:
        """The events of one turn, to its TurnEnded. Leaving the loop early leaves the turn running."""
        turn = _new_id()
        await self.send(Prompt(turn, text, **details))
        while (event := await self._events.get()) is not None:
            yield event
            if isinstance(event, TurnEnded) and event.turn == turn:
                return
        raise self._death()

    async def answer(
        self,
        ask: Ask,
        verdict: Literal["allow", "deny"],
        *,
        reason: str = "",
        always: Rule | None = None,
        value: Any = None,
    ) -> None:
        await self.send(Answer(ask.ask, verdict, reason=reason, always=always, value=value))

    async def cancel(self) -> None:
        await self.send(Cancel())

    async def send(self, command: Command) -> Reply:
        """Say it and wait for the engine's answer: accepted, or why not."""
        if self._reading.done():
            raise self._death()
        command = msgspec.structs.replace(command, ref=command.ref or _new_id())
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[command.ref] = answer
        self._take(self._codec.send(command))
        self._flush()
        await self._process.drain()
        return await answer

    async def _read(self) -> None:
        try:
            while data := await self._process.read():
                self._tap("out", data)
                self._take(self._codec.receive(data))
                self._flush()
            self._take(self._codec.receive_eof())
            await self._process.last_breath()
        finally:
            self._give_up()

    def _give_up(self) -> None:
        """Nobody waits for an engine that is gone."""
        death = self._death()
        for waiting in (self._ready, *self._replies.values()):
            if waiting and not waiting.done():
                waiting.set_exception(death)
        self._events.put_nowait(None)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Reply(ref) if ref in self._replies:
                    self._replies.pop(ref).set_result(event)
                case Ready() if self._ready and not self._ready.done():
                    self._ready.set_result(event)
                case _:
                    self._events.put_nowait(event)

    def _flush(self) -> None:
        if data := self._codec.data_to_send():
            self._tap("in", data)
            self._process.write(data)

    def _death(self, what: str = "has ended") -> EngineDied:
        code, words = self._process.code, self._process.last_words
        exit_code = f" with exit code {code}" if code is not None else ""
        told = f"; it said: {words}" if words else ""
        return EngineDied(f"the engine {self._argv[0]} {what}{exit_code}{told}")


def _new_id() -> str:
    return os.urandom(8).hex()
