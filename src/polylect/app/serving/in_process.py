"""Links the host SDK to an engine in the same process.

`connect` usually gets a child process that speaks a dialect. Here commands and events are handed over as values. Used
by `app/embed.py` for engines inside other programs, and by `polylect run`, which saves the start of a second Python.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from polylect.app.startup.start import LACKS
from polylect.dialects.base import Successor
from polylect.engine.engine import Engine
from polylect.host.errors import EngineDied
from polylect.host.supported_commands import sample_of
from polylect.vocab.commands import Command
from polylect.vocab.events import Event

EventSink = Callable[[Event], None]


async def always_writable() -> None:
    """Returns at once: the receiver of the events is never full."""


class InProcessLink:
    """A `Link` of the host SDK to an engine in this process.

    `open_engine` gets the function that receives every event, and returns a context with the engine.
    """

    def __init__(self, open_engine: Callable[[EventSink], AbstractAsyncContextManager[Engine]]) -> None:
        self._open_engine = open_engine
        self._exit: Callable[[], Awaitable[object]] = always_writable
        self._on_gone: Callable[[EngineDied], None] = lambda death: None
        self.pid = os.getpid()
        self.wait_for_reader: Callable[[], Awaitable[None]] = always_writable
        self.successor: Successor = ""
        self._what = "has ended"

    async def open(self, on_event: EventSink, on_gone: Callable[[EngineDied], None]) -> None:
        self._on_gone = on_gone
        context = self._open_engine(on_event)
        self._engine = await context.__aenter__()
        self._exit = partial(context.__aexit__, None, None, None)
        on_event(self._engine.ready())
        await asyncio.sleep(0)  # what the settings say about the conversation is applied

    def send(self, command: Command) -> list[Event]:
        self._engine.handle(command)
        return []

    def can(self, word: str) -> bool:
        """True for every command that the engine has: there is no wire that could lack it."""
        return bool(sample_of(word)) and word not in LACKS

    async def wait_if_gone(self) -> None:
        """Does nothing: the engine ends only with this process."""

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        return {}

    def abandon(self, what: str) -> None:
        self._what = what
        self._closing = asyncio.ensure_future(self.close())

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> int:
        await self._exit()
        self._on_gone(self.death())
        return 0

    def death(self, what: str = "") -> EngineDied:
        return EngineDied(f"the engine in this process {what or self._what}", 0)
