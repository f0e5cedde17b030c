"""The MCP servers of one engine, and their tools among its tools."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Literal

from msgspec.structs import replace

from polylect.mcp.names import long_name, name_fault, name_for
from polylect.mcp.server_supervisor import Keeper
from polylect.mcp.tool import ServerTool
from polylect.mcp.values import Fault, Place, PromptCommand, ServerStatus
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import Block, Server
from polylect.vocab.events import Ask, Event, ServerChanged
from polylect.vocab.ports import Children, Tool

CLOSE_BOUND = 0.6
"""Seconds that servers have to leave by themselves. Custody ends those that stay."""
MOST_TOLD = 100
"""Tools of servers that a model is told of from the start; of servers that bring more, ToolSearch finds them. Vendors
take 128 tools at the least."""
SLICE = 500
ENDED_EARLY = "the engine ended before this server was up"
Action = Literal["remove", "reconnect", "enable", "disable"]


class Servers:
    """Servers by name. Nothing here waits for one: each is reported when it is up or has failed (L5)."""

    CONNECT_TIMEOUT = 30.0

    def __init__(
        self,
        tools: MutableMapping[str, Tool],
        report: Callable[[Event], None],
        children: Children,
        env: Mapping[str, str],
        workspace: str,
        connect_timeout: float = CONNECT_TIMEOUT,
        call_timeout: float = 120.0,
        ask: Callable[[Ask], Awaitable[Answer]] | None = None,
        on_commands: Callable[[], None] = lambda: None,
        host: Callable[[str, Any], Awaitable[Any]] | None = None,
        long_names: bool = False,
        withheld: Callable[[str], bool] | None = None,
    ) -> None:
        """`ask` is for questions that belong to no call; `on_commands` hears that `commands` has others now; `host`
        hands a message to a server inside the host. With `long_names` every tool is `mcp__server__tool`, as hosts of
        Claude's wire expect; without, a tool keeps its own name where that is free. Tools whose full name is
        `withheld` are left out.
        """
        self._tools = tools
        self._report = report
        self._long_names = long_names
        self._withheld = withheld
        told = (children, env, workspace, connect_timeout, call_timeout, ask, on_commands)
        self._place = Place(*told, host, {}, asyncio.Lock())
        self._known: dict[str, Server] = {}
        self._kept: dict[str, Keeper] = {}
        self._named: dict[str, dict[str, str]] = {}
        """Of each server: its own name of a tool, and the name that the tool has here."""
        self._leaving: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self._offering = asyncio.Lock()
        """Held while a server's tools get their names: two servers may not get the same one."""

    def add(self, server: Server) -> None:
        """Connect it in the background. One of the same name is replaced, one that could pass for another refused."""
        if fault := name_fault(server.name, self._known):
            return self._report(ServerChanged(server.name, "failed", reason=fault))
        self._drop(server.name)
        self._known[server.name] = server
        if server.extras.get("disabled") is not True:
            self._kept[server.name] = Keeper(server, self._place, self._changed)

    def change(self, name: str, action: Action) -> None:
        """Raises LookupError if there is no such server."""
        if name not in self._known:
            raise LookupError(f"there is no MCP server {name!r}")
        server = self._known[name]
        match action:
            case "enable" if name in self._kept:
                return
            case "enable" | "reconnect":
                extras = {key: value for key, value in server.extras.items() if key != "disabled"}
                self.add(replace(server, extras=extras))
            case "disable" | "remove":
                self._drop(name)
                if action == "remove":
                    del self._known[name]
                self._report(ServerChanged(name, "removed"))

    def hear(self, name: str, message: Any) -> bool:
        """A server inside the host says something unasked. False if nobody listens to it."""
        if inbox := self._place.inboxes.get(name):
            inbox(message)
        return inbox is not None

    def status(self) -> list[ServerStatus]:
        return [
            self._kept[name].status(self._names(name))
            if name in self._kept
            else ServerStatus(name, server.transport, "disabled")
            for name, server in self._known.items()
        ]

    def starting(self) -> dict[str, float]:
        """Servers that have neither come up nor failed since they were added, and for how many seconds.

        One that crashed and is started again is not among them: its tools stay, and a call waits for it.
        """
        now = monotonic()
        return {name: now - keeper.added for name, keeper in self._kept.items() if not keeper.reported}

    async def wait_for_change(self, timeout: float) -> None:
        """Returns when a server has come up, failed or gone, at the latest after `timeout` seconds."""
        self._change.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._change.wait()

    def commands(self) -> list[CommandCard]:
        """What servers offer as prompts, by the name to call them."""
        return [
            CommandCard(
                long_name(name, prompt.name), prompt.description, " ".join(f"<{one}>" for one in prompt.arguments)
            )
            for name, keeper in self._kept.items()
            for prompt in keeper.prompts
        ]

    async def expand(self, command: str, words: Sequence[str]) -> tuple[Block, ...]:
        """What a command stands for; words fill its arguments in order. Raises LookupError, or Fault with a reason."""
        for name, keeper in self._kept.items():
            for prompt in keeper.prompts:
                if long_name(name, prompt.name) == command:
                    return await keeper.prompt(prompt.name, _filled(prompt, words))
        raise LookupError(f"no MCP server has the prompt {command!r}")

    async def close(self) -> None:
        """Ends all servers within CLOSE_BOUND. Those that were never reported are reported as failed now."""
        for name in self.starting():
            self._report(ServerChanged(name, "failed", reason=ENDED_EARLY))
        for name in tuple(self._kept):
            self._drop(name)
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_BOUND)

    def _drop(self, name: str) -> None:
        self._withdraw(name)
        if keeper := self._kept.pop(name, None):
            leaving = asyncio.create_task(keeper.stop())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            self._change.set()

    async def _changed(self, keeper: Keeper) -> None:
        name, condition = keeper.server.name, keeper.condition
        async with self._offering:
            if condition == "ready":
                await self._offer(keeper)
            if self._kept.get(name) is not keeper or keeper.condition != condition:
                return  # it was removed, or what has happened meanwhile is reported by itself
            if condition == "ready":
                self._report(ServerChanged(name, "ready", self._names(name)))
            else:
                self._withdraw(name)
                self._report(ServerChanged(name, "failed", reason=keeper.reason))
        keeper.reported = True
        self._change.set()

    async def _offer(self, keeper: Keeper) -> None:
        """Put its tools, as they are listed now, in the place of those it had.

        A tool that stays keeps its name, whatever comes and goes around it. Many tools are made in slices, so that
        others have their turn (L4), and then put in place at once.
        """
        name = keeper.server.name
        before = self._named.get(name, {})
        bare = not (self._long_names or keeper.server.transport == "host" or keeper.server.extras.get("long_names"))
        taken = {*self._tools, *before.values()}
        told = sum(len(names) for server, names in self._named.items() if server != name)
        deferred = keeper.server.extras.get("deferred") is True or told + len(keeper.listed) > MOST_TOLD
        named: dict[str, str] = {}
        tools: dict[str, ServerTool] = {}
        for number, listed in enumerate(keeper.listed):
            withheld = self._withheld and self._withheld(long_name(name, listed.name))
            if listed.name not in named and not withheld:
                here = before.get(listed.name) or name_for(name, listed.name, taken, bare=bare)
                named[listed.name] = here
                taken.add(here)
                known = not getattr(self._tools.get(here), "deferred", True)
                tools[here] = ServerTool(here, name, listed, keeper.call, deferred=deferred and not known)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        if self._kept.get(name) is keeper:
            self._withdraw(name)
            self._tools.update(tools)
            self._named[name] = named

    def _withdraw(self, name: str) -> None:
        for here in self._named.pop(name, {}).values():
            self._tools.pop(here, None)

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(self._named.get(name, {}).values())


def _filled(prompt: PromptCommand, words: Sequence[str]) -> dict[str, str]:
    """The last argument takes all the words that are left."""
    if not prompt.arguments:
        return {}
    last = len(prompt.arguments) - 1
    values = [*words[:last], " ".join(words[last:])]
    return {name: value for name, value in zip(prompt.arguments, values, strict=False) if value}


__all__ = ["Fault", "PromptCommand", "ServerStatus", "Servers"]
