"""The MCP servers of one engine, and their tools among the tools of the engine.

Adding a server returns at once: it connects in the background, and `report` gets a `ServerChanged` when it is ready or
has failed (L5). When a server is ready, its tools get names that no other tool has and are put into the engine's table
of tools. A tool keeps its name for as long as its server lists it. A server whose tools
would exceed the budget of tokens (`ServerSetup.search_above_tokens`) or MOST_LISTED is deferred as a whole: the model
finds its tools with ToolSearch.

`app/serving/mcp_servers.py` creates it, and the engine uses it through the protocol `vocab.ports.Servers`.
"""

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Literal

from msgspec.structs import replace

from polylect.mcp.names import long_name, name_fault, name_for
from polylect.mcp.resource_tools import RESOURCE_TOOLS, ListMcpResources, ReadMcpResource
from polylect.mcp.server_supervisor import ServerSupervisor
from polylect.mcp.shared_servers import SharedServer, SharedServers
from polylect.mcp.tool import ServerTool
from polylect.mcp.values import PromptCommand, ServerFault, ServerSetup, ServerStatus
from polylect.system.tasks import TaskSet
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import Block, Server
from polylect.vocab.events import ServerChanged
from polylect.vocab.ports import Tool

CLOSE_BOUND = 0.6
"""Seconds that servers have to exit by themselves. Custody ends those that do not."""
MOST_LISTED = 100
"""Tools of servers that are listed to the model from the start. Every vendor accepts at least 128 tools."""
_SLICE = 500
"""Tools that are created before other tasks get their turn."""
ENDED_EARLY = "the engine ended before this server was up"
Supervisor = ServerSupervisor | SharedServer
Action = Literal["remove", "reconnect", "enable", "disable"]


class Servers:
    """Servers by name. No method waits for a server to connect: it is reported when it is ready or has failed (L5)."""

    def __init__(
        self,
        tools: MutableMapping[str, Tool],
        setup: ServerSetup,
        *,
        long_names: bool = False,
        withheld: Callable[[str], bool] | None = None,
        shared: SharedServers | None = None,
    ) -> None:
        """`tools` is the engine's table, which is changed in place. With `long_names` every tool is named
        `mcp__server__tool`, as hosts of Claude's wire expect; without, a tool has its own name where that is free.
        Tools for whose full name `withheld` is true are left out. Servers are taken from `shared`, if there is one.
        """
        self._tools = tools
        self._setup = setup
        self._report = setup.report
        self._long_names = long_names
        self._withheld = withheld
        self._shared = shared
        self._configured: dict[str, Server] = {}
        self._supervisors: dict[str, Supervisor] = {}
        self._tool_names: dict[str, dict[str, str]] = {}
        """For each server: the name of a tool in the engine by its name at the server."""
        self._described: dict[str, tuple[int, int]] = {}
        """For each server: how many of its tools the model is told of from the start, and their tokens."""
        self._stopping = TaskSet()
        self._change = asyncio.Event()
        self._naming = asyncio.Lock()
        """Held while the tools of a server get their names, so that no name is given twice."""

    def add(self, server: Server) -> None:
        """Connect it in the background. It replaces a server of the same name. A name that rules could take for that
        of another server is refused."""
        self._add(server)

    def _add(self, server: Server, *, fresh: bool = False) -> None:
        """With `fresh` it is started anew, also if another session shares it."""
        if fault := name_fault(server.name, self._configured):
            return self._report(ServerChanged(server.name, "failed", reason=fault))
        self._drop(server.name)
        self._configured[server.name] = server
        if server.extras.get("disabled") is not True:
            if self._shared and server.transport != "host":
                self._supervisors[server.name] = self._shared.join(server, self._setup, self._changed, fresh=fresh)
            else:
                self._supervisors[server.name] = ServerSupervisor(server, self._setup, self._changed)

    def change(self, name: str, action: Action) -> None:
        """Raises LookupError if there is no such server."""
        if name not in self._configured:
            raise LookupError(f"there is no MCP server {name!r}")
        server = self._configured[name]
        match action:
            case "enable" if name in self._supervisors:
                return
            case "enable" | "reconnect":
                extras = {key: value for key, value in server.extras.items() if key != "disabled"}
                self._add(replace(server, extras=extras), fresh=action == "reconnect")
            case "disable" | "remove":
                self._drop(name)
                if action == "remove":
                    del self._configured[name]
                self._report(ServerChanged(name, "removed"))

    def receive(self, name: str, message: Any) -> bool:
        """Pass on a message that a server inside the host sent unasked. False if that server is not connected."""
        if inbox := self._setup.inboxes.get(name):
            inbox(message)
        return inbox is not None

    def status(self) -> list[ServerStatus]:
        return [
            self._supervisors[name].status(self._names(name))
            if name in self._supervisors
            else ServerStatus(name, server.transport, "disabled")
            for name, server in self._configured.items()
        ]

    def starting(self) -> dict[str, float]:
        """Servers that have neither become ready nor failed since they were added, and for how many seconds.

        A server that crashed and is being restarted is not among them: its tools stay, and a call waits for it.
        """
        now = monotonic()
        return {name: now - one.added for name, one in self._supervisors.items() if not one.reported}

    async def wait_for_change(self, timeout: float) -> None:
        """Return when a server has become ready, failed or was removed, at the latest after `timeout` seconds."""
        self._change.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._change.wait()

    def commands(self) -> list[CommandCard]:
        """The prompts of all servers as slash commands."""
        return [
            CommandCard(
                long_name(name, prompt.name), prompt.description, " ".join(f"<{one}>" for one in prompt.arguments)
            )
            for name, supervisor in self._supervisors.items()
            for prompt in supervisor.prompts
        ]

    async def wait_for_prompts(self, command: str) -> None:
        """Return when the prompts of the server that this command names are known, or cannot be."""
        for name, supervisor in tuple(self._supervisors.items()):
            if command.startswith(long_name(name, "")):
                await supervisor.prompts_listed.wait()

    async def wait_for_lists(self, name: str) -> None:
        """Return when the prompts and resources of this server are known, or cannot be."""
        if supervisor := self._supervisors.get(name):
            await supervisor.prompts_listed.wait()
            await supervisor.resources_listed.wait()

    async def expand(self, command: str, words: Sequence[str]) -> tuple[Block, ...]:
        """The content of a prompt. `words` fill its arguments in order. Raises LookupError or ServerFault."""
        for name, supervisor in self._supervisors.items():
            for prompt in supervisor.prompts:
                if long_name(name, prompt.name) == command:
                    return await supervisor.prompt(prompt.name, _filled(prompt, words))
        raise LookupError(f"no MCP server has the prompt {command!r}")

    async def close(self) -> None:
        """End all servers within CLOSE_BOUND. Those that were never reported are reported as failed."""
        for name in self.starting():
            self._report(ServerChanged(name, "failed", reason=ENDED_EARLY))
        for name in tuple(self._supervisors):
            self._drop(name)
        await self._stopping.finished(CLOSE_BOUND)
        if self._shared:
            await self._shared.settle()

    def _drop(self, name: str) -> None:
        self._withdraw(name)
        if supervisor := self._supervisors.pop(name, None):
            self._offer_resource_tools()
            self._stopping.start(supervisor.stop())
            self._change.set()

    async def _changed(self, supervisor: Supervisor) -> None:
        name, condition = supervisor.server.name, supervisor.condition
        async with self._naming:
            if condition == "ready":
                await self._offer(supervisor)
            if self._supervisors.get(name) is not supervisor or supervisor.condition != condition:
                return  # it was removed meanwhile, or its newer state gets a report of its own
            self._offer_resource_tools()
            if condition == "ready":
                self._report(ServerChanged(name, "ready", self._names(name)))
            else:
                self._withdraw(name)
                self._report(ServerChanged(name, "failed", reason=supervisor.reason))
        supervisor.reported = True
        self._change.set()

    async def _offer(self, supervisor: Supervisor) -> None:
        """Replace the tools that this server had by those that it lists now.

        A tool that is still listed keeps its name. The tools are created in slices, so that other tasks get their turn
        (L4), and are then put into the table at once.
        """
        server, name = supervisor.server, supervisor.server.name
        before = self._tool_names.get(name, {})
        bare = not (self._long_names or server.transport == "host" or server.extras.get("long_names"))
        taken = {*self._tools, *before.values(), *RESOURCE_TOOLS}
        others = [described for other, described in self._described.items() if other != name]
        room = MOST_LISTED - sum(count for count, _ in others)
        budget = self._setup.search_above_tokens - sum(tokens for _, tokens in others)
        defer, tokens = server.extras.get("deferred") is True, 0
        named: dict[str, str] = {}
        tools: dict[str, ServerTool] = {}
        for number, listed in enumerate(supervisor.listed):
            withheld = self._withheld and self._withheld(long_name(name, listed.name))
            if listed.name not in named and not withheld:
                tool_name = before.get(listed.name) or name_for(name, listed.name, taken, bare=bare)
                named[listed.name] = tool_name
                taken.add(tool_name)
                tools[tool_name] = tool = ServerTool(tool_name, name, listed, supervisor.call)
                if not defer:
                    tokens += tool.tokens
                    defer = len(tools) > room or tokens > budget  # from here on, no schema is decoded
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        for tool in tools.values() if defer else ():
            tool.deferred = getattr(self._tools.get(tool.name), "deferred", True)  # what was found stays found
        if self._supervisors.get(name) is supervisor:
            self._withdraw(name)
            self._described[name] = (0, 0) if defer else (len(tools), tokens)
            self._tools.update(tools)
            self._tool_names[name] = named

    def _offer_resource_tools(self) -> None:
        """Have the tools that read resources among the others exactly while a server has some."""
        if not self._with_resources():
            for name in RESOURCE_TOOLS:
                self._tools.pop(name, None)
        elif RESOURCE_TOOLS[0] not in self._tools:
            self._tools.update({tool.name: tool(self._with_resources) for tool in (ListMcpResources, ReadMcpResource)})

    def _with_resources(self) -> dict[str, Supervisor]:
        return {
            name: one
            for name, one in self._supervisors.items()
            if one.condition == "ready"
            and one.has_resources
            and not (self._withheld and self._withheld(long_name(name, ReadMcpResource.name)))
        }

    def _withdraw(self, name: str) -> None:
        self._described.pop(name, None)
        for here in self._tool_names.pop(name, {}).values():
            self._tools.pop(here, None)

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(self._tool_names.get(name, {}).values())


def _filled(prompt: PromptCommand, words: Sequence[str]) -> dict[str, str]:
    """The arguments by name. The last one gets all remaining words."""
    if not prompt.arguments:
        return {}
    last = len(prompt.arguments) - 1
    values = [*words[:last], " ".join(words[last:])]
    return {name: value for name, value in zip(prompt.arguments, values, strict=False) if value}


__all__ = ["PromptCommand", "ServerFault", "ServerStatus", "Servers"]
