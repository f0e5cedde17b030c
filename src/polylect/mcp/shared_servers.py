"""One MCP server for several sessions of one program, so that ten sessions do not start ten processes of it.

`SharedServers.join` returns a `SharedServer`, which a session uses in the place of a `ServerSupervisor`. Sessions share
a server if nothing that it could notice differs: its settings, its environment, time limits, the folder of the session
and whether that is trusted. The folder does not count for a server with `roots = false`, which is not told of it, if it
does not run in it. A server ends with the last session that leaves it. One that has failed, or that a session wants to
be connected anew, is replaced for those who come later.

Progress belongs to a call. For questions of a server see `ServerSupervisor._ask`: they reach the session whose call is
running. There is one `SharedServers` for each event loop; `app/serving/mcp_servers.py` creates it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from polylect.mcp.server_config import PRIVATE, WORKSPACE
from polylect.mcp.server_supervisor import ServerSupervisor
from polylect.mcp.tool import ListedTool
from polylect.mcp.values import Condition, PromptCommand, Resource, ServerFault, ServerSetup, ServerStatus
from polylect.system.search_paths import entries_outside
from polylect.system.tasks import TaskSet
from polylect.vocab.content import Block, Server
from polylect.vocab.events import Event
from polylect.vocab.ports import Children, ToolContext, ToolReturn

END_BOUND = 0.6
"""Seconds that a server has to exit by itself."""
REMOVED = "the server was removed"


class OwnedChildren(Children, Protocol):
    """Processes that belong to nobody else."""

    async def close(self) -> None:
        """Ends all of them, in bounded time."""


class SharedServers:
    """The servers of a program that sessions share."""

    def __init__(self, open_children: Callable[[], OwnedChildren]) -> None:
        """`open_children` makes the keeper of the processes. It is closed when no server is left."""
        self._open_children = open_children
        self._children: OwnedChildren | None = None
        self._newest: dict[bytes, _RunningServer] = {}
        """The server that the next session joins, by what sessions have to agree on."""
        self._running: set[_RunningServer] = set()
        self._ending = TaskSet()

    def join(
        self,
        server: Server,
        setup: ServerSetup,
        on_change: Callable[["SharedServer"], Awaitable[None]],
        *,
        fresh: bool = False,
    ) -> "SharedServer":
        """The server for one session; `setup` and `on_change` are those of the session.

        With `fresh` it is started anew, and sessions that use it already go on with the old one.
        """
        key = _key(server, setup)
        running = self._newest.get(key)
        if running is None or fresh or running.supervisor.condition == "failed":
            self._children = self._children or self._open_children()
            running = self._newest[key] = _RunningServer(server, replace(setup, children=self._children))
            self._running.add(running)
        return SharedServer(server, setup, running, on_change, self._leave)

    async def _leave(self, session: "SharedServer", running: "_RunningServer") -> None:
        running.sessions.remove(session)
        if not running.sessions:
            self._newest = {key: other for key, other in self._newest.items() if other is not running}
            self._running.discard(running)
            await asyncio.shield(self._ending.start(self._end(running)))

    async def _end(self, running: "_RunningServer") -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_BOUND):
                    await running.supervisor.stop()
        finally:  # also if the loop is about to end
            if self._children and not self._running:
                children, self._children = self._children, None
                await children.close()

    async def settle(self) -> None:
        """Return when all servers that nobody uses have ended, in bounded time."""
        await self._ending.finished()


def _key(server: Server, setup: ServerSetup) -> bytes:
    """What has to be the same for sessions that share a server."""
    limits = (setup.connect_timeout, setup.call_timeout)
    path = entries_outside(setup.env.get("PATH", ""), setup.workspace)
    sampling = (setup.sampling, setup.sampling_max_tokens)
    facts = (server, {**setup.env, "PATH": path}, _folder(server, setup), limits, setup.token_store, sampling)
    return msgspec.json.encode(facts, order="deterministic")


def _folder(server: Server, setup: ServerSetup) -> tuple[str, bool] | None:
    """The folder of the session, and whether it is trusted; None if the server neither runs in it nor is told of it."""
    cwd = str(server.extras.get("cwd") or (WORKSPACE if setup.trusted else PRIVATE))
    runs_elsewhere = server.transport != "stdio" or cwd == PRIVATE or os.path.isabs(cwd)
    return None if server.extras.get("roots") is False and runs_elsewhere else (setup.workspace, setup.trusted)


class _RunningServer:
    """A server that runs, and the sessions that use it."""

    def __init__(self, server: Server, setup: ServerSetup) -> None:
        self.sessions: list[SharedServer] = []
        own = replace(setup, report=self._report, on_commands=self._on_commands, ask=None, host=None)
        self.supervisor = ServerSupervisor(server, own, self._changed)

    async def _changed(self, supervisor: ServerSupervisor) -> None:
        for session in tuple(self.sessions):
            await session.announce()

    def _report(self, event: Event) -> None:
        for session in tuple(self.sessions):
            session.setup.report(event)

    def _on_commands(self) -> None:
        for session in tuple(self.sessions):
            session.setup.on_commands()


class SharedServer:
    """What one session sees of a server: the same as of a `ServerSupervisor` of its own."""

    def __init__(
        self,
        server: Server,
        setup: ServerSetup,
        running: _RunningServer,
        on_change: Callable[["SharedServer"], Awaitable[None]],
        leave: Callable[["SharedServer", _RunningServer], Awaitable[None]],
    ) -> None:
        self.server = server
        self.setup = setup
        self.added = monotonic()
        self.reported = False
        self._running = running
        self._supervisor = running.supervisor
        self._on_change = on_change
        self._leave = leave
        self._left = asyncio.Event()
        self._calls: set[asyncio.Task[ToolReturn]] = set()
        self._tasks = TaskSet()
        running.sessions.append(self)
        if self.condition != "connecting":  # those that were here earlier have been told
            self._tasks.start(self.announce())

    @property
    def condition(self) -> Condition:
        return self._supervisor.condition

    @property
    def reason(self) -> str:
        return REMOVED if self._left.is_set() else self._supervisor.reason

    @property
    def listed(self) -> list[ListedTool]:
        return self._supervisor.listed

    @property
    def prompts(self) -> tuple[PromptCommand, ...]:
        return () if self._left.is_set() else self._supervisor.prompts

    @property
    def prompts_listed(self) -> asyncio.Event:
        return self._supervisor.prompts_listed

    @property
    def resources_listed(self) -> asyncio.Event:
        return self._supervisor.resources_listed

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self._supervisor.resources

    @property
    def has_resources(self) -> bool:
        return self._supervisor.has_resources

    def status(self, tools: tuple[str, ...]) -> ServerStatus:
        return self._supervisor.status(tools)

    async def announce(self) -> None:
        """Tell the session of the present state."""
        if not self._left.is_set():
            await self._on_change(self)

    async def call(self, tool: str, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        """One call, which ends when the session leaves. See `ServerSupervisor.call`."""
        return await self._until_left(self._supervisor.call(tool, args, context, session=self))

    async def read_resource(self, uri: str, context: ToolContext) -> ToolReturn:
        return await self._until_left(self._supervisor.read_resource(uri, context, session=self))

    async def templates(self) -> list[dict[str, Any]]:
        return await self._supervisor.templates()

    async def _until_left(self, call: Coroutine[Any, Any, ToolReturn]) -> ToolReturn:
        removed = ToolReturn(f"MCP server {self.server.name}: {REMOVED}", ok=False)
        if self._left.is_set():
            call.close()
            return removed
        work = asyncio.create_task(call)
        self._calls.add(work)
        try:
            return await work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._left.is_set() and current and not current.cancelling():
                return removed
            raise
        finally:
            self._calls.discard(work)

    async def prompt(self, name: str, args: dict[str, str]) -> tuple[Block, ...]:
        """The content of a prompt. Raises ServerFault."""
        if self._left.is_set():
            raise ServerFault(REMOVED)
        return await self._supervisor.prompt(name, args)

    async def stop(self) -> None:
        """Leave it. Returns once it has ended, if no other session uses it."""
        if self._left.is_set():
            return
        self._left.set()
        for call in self._calls:
            call.cancel()
        await self._leave(self, self._running)
