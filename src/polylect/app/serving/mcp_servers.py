"""Opens the MCP servers of an engine when the first one is added, by settings, a host or an embedding program.

Called through `agent.open_servers`, which `assembly.py` sets. Nothing of `polylect.mcp` is imported
before there is a server.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from polylect.engine.agent import Agent
from polylect.tools.process.custody import Custody
from polylect.vocab.events import Event
from polylect.vocab.ports import Children, Servers

if TYPE_CHECKING:
    from polylect.mcp.shared_servers import SharedServers

_SHARED: "WeakKeyDictionary[asyncio.AbstractEventLoop, SharedServers]" = WeakKeyDictionary()
"""The servers that sessions share, by their event loop."""


def open_servers(
    children: Children,
    agent: Agent,
    *,
    long_names: bool = False,
    withheld: Callable[[str], bool] | None = None,
    open_shared: Callable[[], Custody] | None = None,
) -> Servers:
    """Servers whose tools are added to the agent's and whose processes belong to `children`; see `mcp/servers.py`.

    With `open_shared`, which makes a custody that outlives the session, they are shared with other sessions of this
    event loop, unless the settings say otherwise.
    """
    from polylect.mcp.servers import Servers as McpServers  # 30 ms, and only where there is a server
    from polylect.mcp.values import CONNECT_TIMEOUT, ServerSetup, search_budget

    def report(event: Event) -> None:
        agent.emit(event)
        agent.callbacks.offer_changed()

    async def to_host(server: str, message: object) -> object:
        params = {"server_name": server, "message": message}
        return await agent.host_calls.call("mcp_message", params, agent.emit)

    settings = agent.settings
    window = agent.provider.info(settings.model).window
    setup = ServerSetup(
        children,
        agent.env,
        settings.workspace,
        report,
        connect_timeout=max(CONNECT_TIMEOUT, settings.mcp_wait),
        call_timeout=settings.mcp_call_timeout,
        on_commands=agent.callbacks.offer_changed,
        host=to_host,
        search_above_tokens=search_budget(settings.mcp_search_above_tokens, window),
        token_store=settings.mcp_token_store,
        sampling=settings.mcp_sampling,
        sampling_max_tokens=settings.mcp_sampling_max_tokens,
        trusted=settings.trust_workspace,
    )
    shared = _shared(open_shared) if open_shared and settings.mcp_share_servers else None
    return McpServers(agent.tools, setup, long_names=long_names, withheld=withheld, shared=shared)


def _shared(open_children: Callable[[], Custody]) -> "SharedServers":
    from polylect.mcp.shared_servers import SharedServers

    loop = asyncio.get_running_loop()
    if loop not in _SHARED:
        _SHARED[loop] = SharedServers(open_children)
    return _SHARED[loop]
