"""Builds the engine that a checked start describes: provider, tools, session, sandbox, extensions, MCP servers.

Used by `serve.py` for an engine process, by `own_engine.py` for one in this process and by `start_check.py`. The
wire is not decided here: events go to `emit`, and `wait_writable` and `full` say how much the host has not read.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from polylect.app.serving.available_models import AvailableModels
from polylect.app.serving.lazy_tools import LazyTools
from polylect.app.serving.open_provider import keys, open_provider
from polylect.app.serving.sandbox_setup import open_sandbox, withheld_notice
from polylect.app.startup import config, secrets
from polylect.app.startup.start import Start, capabilities
from polylect.engine.agent import Agent, EngineCallbacks
from polylect.engine.commands.configure import DEFAULT_THINKING
from polylect.engine.engine import Engine
from polylect.engine.hooks import NoHooks
from polylect.engine.settings import Settings
from polylect.extensions.discovery import files_in, has_installed
from polylect.permissions.rules import names_tool
from polylect.sessions.library import FileLibrary
from polylect.sessions.session import Session
from polylect.system.child_environment import command_environment
from polylect.system.clock_and_ids import new_id
from polylect.system.search_paths import absolute_only
from polylect.system.threads import run_in_thread
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.tools.worker.pool import WorkerPool
from polylect.vocab.commands import AddServer, Configure
from polylect.vocab.content import Abilities
from polylect.vocab.events import CostChanged
from polylect.vocab.modes import MODES
from polylect.vocab.ports import Provider, Servers, Tool
from polylect.vocab.tool_names import same_tool

if TYPE_CHECKING:
    from polylect.app.serving.otel import Spans
    from polylect.extensions.extensions import Extensions

_SPANS_TIMEOUT = 2.0


class Assembly:
    """The parts of one engine. `wait_writable` and `full` belong to the way to the host. Raises PolylectError.

    `provider` is used instead of the one that the settings name. `own_process` says that this process is the engine's
    alone, so that its memory may be closed to others and orphans may become its children. `share_servers` says that
    this program can have other sessions, which use the same MCP servers.
    """

    def __init__(
        self,
        start: Start,
        wait_writable: Callable[[], Awaitable[None]],
        full: Callable[[], bool],
        *,
        provider: Provider | None = None,
        own_process: bool = True,
        share_servers: bool = False,
    ) -> None:
        self._start, self._wait_writable, self._full = start, wait_writable, full
        self._own_process, self._share_servers = own_process, share_servers
        self._settings = settings = _settings(start)
        self._provider = provider or open_provider(start.values, start.env)
        self._models = None if provider else AvailableModels(start.values, start.env)
        self._spans = _open_spans(start)
        self._sandbox = sandbox = open_sandbox(start.values, start.env, start.place.path if start.place else "")
        self._tools = LazyTools(lambda: _standard_tools(settings, start, sandbox))

    def agent(self, callbacks: EngineCallbacks, session: Session, library: FileLibrary | None) -> Agent:
        start, settings, tools = self._start, self._settings, self._tools
        open_custody = partial(Custody, before=secrets.seal, adopt=True) if self._own_process else Custody
        custody = open_custody()
        passed = command_environment(start.env, config.texts(start.values, "sandbox_env"), keys(start.values))
        env = absolute_only(passed)
        roots = [os.path.realpath(path) for path in (settings.workspace, *settings.folders)]
        worker = WorkerPool(custody, self._sandbox, roots)
        if start.values.get("mcp_servers") and not self._share_servers:
            custody.prepare()  # the guardian starts while the rest is put together

        self._extensions = _open_extensions(start, tools, custody, env, self._sandbox)
        withheld = _withheld(start.values.get("without"))
        long_names = bool(start.values.get("long_tool_names"))
        return Agent(
            settings=settings,
            provider=self._provider,
            tools=tools,
            session=session,
            processes=custody,
            worker=worker,
            env=env,
            command_notice=withheld_notice(start.env, env),
            hooks=self._extensions or NoHooks(),
            models=self._models,
            library=library,
            trace=self._spans.add if self._spans else None,
            offered=Abilities(
                modes=MODES, mcp=bool(start.values.get("mcp_servers")), extras=capabilities(start.values)
            ),
            callbacks=callbacks,
            open_servers=partial(
                _open_servers,
                custody,
                long_names=long_names,
                withheld=withheld,
                open_shared=open_custody if self._share_servers else None,
            ),
            wait_writable=self._wait_writable,
            full=self._full,
            new_id=new_id,
        )

    async def required(self) -> None:
        """Returns when the required extensions are loaded. Raises StartError if one cannot be."""
        if self._extensions and self._start.values.get("required_extensions"):
            await self._extensions.loaded()

    def begin(self, engine: Engine) -> None:
        """Applies what flags and settings say about this conversation, and adds the MCP servers."""
        session = engine.agent.session
        if engine.settings.cost_updates == "step" and session.ledger:
            engine.emit(CostChanged(session.known_usage))  # before any turn: the host counts from here
        self._prepare(engine)
        self._add_servers(engine)

    def warm_up(self) -> None:
        """Loads what the first request needs and `ready` did not."""
        import polylect.engine.turn.loop  # noqa: F401  (turns run there)

        len(self._tools)
        getattr(self._provider, "warm", lambda: None)()

    async def close(self) -> None:
        """Removes what the sandbox has made and nobody used, and sends the last spans, for at most `_SPANS_TIMEOUT`
        seconds. The engine is closed already."""
        self._sandbox.close()
        if self._spans:
            with suppress(TimeoutError):
                await asyncio.wait_for(run_in_thread(self._spans.close), _SPANS_TIMEOUT)

    def _prepare(self, engine: Engine) -> None:
        values, tools = self._start.values, engine.agent.tools
        named, without = values.get("tools"), values.get("without")
        for name in list(tools) if named is not None or without else ():
            if (isinstance(named, list) and not _lists(named, name)) or (
                isinstance(without, list) and _lists(without, name)
            ):
                del tools[name]
        changes = {"thinking": values.get("thinking_level"), "name": values.get("name"), "agents": values.get("agents")}
        if values["restore"] and engine.agent.session.settings:
            engine.sessions.restore()
        if values["restore_mode"]:
            changes["mode"] = _stored_mode(engine)
        if settings := {name: value for name, value in changes.items() if value}:
            engine.handle(Configure(settings))

    def _add_servers(self, engine: Engine) -> None:
        """Adds the MCP servers of the settings. The host does not wait for them any more (L5)."""
        servers = self._start.values.get("mcp_servers")
        if isinstance(servers, dict) and servers:
            from polylect.mcp.server_config import servers_from  # only where there are servers

            for server in servers_from(servers, self._start.env):
                engine.handle(AddServer(server))


def _stored_mode(engine: Engine) -> str:
    """The mode that the session had. Nothing is asked in `force`, so a person has to choose that again."""
    mode = engine.agent.session.settings.get("mode")
    return mode if mode in MODES and mode != "force" else ""


def _open_spans(start: Start) -> "Spans | None":
    """What sends spans; None where the environment names no collector."""
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in start.env):
        return None
    from polylect.app.serving.otel import open_spans  # few have a collector

    return open_spans(start.env, start.session)


def _open_servers(*args: Any, **options: Any) -> Servers:
    from polylect.app.serving.mcp_servers import open_servers  # where a server is named

    return open_servers(*args, **options)


def _lists(names: Sequence[str], tool: str) -> bool:
    """Whether the tool is listed, by any of its names."""
    return any(same_tool(name, tool) for name in names)


def _withheld(rules: object) -> Callable[[str], bool] | None:
    """A function that says whether a flag withholds a tool of a server, by its full name; None if none does."""
    named = [rule for rule in rules if rule.startswith("mcp__")] if isinstance(rules, list) else []
    return (lambda name: any(names_tool(rule, name) for rule in named)) if named else None


def _standard_tools(settings: Settings, start: Start, sandbox: Sandbox) -> dict[str, Tool]:
    from polylect.tools.setup import CommandLimits
    from polylect.tools.standard import standard_tools  # 6 ms

    search_url = str(start.values.get("search_url") or "")
    limits = start.values.get("command_limits")
    return standard_tools(
        settings.workspace,
        start.env,
        sandbox=sandbox,
        search_url=search_url,
        command_limits=CommandLimits(**limits) if isinstance(limits, dict) else None,
        trusted=settings.trust_workspace,
    )


def _open_extensions(
    start: Start, tools: MutableMapping[str, Tool], custody: Custody, env: Mapping[str, str], sandbox: Sandbox
) -> "Extensions | None":
    """The user's extensions and hooks, from trusted places; None if there are none. They are imported only now."""
    values, workspace, table = start.values, str(start.values["workspace"]), start.values.get("hooks")
    folders = config.extension_folders(values, start.env, workspace)
    files = [path for folder in folders for path in files_in(folder)]
    files = list(dict.fromkeys([*files, *config.texts(values, "extensions")]))
    packages = not values.get("isolated") and has_installed()
    if not (files or table or packages):
        return None
    from polylect.extensions.extensions import Extensions  # 15 ms, and only where there are some

    async def wrap(argv: Sequence[str]) -> Sequence[str]:
        return await sandbox.argv(argv, workspace, (workspace,), custody)

    commands = table if isinstance(table, dict) else {}
    required = config.texts(values, "required_extensions")
    return Extensions(
        tools, custody, files=files, required=required, packages=packages, commands=commands, env=env, wrap=wrap
    )


def _settings(start: Start) -> Settings:
    values = start.values
    fields = {name: values[name] for name in Settings.__struct_fields__ if values.get(name) is not None}
    thinking = values.get("thinking_budget") or DEFAULT_THINKING if values.get("thinking") == "enabled" else 0
    budgets = {name: _with_prefix(values, f"{name}:") for name in ("budget", "turn_budget")}
    return msgspec.convert({**fields, **budgets, "thinking": thinking}, Settings, strict=False)


def _with_prefix(values: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
