"""The ways to a server: a child's pipes, SSE, streamable HTTP, the host itself.

Importing it loads the SDK.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, RequestId

from polylect.mcp.configured import PRIVATE, WORKSPACE
from polylect.mcp.host import in_host
from polylect.mcp.large import Pages, limit_parts
from polylect.mcp.pipes import Incoming, Outgoing
from polylect.mcp.server_log import Remarks
from polylect.mcp.values import Fault, Place
from polylect.permissions.rules import is_below
from polylect.sessions.folder import sessions_root
from polylect.system.child_environment import server_environment
from polylect.system.search_paths import entries_outside
from polylect.system.threads import run_in_thread
from polylect.vocab.content import Server
from polylect.wire.jsonl import MAX_LINE

_ANSWER = 30.0
_IDLE = 24 * 3600.0
"""A stream may be silent for long; a call has a limit of its own."""

for _name in ("httpx2", "httpcore2"):  # they log whole addresses, and those may hold keys
    logging.getLogger(_name).setLevel(logging.WARNING)


@asynccontextmanager
async def streams(
    server: Server, place: Place, remarks: Remarks, lost: asyncio.Event, pages: Pages
) -> AsyncIterator[Any]:
    """The SDK's two streams. `lost` is set when the one that comes in has ended; `pages` gets lists that are large."""
    needed = "command" if server.transport == "stdio" else "url"
    if server.transport != "host" and not getattr(server, needed):
        raise Fault(f"the transport {server.transport} needs a {needed}")
    match server.transport:
        case "stdio":
            env = _environment(server, place)
            cwd = _folder(server, place)
            argv = (server.command, *server.args)
            child = await place.children.open(argv, cwd=cwd, env=env, on_error_output=remarks.error_output)
            try:
                asked: dict[RequestId, str] = {}
                yield Incoming(child, asked, remarks, lost, pages), Outgoing(child, asked, lost)
            finally:
                await child.close()
        case "sse":
            client = await run_in_thread(_http_client, server, remarks, lost)
            async with sse_client(server.url, httpx_client_factory=lambda *_, **__: client) as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing
        case "http":
            client = await run_in_thread(_http_client, server, remarks, lost)
            http = streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_LINE)
            async with client, http as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing
        case "host":
            async with in_host(server.name, place, remarks) as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing


def _environment(server: Server, place: Place) -> dict[str, str]:
    """What a server sees. Programs that it starts by name do not come from the workspace either."""
    env = server_environment(place.env, server.env)
    if "PATH" in env and "PATH" not in server.env:
        env["PATH"] = entries_outside(env["PATH"], place.workspace)
    return env


def _folder(server: Server, place: Place) -> str:
    """Where a server runs.

    npx, python and their kind load code from their working folder. A workspace may be a stranger's, so a server of the
    user's own settings, which comes up in every workspace, runs in an empty folder that commands cannot write to.
    """
    cwd = str(server.extras.get("cwd") or WORKSPACE)
    if cwd == WORKSPACE:
        return place.workspace
    if cwd != PRIVATE:
        return cwd
    folder = os.path.join(os.path.dirname(sessions_root(dict(place.env))), "servers")
    if is_below(folder, os.path.realpath(place.workspace)):
        return "/"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return "/"
    return folder if not os.listdir(folder) else "/"


def _http_client(server: Server, remarks: Remarks, lost: asyncio.Event) -> httpx2.AsyncClient:
    """Reads certificates, which takes a while: not for the event loop's thread."""

    async def hear(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            remarks.refusal(response.status_code, response.reason_phrase)
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            lost.set()  # the server has forgotten this session, and wants a new one

    timeout = httpx2.Timeout(_ANSWER, read=_IDLE)
    return httpx2.AsyncClient(headers=server.headers, timeout=timeout, event_hooks={"response": [hear]})


class WatchedStream:
    """A stream of the SDK that tells when it ends, and limits the results that come in."""

    def __init__(self, stream: Any, lost: asyncio.Event) -> None:
        self._stream = stream
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "WatchedStream":
        return self

    async def __anext__(self) -> Any:
        try:
            item = await anext(self._stream)
        except StopAsyncIteration:
            self._lost.set()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            limit_parts(item.message.result)
        return item

    async def __aenter__(self) -> Any:
        return await self._stream.__aenter__()

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._stream.__aexit__(*exc)
