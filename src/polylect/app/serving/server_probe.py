"""Finds the MCP servers that are configured, and connects them without an engine, to see what they offer.

`polylect mcp` and `polylect doctor` use it. Servers are read from the same settings, started in the same way and with
the same environment as by an engine; `Servers` of `mcp/` does the work. Nothing is left running at the end.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.start import gather_settings
from polylect.mcp.auth.token_store import StoreKind
from polylect.mcp.server_config import ServerConfigError, servers_from
from polylect.mcp.servers import Servers
from polylect.mcp.tool import ServerTool
from polylect.mcp.values import CONNECT_TIMEOUT, Condition, ServerSetup, ServerStatus, search_budget
from polylect.providers.check import default_model
from polylect.providers.models import Catalogue
from polylect.system.child_environment import command_environment
from polylect.system.search_paths import absolute_only
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server
from polylect.vocab.events import Event, ServerChanged
from polylect.vocab.ports import Tool

DESKTOP = "Wayland Desktop"


class ConfiguredServer(Struct, frozen=True):
    """A server of the settings. `sources` are the files that describe it, the strongest last.

    `server` is None if the settings are wrong; `fault` says why then.
    """

    name: str
    sources: tuple[str, ...]
    server: Server | None
    fault: str = ""

    @property
    def transport(self) -> str:
        return self.server.transport if self.server else ""


class ServerSettings(Struct, frozen=True):
    """What is configured: the servers, and how they are to be connected."""

    servers: tuple[ConfiguredServer, ...]
    workspace: str
    env: dict[str, str]
    child_env: dict[str, str]
    connect_timeout: float
    search_above_tokens: int
    token_store: StoreKind
    trusted: bool


class ServerReport(Struct, frozen=True):
    """What became of one configured server. `seconds` is how long it took until it was ready or had failed."""

    configured: ConfiguredServer
    status: ServerStatus
    tools: tuple[ServerTool, ...] = ()
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """The estimated tokens that its tools take in every request, once they are described."""
        return sum(tool.tokens for tool in self.tools)


def read_settings(flags: config.Values, env: dict[str, str], notes: list[str]) -> ServerSettings:
    """The servers that an engine with these flags would have. Remarks are added to `notes`. Raises ConfigError."""
    workspace = os.path.realpath(str(flags.get("workspace") or os.getcwd()))
    settings = gather_settings(flags, env, workspace, notes)
    tables = settings.get("mcp_servers")
    sources = _sources(flags, env, workspace)
    servers = [_configured(name, table, sources.get(name, (DESKTOP,)), env) for name, table in _table(tables).items()]
    passed = command_environment(env, config.texts(settings, "sandbox_env"), keys(settings))
    wait, above = settings.get("mcp_wait"), settings.get("mcp_search_above_tokens")
    return ServerSettings(
        tuple(servers),
        workspace,
        env,
        absolute_only(passed),
        max(CONNECT_TIMEOUT, wait) if isinstance(wait, int | float) else CONNECT_TIMEOUT,
        search_budget(above if isinstance(above, int) else None, _window(settings, env)),
        _token_store(settings),
        bool(settings.get("trust_workspace")),
    )


def _token_store(settings: config.Values) -> StoreKind:
    """Raises ConfigError."""
    match settings.get("mcp_token_store", "file"):
        case "file":
            return "file"
        case "keyring":
            return "keyring"
        case kind:
            raise config.ConfigError(f'mcp.token_store is "file" or "keyring", not {kind!r}')


def _configured(name: str, table: Any, sources: tuple[str, ...], env: dict[str, str]) -> ConfiguredServer:
    try:
        return ConfiguredServer(name, sources, servers_from({name: table}, env)[0])
    except ServerConfigError as error:
        return ConfiguredServer(name, sources, None, str(error))


def _sources(flags: config.Values, env: dict[str, str], workspace: str) -> dict[str, tuple[str, ...]]:
    """For each server that a file describes: the files."""
    own, added = config.user_file(env), flags.get("config")
    paths = [path for path in config.files(env, workspace) if path == own or flags.get("trust_workspace")]
    sources: dict[str, tuple[str, ...]] = {}
    for path in [*paths, *([added] if isinstance(added, str) else [])]:
        for name in _table(_table(config.parse_file(path).get("mcp")).get("servers")):
            sources[name] = (*sources.get(name, ()), path)
    return sources


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _window(settings: config.Values, env: dict[str, str]) -> int:
    """The window of the model that would answer; zero if it is not known."""
    provider = str(settings["provider"])
    values = config.choose(settings, provider)
    if not provider:
        return 0
    model = values.get("model") or default_model(provider, str(values.get("base_url") or ""), env)
    return Catalogue(_table(values.get("models")), _table(values.get("prices"))).row(str(model or "")).window


class Probe:
    """Servers that are connected for a while. `reports` says what became of them."""

    def __init__(self, settings: ServerSettings, custody: Custody) -> None:
        self._settings = settings
        self._failures: dict[str, str] = {}
        self._ended: dict[str, float] = {}
        self._began = monotonic()
        self.tools: dict[str, Tool] = {}
        setup = ServerSetup(
            custody,
            settings.child_env,
            settings.workspace,
            self._report,
            connect_timeout=settings.connect_timeout,
            search_above_tokens=settings.search_above_tokens,
            token_store=settings.token_store,
            trusted=settings.trusted,
        )
        self.servers = Servers(self.tools, setup)

    def _report(self, event: Event) -> None:
        match event:
            case ServerChanged(name, status, reason=reason):
                self._ended.setdefault(name, monotonic() - self._began)
                if status == "failed":
                    self._failures[name] = reason

    async def connect(self, configured: Iterable[ConfiguredServer]) -> list[ServerReport]:
        """Connect all of them at the same time. Returns when each is ready or has failed."""
        chosen = list(configured)
        for one in chosen:
            if one.server:
                self.servers.add(one.server)
        while self.servers.starting():
            await self.servers.wait_for_change(self._settings.connect_timeout)
        statuses = {status.name: status for status in self.servers.status()}
        return [self._report_of(one, statuses.get(one.name)) for one in chosen]

    async def complete(self, report: ServerReport) -> ServerReport:
        """The same report with prompts and resources, which a server lists only after its tools."""
        name = report.configured.name
        await self.servers.wait_for_lists(name)
        status = next((status for status in self.servers.status() if status.name == name), report.status)
        return replace(report, status=status)

    def _report_of(self, one: ConfiguredServer, status: ServerStatus | None) -> ServerReport:
        if status is None:  # its settings are wrong, or its name is refused
            reason = one.fault or self._failures.get(one.name, "")
            return ServerReport(one, ServerStatus(one.name, one.transport, "failed", reason))
        tools = [self.tools[name] for name in status.tools]
        own = tuple(tool for tool in tools if isinstance(tool, ServerTool))
        return ServerReport(one, status, own, self._ended.get(one.name, 0.0))


@asynccontextmanager
async def probing(settings: ServerSettings) -> AsyncIterator[Probe]:
    """Servers can be connected while the block runs. They are ended with it."""
    secrets.conceal()
    custody = Custody(before=secrets.seal, adopt=True)
    probe = Probe(settings, custody)
    try:
        yield probe
    finally:
        await probe.servers.close()
        await custody.close()


def probe(settings: ServerSettings, configured: Iterable[ConfiguredServer]) -> list[ServerReport]:
    """Connect these servers and end them again. Nothing is started if there are none."""

    async def run() -> list[ServerReport]:
        async with probing(settings) as probe:
            return await probe.connect(configured)

    return asyncio.run(run()) if (configured := tuple(configured)) else []


def unconnected(configured: Iterable[ConfiguredServer]) -> list[ServerReport]:
    """Reports that say only what the settings do; a server that would be connected has the status `connecting`."""
    return [ServerReport(one, ServerStatus(one.name, one.transport, _condition(one), one.fault)) for one in configured]


def _condition(one: ConfiguredServer) -> Condition:
    if one.server is None:
        return "failed"
    return "disabled" if one.server.extras.get("disabled") is True else "connecting"
