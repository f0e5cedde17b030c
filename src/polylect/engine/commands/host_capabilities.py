"""What the host can do for the engine, and what the host is told of the engine in return.

A host's `Hello` may offer tools, MCP servers, hooks, text files, terminals and URI schemes; the agent gets them.
From then on the host receives a `SettingChanged` whenever the lists of tools, agents, skills, slash commands or servers
change. Hosts that never say hello are told nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from polylect.engine.commands.background import LATER
from polylect.engine.commands.context import CommandContext
from polylect.engine.commands.slash import command_cards
from polylect.engine.host_hooks import MOMENTS, HostHooks, read_table
from polylect.engine.subagents.personas import GENERAL
from polylect.engine.tools.host_tools import HostTool, RemoteTool
from polylect.system.tasks import TaskSet
from polylect.vocab.commands import Hello, HostReply, HostSays
from polylect.vocab.content import Failure, Server
from polylect.vocab.events import CostChanged, Notice, SettingChanged
from polylect.vocab.json_words import misfit
from polylect.vocab.tool_names import is_reserved
from polylect.wire.lazy_regex import pattern

SERVERS_BOUND = 20.0
"""Seconds that the servers inside a host have to come up before it is answered all the same."""


_TOOL = pattern(r"[A-Za-z0-9_-]{1,64}")
_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*")


class HostScheme(Struct, frozen=True):
    """Addresses that the host can read begin with it. Nothing asks for them yet."""

    scheme: str


class HostFiles(Struct, frozen=True):
    """Whether the host reads and writes text files for the engine."""

    read: bool = False
    write: bool = False


class HostOffer(Struct, frozen=True):
    """What a `Hello` offers: each part of it stands in the place of what was offered before."""

    hooks: dict[str, Any] | UnsetType | None = UNSET
    servers: tuple[str, ...] | UnsetType = UNSET
    tools: tuple[HostTool, ...] | UnsetType = UNSET
    files: HostFiles | UnsetType | None = UNSET
    terminal: bool | UnsetType | None = UNSET
    uri_schemes: tuple[str | HostScheme, ...] = ()


class HostCapabilities:
    """What is offered now, and the settings that a host which has said hello knows."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._agent = context.agent
        self._tools: set[str] = set()
        self._servers: set[str] = set()
        self._early: list[Server] = []
        """Servers inside the host that were named before it could be spoken to."""
        self._last_sent: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._work = TaskSet()

    @property
    def hello_received(self) -> bool:
        """The host has said hello, and hears of tools as they come and go."""
        return self._last_sent is not None

    def hello(self, command: Hello) -> Failure | None:
        try:
            offered = msgspec.convert(command.offers, HostOffer)
            table = read_table(offered.hooks) if offered.hooks is not UNSET else None
        except msgspec.ValidationError as error:
            return Failure("bad_offer", f"what the host offers cannot be used: {misfit(error)}", "host")
        except ValueError as error:
            return Failure("bad_offer", f"what the host offers cannot be used: {error}", "host")
        if fault := _misnamed(offered) or self._add_tools(offered.tools):
            return Failure("bad_offer", fault, "host")
        if table is not None:
            self._hooks().table = table
            if never := sorted(table.keys() - {*MOMENTS}):
                self._agent.emit(Notice(f"Hooks of the host are never asked here at: {', '.join(never)}", "warning"))
        client = self._agent.client
        if offered.files is not UNSET:
            files = offered.files or HostFiles()
            client.read, client.write = files.read, files.write
        if offered.terminal is not UNSET:
            client.terminal = bool(offered.terminal)
        first, self._last_sent = self._last_sent is None, self._last_sent or {}
        if first:
            self._work.start(self._load_extension_commands())
            self.emit_cost()
        self.renew()
        self._add_servers(offered.servers)
        if not self._connecting():
            return None
        self._work.start(self._answer(command))
        return LATER

    def is_early(self, server: Server) -> bool:
        """One inside a host that has not said hello waits for that."""
        early = server.transport == "host" and not self.hello_received
        self._early += [server] if early else []
        return early

    def emit_cost(self) -> None:
        """Emit the cost of the session before this host was connected."""
        session = self._agent.session
        if self.hello_received and session.ledger:
            self._agent.emit(CostChanged(session.usage, tuple(session.ledger)))

    def renew(self) -> None:
        """Emit what has changed since the last time, if the host has said hello."""
        self._changed.set()
        if self._last_sent is None:
            return
        for key, value in self._facts().items():
            if self._last_sent.get(key) != value:
                self._last_sent[key] = value
                self._agent.emit(SettingChanged(key, value))

    async def close(self) -> None:
        self._work.cancel()
        await self._work.finished()

    def _facts(self) -> dict[str, Any]:
        agent, context = self._agent, self._context
        return {
            "cwd": agent.settings.workspace,
            "tools": list(agent.usable()),
            "agents": [GENERAL, *sorted(context.personas)],
            "skills": list(getattr(agent.tools.get("Skill"), "skills", ())),
            "commands": tuple(command_cards(context)),
            "servers": tuple(context.servers.cards()),
        }

    # Taking what is offered.

    def _hooks(self) -> HostHooks:
        agent = self._agent
        if not isinstance(agent.hooks, HostHooks):
            agent.hooks = HostHooks(agent)
        return agent.hooks

    def _add_tools(self, offered: tuple[HostTool, ...] | UnsetType) -> str:
        """Replace the host's tools. Returns why that is not possible, or nothing."""
        if offered is UNSET:
            return ""
        agent = self._agent
        taken = [tool.name for tool in offered if tool.name in agent.tools and tool.name not in self._tools]
        if taken:
            return f"there is a tool {taken[0]} already"
        for name in self._tools:
            agent.tools.pop(name, None)
        self._tools = {tool.name for tool in offered}
        agent.tools.update((tool.name, RemoteTool(tool, agent)) for tool in offered)
        return ""

    def _add_servers(self, names: tuple[str, ...] | UnsetType) -> None:
        early, self._early = self._early, []
        servers = self._context.servers.opened() if early or names else self._context.servers.current
        if servers is None:
            return
        known = {*self._servers, *(server.name for server in early)}
        if names is not UNSET:
            for name in self._servers.difference(names):
                servers.change(name, "remove")
            early += [Server(name, "host") for name in dict.fromkeys(names) if name not in known]
            self._servers = {name for name in names if name in self._servers or name not in known}
        for server in early:
            servers.add(server)

    def _connecting(self) -> bool:
        """Whether a server inside the host is still starting."""
        return any(one.transport == "host" and one.status == "connecting" for one in self._status())

    async def _answer(self, command: Hello) -> None:
        """Reply to the hello once the host's own servers are up: hosts expect their tools to be there then."""
        try:
            async with asyncio.timeout(SERVERS_BOUND):
                while self._connecting():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass  # it is told of each of them when that is decided
        self._context.reply(command)

    def _status(self) -> Sequence[Any]:
        servers = self._context.servers.current
        return servers.status() if servers else ()

    async def _load_extension_commands(self) -> None:
        self._context.extension_commands[:] = await self._agent.hooks.commands()
        self.renew()


def _misnamed(offered: HostOffer) -> str:
    """What is wrong with a name, if anything. Model services refuse a whole request with a bad tool name."""
    tools = [tool.name for tool in offered.tools or ()]
    for name in tools:
        if not _TOOL.fullmatch(name):
            return f"{name!r} is no name for a tool: letters, digits, _ and -, at most 64 of them"
        if is_reserved(name):
            return f"{name} is a name of the engine's own tools: call yours something else"
        if tools.count(name) > 1:
            return f"there are two tools {name}"
    for scheme in offered.uri_schemes:
        name = scheme if isinstance(scheme, str) else scheme.scheme
        if not _SCHEME.fullmatch(name):
            return f"{name!r} is no scheme of an address"
    return ""


def receive_reply(context: CommandContext, command: HostReply) -> Failure | None:
    if context.agent.host_calls.reply(command):
        return None
    return Failure("unknown_call", "nothing is asked of the host under this id: unknown, or answered before", "host")


def receive_notification(context: CommandContext, command: HostSays) -> Failure | None:
    match command.method, command.params:
        case "mcp_message", {"server_name": str() as name, "message": message}:
            if (servers := context.servers.current) and servers.receive(name, message):
                return None
            return Failure("mcp", f"no MCP server {name!r} inside the host is listened to", "host")
    return Failure("unsupported", f"this engine does not listen to {command.method!r}", "host")
