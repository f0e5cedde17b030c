"""Starts the engine of an agent, notices when it is gone, and restarts it.

`Agent` uses it for everything that concerns the engine as a whole. A restart happens when somebody next needs an
engine, at most `restarts` times, and all who need one wait for the same restart. When the engine is gone, `on_gone` is
called once for it, so that nobody waits for its replies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from polylect.host.errors import EngineDied
from polylect.host.link import Link, OnEvent, OnGone
from polylect.vocab.commands import Command
from polylect.vocab.events import Event, Ready

_log = logging.getLogger(__name__)


class EngineSupervisor:
    """The engine of one agent.

    Args:
        make_link: Makes a link to a new engine, which resumes the session of this id; empty for the first one.
        on_event: Is called with every event.
        on_gone: Is called when an engine is gone.
        handshake: Is awaited with each engine that is ready, before it gets any other command.
        ready_within: Seconds that an engine has until it is ready.
        restarts: How often an engine may be restarted.
    """

    def __init__(
        self,
        make_link: Callable[[str], Link],
        *,
        on_event: OnEvent,
        on_gone: OnGone,
        handshake: Callable[[Link, Ready], Awaitable[None]],
        ready_within: float,
        restarts: int,
    ) -> None:
        self._make_link = make_link
        """Given the session to go on with, or nothing."""
        self._on_event, self._on_gone, self._handshake = on_event, on_gone, handshake
        self._ready_within = ready_within
        self.restarts = restarts
        """How often it may still be started again."""
        self._link: Link | None = None
        self._gone: EngineDied | None = None
        self._reviving: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._link.pid if self._link else 0

    @property
    def lost(self) -> bool:
        """There is no engine, and there will be none."""
        return self._gone is not None and not self.restarts and self._reviving is None

    def can(self, word: str) -> bool:
        return self._link is not None and self._link.can(word)

    def death(self) -> EngineDied:
        """Why the engine is gone."""
        never = EngineDied("the engine was never started: use `async with`")
        return self._gone or (self._link.death() if self._link else never)

    async def open(self, session: str = "") -> None:
        """Starts an engine that resumes `session`.

        Raises EngineDied or what `handshake` raises, and leaves no engine then.
        """
        if self._link and self._gone is None:
            raise RuntimeError("this agent has an engine already: `connect` makes another one")
        self._gone = None
        link = self._link = self._make_link(session)
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        try:
            await link.open(self._receive, self._engine_gone)
            await self._handshake(link, await self._readiness(link))
        except EngineDied as death:
            await link.close()
            self._gone = death
            raise
        except BaseException:
            await link.close()
            self._gone = link.death()
            raise

    async def current_link(self) -> Link:
        """Returns the link to the engine. Raises EngineDied if there is none."""
        if self._link is not None:
            await self._link.wait_if_gone()
        if self._link is None or self._gone is not None:
            raise self.death()
        return self._link

    async def ensure_link(self, session: str) -> Link:
        """Returns the link to the engine; if it is gone, to a new one that resumes `session`. Raises EngineDied."""
        if self._reviving is None:
            try:
                return await self.current_link()
            except EngineDied:
                if self._link is None or not (self.restarts or self._reviving):
                    raise
        if self._reviving is None:
            self.restarts -= 1
            self._reviving = asyncio.ensure_future(self._revive(session))
            self._reviving.add_done_callback(self._revived)
        await asyncio.shield(self._reviving)
        return await self.current_link()

    async def close(self, last: Command | None = None) -> int:
        """Sends `last`, gives the engine a few seconds to end by itself, and returns its exit code."""
        self.restarts = 0
        if last and self._link and self._gone is None:
            with suppress(EngineDied):
                for event in self._link.send(last):
                    self._on_event(event)
        if self._reviving is not None:
            self._reviving.cancel()
            await asyncio.wait([self._reviving])
        return await self._link.close() if self._link else 0

    async def _revive(self, session: str) -> None:
        _log.warning("%s: starting it again", self.death())
        try:
            if self._link:
                await self._link.close()
            await self.open(session)
        except asyncio.CancelledError:
            raise self.death() from None  # those who wait for it were not cancelled

    def _revived(self, task: "asyncio.Task[None]") -> None:
        self._reviving = None
        if not task.cancelled():
            task.exception()  # not everyone who asked still waits

    async def _readiness(self, link: Link) -> Ready:
        try:
            async with asyncio.timeout(self._ready_within):
                return await self._ready
        except TimeoutError:
            await link.close()
            raise link.death(f"was not ready within {self._ready_within:g} s and was ended") from None

    def _receive(self, event: Event) -> None:
        if isinstance(event, Ready) and not self._ready.done():
            self._ready.set_result(event)
        self._on_event(event)

    def _engine_gone(self, death: EngineDied) -> None:
        self._gone = death
        if not self._ready.done():
            self._ready.set_exception(death)
            self._ready.exception()  # it may be that nobody waits
        self._on_gone(death)
