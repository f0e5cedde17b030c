"""What the commands of a host work with: the parts of the engine that outlive a turn.

The engine makes one `CommandContext` and gives it to the modules of this folder, so that none of them needs the engine
itself. `HeldCommands` and `McpServers` are two of those parts that nothing else owns.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct, field

from polylect.engine.agent import Agent
from polylect.engine.commands.background import BackgroundTasks
from polylect.engine.commands.settings_changes import SettingsChanges
from polylect.engine.subagents.personas import Persona
from polylect.engine.subagents.spawn import RunningAgents
from polylect.engine.turn.turns import TurnQueue
from polylect.vocab.answers import CommandCard, ServerCard
from polylect.vocab.commands import Command
from polylect.vocab.content import Failure
from polylect.vocab.events import Reply
from polylect.vocab.ports import Servers

_CONDITIONS: dict[str, Literal["connected", "failed", "pending", "disabled"]] = {
    "ready": "connected",
    "failed": "failed",
    "connecting": "pending",
    "disabled": "disabled",
}


class HeldCommands:
    """Commands that wait while another session is opened, or while the host does not read. `handle` gets them later."""

    def __init__(self, agent: Agent, background: BackgroundTasks, handle: Callable[[Command], None]) -> None:
        self._agent = agent
        self._background = background
        self._handle = handle
        self._commands: list[Command] | None = None
        self._closed = False

    @property
    def holding(self) -> bool:
        """Whether commands have to wait now."""
        return self._commands is not None

    def __len__(self) -> int:
        return len(self._commands or ())

    def hold(self, *commands: Command) -> list[Command]:
        """Hold these and all later commands until `release`. Whoever wanted to release them before no longer does."""
        self._commands = [*(self._commands or ()), *commands]
        return self._commands

    def hold_until_writable(self, command: Command) -> None:
        """Hold this command and all later ones until the host has read more of the output (T8)."""
        self._background.start(self._release_when_writable(self.hold(command)))

    async def _release_when_writable(self, held: list[Command]) -> None:
        await self._agent.wait_writable()
        if self._commands is held:
            self.release()

    def add(self, command: Command) -> None:
        if self._commands is not None:
            self._commands.append(command)

    def release(self) -> None:
        """Handle the commands that were held."""
        held, self._commands = self._commands or [], None
        for command in () if self._closed else held:
            self._handle(command)

    def close(self) -> None:
        """The engine ends: what is held is never handled."""
        self._closed = True


class McpServers:
    """The MCP servers of the conversation, loaded at first use because the SDK behind them is slow to import."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.current: Servers | None = None
        """None until the first one is added."""

    def opened(self) -> Servers | None:
        """The servers, loaded now if they were not. None if this engine has no MCP."""
        if self.current is None and self._agent.open_servers:
            self.current = self._agent.open_servers(self._agent)
        return self.current

    def cards(self) -> tuple[ServerCard, ...]:
        status = self.current.status() if self.current else ()
        return tuple(
            ServerCard(one.name, _CONDITIONS[one.status], one.tools, one.reason, one.transport, one.version)
            for one in status
        )

    async def wait(self) -> None:
        """Wait for servers that start, as long as the setting `mcp_wait` says."""
        timeout = self._agent.settings.mcp_wait
        if self.current and timeout:
            from polylect.engine.turn.server_wait import wait_for_servers  # only where there is a server

            await wait_for_servers(self.current, timeout, self._agent.emit)

    async def wait_for_prompts(self, command: str) -> None:
        """Wait until the prompts of the server that `command` names are known, as long as `mcp_wait` says."""
        await self.wait()
        if self.current and (timeout := self._agent.settings.mcp_wait):
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self.current.wait_for_prompts(command)

    async def close(self) -> None:
        if self.current:
            await self.current.close()


class CommandContext(Struct, frozen=True, eq=False, kw_only=True):
    """The parts of one engine. Handlers change what is in them, never the context."""

    agent: Agent
    turns: TurnQueue
    changes: SettingsChanges
    running_agents: RunningAgents
    personas: dict[str, Persona]
    """Agents that can be started, by name."""
    servers: McpServers
    background: BackgroundTasks
    held: HeldCommands
    extension_commands: list[CommandCard] = field(default_factory=list)
    """Slash commands of extensions, known once a host has said hello."""
    places: tuple[str, ...]
    """Folders that may define agents and slash commands: the user's home, then the workspace."""

    def reply(self, command: Command, data: Any = None, failure: Failure | None = None) -> None:
        """The one reply to a command, if it asked for one."""
        if command.ref:
            self.agent.emit(Reply(command.ref, data, failure))
