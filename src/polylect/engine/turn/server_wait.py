"""A turn waits for MCP servers that are still starting, so that its first request already has their tools.

Hosts add servers and send a prompt right after; `ready` waits for no server, so the prompt has to. The wait ends when
every server has come up or failed, and for each server at the latest `bound` seconds after it was added: a server that
hangs delays one prompt, once. While it lasts the host gets a `Notice` that names the servers. `McpServers.wait` in
`engine/commands/context.py` calls it for turns of the main agent only: a sub-agent runs inside such a turn.
"""

import asyncio
from collections.abc import Callable, Iterable

from polylect.vocab.events import Event, Notice
from polylect.vocab.ports import Servers

FIRST_NOTICE = 1.0
"""Seconds of silence before the first notice: most servers are up by then."""
NOTICE_INTERVAL = 5.0


async def wait_for_servers(servers: Servers, bound: float, emit: Callable[[Event], None]) -> None:
    """Returns once no server has to be waited for. Can be cancelled at any time."""
    clock = asyncio.get_running_loop().time
    began = clock()
    next_notice = began + FIRST_NOTICE
    waited_for: set[str] = set()
    while ages := {name: age for name, age in servers.starting().items() if age < bound}:
        waited_for.update(ages)
        if clock() >= next_notice:
            emit(Notice(f"Waiting for {_named(ages)} ({clock() - began:.0f} s)."))
            next_notice = clock() + NOTICE_INTERVAL
        await servers.wait_for_change(min(next_notice - clock(), bound - max(ages.values())))
    if late := waited_for & servers.starting().keys():
        text = f"Going on without {_named(late)}: not up after {bound:g} s. The tools can be used once it is up."
        emit(Notice(text, "warning"))


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    return f"MCP server{'s' if len(listed) > 1 else ''} {', '.join(listed)}"
