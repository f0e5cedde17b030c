"""A link of the host SDK to an engine in this process, whoever puts it together."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from polylect import __version__
from polylect.engine.engine import Engine
from polylect.host.errors import EngineDied
from polylect.host.supported_commands import sample_of
from polylect.vocab.commands import Command
from polylect.vocab.events import Event, Ready

Say = Callable[[Event], None]


async def plenty() -> None:
    """There is always room for more."""


class Inside:
    """`make` is entered with the function that is to hear every event, and gives the engine."""

    def __init__(self, make: Callable[[Say], AbstractAsyncContextManager[Engine]]) -> None:
        self._make = make
        self._leave: Callable[[], Awaitable[object]] = plenty
        self._gone: Callable[[EngineDied], None] = lambda death: None
        self.pid = os.getpid()

    async def open(self, on_event: Say, on_gone: Callable[[EngineDied], None]) -> None:
        self._gone = on_gone
        context = self._make(on_event)
        self._engine = await context.__aenter__()
        self._leave = partial(context.__aexit__, None, None, None)
        settings = self._engine.settings
        session = self._engine.agent.session.id
        on_event(Ready(__version__, settings.model, settings.mode, self._engine.agent.abilities(), session=session))

    def send(self, command: Command) -> list[Event]:
        self._engine.handle(command)
        return []

    def can(self, word: str) -> bool:
        """There is no wire that could lack a word."""
        return bool(sample_of(word))

    async def wait_if_gone(self) -> None:
        """It goes when we go."""

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> int:
        await self._leave()
        self._gone(self.death())
        return 0

    def death(self, what: str = "has ended") -> EngineDied:
        return EngineDied(f"the engine in this process {what}", 0)
