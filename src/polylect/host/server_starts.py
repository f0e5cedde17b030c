"""Adds an MCP server to an engine and waits until it is up: what `Agent.add_server` does.

Engines answer "added" long before a server is up. json-stream then reports each server by an event (`mcp_ready`,
`mcp_failed`); Claude's wire has no such event between turns, but can be asked (`mcp_status`). So both are used: the
event where it comes, and the question, asked again and again, where the wire has a word for it.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from polylect.host.errors import EngineDied, Refused, ServerFailed
from polylect.host.supported_commands import check
from polylect.vocab.answers import ServerCard
from polylect.vocab.commands import AddServer, ChangeServer, Query
from polylect.vocab.content import Server
from polylect.vocab.events import ServerChanged

if TYPE_CHECKING:
    from polylect.host.supervision.conversation import Conversation

BOUND = 60.0
"""Seconds that a server has by default. An engine itself gives up earlier and says why."""
_POLL = 0.1
_REMOVAL = 5.0
"""Seconds in which an engine has to say that a server is removed."""


class ServerStarts:
    """The servers of one agent whose start somebody waits for."""

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation
        self._waiting: dict[str, asyncio.Future[str]] = {}
        """By server name: the reason of the failure, empty when the server is up."""

    async def add(self, server: Server, within: float) -> None:
        """Raises ServerFailed, and what `Agent.send` raises."""
        command = check(AddServer(server))
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[server.name] = outcome
        polling: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(within):
                await self._conversation.send(command)
                if self._conversation.can("query:servers"):
                    polling = asyncio.create_task(self._poll(server.name, outcome))
                reason = await outcome
        except TimeoutError:
            reason = f"it was not up within {within:g} s"
            await self._remove(server.name)
        finally:
            if self._waiting.get(server.name) is outcome:
                del self._waiting[server.name]
            if polling:
                polling.cancel()
        if reason:
            raise ServerFailed(f"MCP server {server.name}: {reason}")

    async def _remove(self, name: str) -> None:
        """An engine lets the next prompt wait for its servers; nobody waits for this one any more."""
        if self._conversation.can("remove_server"):
            with suppress(TimeoutError, Refused):
                async with asyncio.timeout(_REMOVAL):
                    await self._conversation.send(ChangeServer(name, "remove"))

    def receive(self, event: ServerChanged) -> None:
        """The engine reports a server."""
        outcome = self._waiting.get(event.name)
        if outcome is not None and not outcome.done():
            outcome.set_result("" if event.status == "ready" else event.reason or f"it has {event.status}")

    def fail(self, death: EngineDied) -> None:
        """The engine is gone."""
        for outcome in self._waiting.values():
            if not outcome.done():
                outcome.set_exception(death)

    async def _poll(self, name: str, outcome: asyncio.Future[str]) -> None:
        while not outcome.done():
            try:
                cards: tuple[ServerCard, ...] = await self._conversation.send(Query("servers"))
            except Exception as error:  # noqa: BLE001  (whoever waits is told)
                if not outcome.done():
                    outcome.set_exception(error)
                return
            for card in cards:
                if card.name == name and card.status in ("connected", "failed") and not outcome.done():
                    outcome.set_result("" if card.status == "connected" else card.error or "it has failed")
            await asyncio.sleep(_POLL)
