"""Starts the engine of an agent, notices when it is gone, and restarts it.

`Agent` uses it for everything that concerns the engine as a whole. A restart happens when somebody next needs an
engine, at most `restarts` times, and all who need one wait for the same restart. When the engine is gone, `on_gone` is
called once for it, so that nobody waits for its replies.

An engine that ended because it was of no more use (`Link.successor`: aionrs after a `stop`, for one) is replaced in the
same way, as often as it takes, and `on_retired` is called in the place of `on_gone`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from polylect.dialects.base import Successor
from polylect.host.errors import EngineDied, HostError, NoSuchSession, WrongState
from polylect.host.link import Link, OnEvent, OnGone
from polylect.vocab.commands import Command
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, Ready, TurnEnded

MakeLink = Callable[[str | None, Mapping[str, Any]], Link]
"""Makes a link from the session to resume and what the link before remembers."""
_MOST_FUTILE = 3
"""How many engines are replaced without any turn having ended. A stop, for one, ends a turn."""
_log = logging.getLogger(__name__)


class EngineSupervisor:
    """The engine of one agent.

    Args:
        make_link: Makes a link to a new engine, from the session that it resumes and the memory of the link before.
            The session is empty for the first engine, and None for a new session.
        on_event: Is called with every event.
        on_gone: Is called when an engine is gone.
        on_retired: Is called instead when another engine can go on for it.
        handshake: Is awaited with each engine that is ready, before it gets any other command.
        ready_within: Seconds that an engine has until it is ready.
        restarts: How often an engine may be restarted.
        can_resume: Whether `make_link` can make an engine resume a session.
    """

    def __init__(
        self,
        make_link: MakeLink,
        *,
        on_event: OnEvent,
        on_gone: OnGone,
        on_retired: OnGone,
        handshake: Callable[[Link, Ready], Awaitable[None]],
        ready_within: float,
        restarts: int,
        can_resume: bool,
    ) -> None:
        self._make_link = make_link
        self._on_event, self._on_gone, self._on_retired, self._handshake = on_event, on_gone, on_retired, handshake
        self._ready_within = ready_within
        self.restarts = restarts
        """How often it may still be started again."""
        self._link: Link | None = None
        self._gone: EngineDied | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._can_resume = can_resume
        self.retired: Successor = ""
        """If there is no engine because the last one was of no more use: how the next one goes on."""
        self.in_new_session = False
        """Whether the engine goes on in a new session, which has to be told what was said before."""
        self._futile = 0
        """Engines that were replaced since a turn ended."""
        self._closed = False
        self._resuming = False
        """Whether an engine is tried that resumes the session; if there is none, another one begins it."""
        self._early: list[Event] = []
        """What that engine has said before it was ready."""
        self.wait_for_reader: Callable[[], Awaitable[None]] | None = None
        """If set, that of every link."""

    @property
    def pid(self) -> int:
        return self._link.pid if self._link else 0

    @property
    def lost(self) -> bool:
        """There is no engine, and there will be none."""
        return self._gone is not None and not self.restarts and not self.retired and self._reviving is None

    def can(self, word: str) -> bool:
        return self._link is not None and self._link.can(word)

    def death(self) -> EngineDied:
        """Why the engine is gone."""
        never = EngineDied("the engine was never started: use `async with`")
        return self._gone or (self._link.death() if self._link else never)

    async def open(self, session: str | None = "", *, again: bool = False) -> None:
        """Starts an engine that resumes `session`, or begins a new one for None.

        With `again` it begins as the first engine did, and there is nothing left of what that one had.

        Raises EngineDied, also for an error of an engine in this process, or what `handshake` raises. Then no engine is
        left.
        """
        if self._link and self._gone is None:
            raise WrongState("this agent has an engine already: `connect` makes another one")
        self._gone = None
        self.in_new_session = session is None or again
        memory = self._link.memory(new_session=self.in_new_session) if self._link else {}
        link = self._link = self._make_link(session, memory)
        if self.wait_for_reader:
            link.wait_for_reader = self.wait_for_reader
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        try:
            await link.open(self._receive, self._engine_gone)
            await self._handshake(link, await self._readiness(link))
        except EngineDied as death:
            await link.close()
            self._gone = death
            raise
        except BaseException as error:
            await link.close()
            self._gone = link.death()
            if isinstance(error, PolylectError) and not isinstance(error, HostError):
                self._gone = EngineDied(str(error), getattr(error, "code", None))  # of an engine in this process
                raise self._gone from error
            raise

    async def current_link(self) -> Link:
        """Returns the link to the engine. Raises EngineDied if there is none."""
        if self._closed and not (self._gone and self._gone.code):  # else its last words say more
            raise EngineDied("this agent is closed: use it inside its `async with` block")
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
                if self._link is None or not (self.restarts or self.retired or self._reviving):
                    raise
        if self._reviving is None:
            self.restarts -= 0 if self.retired else 1
            self._reviving = asyncio.ensure_future(self._revive(session))
            self._reviving.add_done_callback(self._revived)
        await asyncio.shield(self._reviving)
        return await self.current_link()

    async def close(self, last: Command | None = None) -> int:
        """Sends `last`, gives the engine a few seconds to end by itself, and returns its exit code."""
        self.restarts, self.retired, self._closed = 0, "", True
        if last and self._link and self._gone is None:
            with suppress(EngineDied):
                for event in self._link.send(last):
                    self._on_event(event)
        if self._reviving is not None:
            self._reviving.cancel()
            await asyncio.wait([self._reviving])
        return await self._link.close() if self._link else 0

    async def _revive(self, session: str) -> None:
        successor, self.retired = self.retired, ""
        if not successor:
            _log.warning("%s: starting it again", self.death())
        try:
            if self._link:
                await self._link.close()
            is_new = successor == "new" or (successor == "resume" and not self._can_resume)
            self._resuming = bool(session) and not is_new
            try:
                await self.open(None if is_new else session)
            except NoSuchSession:  # claude 2.1 writes it some time after a turn has ended, and was killed before that
                if not self._resuming:
                    raise
                self._resuming = False
                await self.open(again=True)
            finally:
                self._resuming = False
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

    def abandon(self, what: str) -> None:
        """Ends the engine without waiting for it, because of `what` it did. It is gone then as if it had died."""
        if self._link:
            self._link.abandon(what)

    def _receive(self, event: Event) -> None:
        if self._resuming and not isinstance(event, Ready) and not self._ready.done():
            return self._early.append(event)
        self._deliver_early()
        if isinstance(event, Ready) and not self._ready.done():
            self._ready.set_result(event)
            if self._futile:
                return None  # the engines that replace each other are one to the host
        if isinstance(event, TurnEnded):
            self._futile = 0
        return self._on_event(event)

    def _deliver_early(self) -> None:
        early, self._early = self._early, []
        for event in early:
            self._on_event(event)

    def _engine_gone(self, death: EngineDied) -> None:
        self._gone = death
        if not self._ready.done():
            self._ready.set_exception(death)
            self._ready.exception()  # it may be that nobody waits
            if self._resuming and isinstance(death, NoSuchSession):
                return self._early.clear()
        self._deliver_early()
        successor = self._link.successor if self._link else ""
        if successor and not self._closed and self._futile < _MOST_FUTILE:
            self._futile += 1
            self.retired = successor
            self._on_retired(death)
        else:
            self._on_gone(death)
