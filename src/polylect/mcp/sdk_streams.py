"""Opens the SDK's two streams to an MCP server, by its transport: stdio, SSE, streamable HTTP or inside the host.

A stdio server is a child process in custody. It gets a small environment (`system/child_environment.py`), a PATH
without folders of the workspace, and, if the user's own settings name it, an empty working folder. So no code of a
workspace runs with the rights of a server.

Importing this module loads the SDK. Called by `connection.py`.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, RequestId

from polylect.mcp.host_streams import host_streams
from polylect.mcp.http_bodies import Bodies
from polylect.mcp.large_results import Pages, limit_lists
from polylect.mcp.server_config import PRIVATE, WORKSPACE
from polylect.mcp.server_log import ServerLog
from polylect.mcp.stdio_streams import Incoming, Outgoing
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.permissions.rules import is_below
from polylect.sessions.folder import sessions_root
from polylect.system.child_environment import server_environment
from polylect.system.search_paths import entries_outside
from polylect.system.threads import run_in_thread
from polylect.vocab.content import Server
from polylect.wire.jsonl import MAX_LINE

_ANSWER_TIMEOUT = 30.0
_IDLE_TIMEOUT = 24 * 3600.0
"""Seconds. A stream may be silent for long; a call has a time limit of its own."""

for _name in ("httpx2", "httpcore2"):  # they log whole addresses, and those may hold keys
    logging.getLogger(_name).setLevel(logging.WARNING)


@asynccontextmanager
async def streams(
    server: Server, setup: ServerSetup, log: ServerLog, lost: asyncio.Event, pages: Pages
) -> AsyncIterator[Any]:
    """The incoming and the outgoing stream. `lost` is set when the incoming one has ended; `pages` gets large lists."""
    needed = "command" if server.transport == "stdio" else "url"
    if server.transport != "host" and not getattr(server, needed):
        raise ServerFault(f"the transport {server.transport} needs a {needed}")
    match server.transport:
        case "stdio":
            env = _environment(server, setup)
            cwd = _working_folder(server, setup)
            argv = (server.command, *server.args)
            child = await setup.children.open(argv, cwd=cwd, env=env, on_error_output=log.error_output)
            try:
                pending: dict[RequestId, str] = {}
                yield Incoming(child, pending, log, lost, pages), Outgoing(child, pending, lost)
            finally:
                await child.close()
        case "sse":
            client = await run_in_thread(_http_client, server, log, lost, pages)
            async with sse_client(server.url, httpx_client_factory=lambda *_, **__: client) as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing
        case "http":
            client = await run_in_thread(_http_client, server, log, lost, pages)
            http = streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_LINE)
            async with client, http as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing
        case "host":
            async with host_streams(server.name, setup, log) as (incoming, outgoing):
                yield WatchedStream(incoming, lost), outgoing


def _environment(server: Server, setup: ServerSetup) -> dict[str, str]:
    """The variables of a server. Its PATH has no folder of the workspace, unless its settings name one."""
    env = server_environment(setup.env, server.env)
    if "PATH" in env and "PATH" not in server.env:
        env["PATH"] = entries_outside(env["PATH"], setup.workspace)
    return env


def _working_folder(server: Server, setup: ServerSetup) -> str:
    """The folder in which a server runs.

    npx, python and similar programs load code from their working folder, and the author of a workspace may be unknown.
    So a server runs in an empty folder that commands cannot write to, unless its settings or its host name another one,
    or the workspace is trusted.
    """
    cwd = str(server.extras.get("cwd") or (WORKSPACE if setup.trusted else PRIVATE))
    if cwd == WORKSPACE:
        return setup.workspace
    if cwd != PRIVATE:
        return os.path.join(setup.workspace, cwd)
    folder = os.path.join(os.path.dirname(sessions_root(dict(setup.env))), "servers")
    if is_below(folder, os.path.realpath(setup.workspace)):
        return "/"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return "/"
    return folder if not os.listdir(folder) else "/"


def _http_client(server: Server, log: ServerLog, lost: asyncio.Event, pages: Pages) -> httpx2.AsyncClient:
    """Reads certificates, which takes long: call it in a thread."""
    bodies = Bodies(pages)

    async def on_response(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            log.http_error(response.status_code, response.reason_phrase)
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            lost.set()  # the session has expired: the specification asks for a new one

    timeout = httpx2.Timeout(_ANSWER_TIMEOUT, read=_IDLE_TIMEOUT)
    headers = {"Accept-Encoding": "identity", **server.headers}
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [bodies.on_request],
        "response": [on_response, bodies.on_response],
    }
    return httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks)


class WatchedStream:
    """An incoming stream of the SDK. Sets `lost` at its end and limits the size of results."""

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
            limit_lists(item.message.result)
        return item

    async def __aenter__(self) -> Any:
        return await self._stream.__aenter__()

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._stream.__aexit__(*exc)
