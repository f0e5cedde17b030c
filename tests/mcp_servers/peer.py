"""A server inside the test, of any revision, for what a connection does with each message.

It is reached as servers inside a host are, so there is no process. Every message of the client is held against the
schema of the revision, and is kept in `Peer.heard`.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from doubles_mcp import CallContext
from machine import PATIENCE
from mcp_servers.published_schema import Wire
from polylect.mcp.connection import Connection, connected
from polylect.mcp.server_log import ServerLog
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask

SERVER = Server("peer", "host")
ALL = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "completions": {},
}
Object = dict[str, Any]


class Refuses(Exception):
    """What a handler raises to answer with an error."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        self.error = {"code": code, "message": message} | ({"data": data} if data is not None else {})


class Peer:
    """`handlers` are called with the parameters of a request, by the name of its method, and return the result."""

    def __init__(self, version: str = "2025-11-25", **handlers: Any) -> None:
        self.version = version
        self.handlers = {name.replace("_", "/"): handler for name, handler in handlers.items()}
        self.received: list[Object] = []
        self.wire = Wire()
        self.changed: list[str] = []
        self.context = CallContext(Path("/"))
        self._send: Callable[[Any], None] = lambda message: None
        self._received = asyncio.Event()

    def send(self, method: str, params: Any = None, id: Any = None) -> None:
        """Send a notification, or with an id a request."""
        message = {"jsonrpc": "2.0", "method": method, **({"id": id} if id is not None else {})}
        self.send_raw({**message, "params": params} if params is not None else message)

    def send_raw(self, message: Any) -> None:
        if isinstance(message, dict):
            self.wire.note(message, "server")
        self._send(message)

    async def receive(self, name: str, message: Object) -> Any:
        """A message of the client. Returns the answer to it."""
        self.received.append(message)
        self.wire.check(message, "client")
        self._received.set()
        if "method" not in message or "id" not in message:
            return {}
        try:
            answer = {"result": await self._result(message["method"], message.get("params", {}))}
        except Refuses as refused:
            answer = {"error": refused.error}
        reply = {"jsonrpc": "2.0", "id": message["id"], **answer}
        self.wire.note(reply, "server")
        return reply

    async def _result(self, method: str, params: Object) -> Any:
        if handler := self.handlers.get(method):
            result = handler(params) if callable(handler) else handler
            return await result if inspect.isawaitable(result) else result
        modern = self.version >= "2026"
        match method:
            case "initialize" if not modern:
                info = {"name": "peer", "version": "1"}
                return {"protocolVersion": self.version, "capabilities": ALL, "serverInfo": info}
            case "server/discover" if modern:
                return {"supportedVersions": [self.version], "capabilities": ALL, "resultType": "complete"}
            case "subscriptions/listen" if modern:
                await asyncio.Event().wait()
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        raise Refuses(-32601, f"Method not found: {method}")

    def requests(self, method: str) -> list[Object]:
        """The messages of the client with this method."""
        return [message for message in self.received if message.get("method") == method]

    async def answer_to(self, id: Any) -> Object:
        """What the client answers to a request of ours, once it does."""
        while True:
            for message in self.received:
                if "method" not in message and message["id"] == id:
                    return message
            self._received.clear()
            await self._received.wait()

    async def ask(self, question: Ask) -> Answer:
        return await self.context.ask(question)


def talk(peer: Peer, work: Callable[[Connection], Awaitable[None]], workspace: str = "/a b", **options: Any) -> None:
    """Connect to a server of the test and use the connection, in bounded time."""

    async def main() -> None:
        custody = Custody()
        setup = ServerSetup(
            children=custody,
            env=dict(os.environ),
            workspace=workspace,
            report=lambda event: None,
            host=peer.receive,
            inboxes={},
            **options,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                async with connected(SERVER, setup, ServerLog(SERVER), peer.ask, peer.changed.append) as connection:
                    peer._send = setup.inboxes[SERVER.name]
                    await work(connection)
        finally:
            await custody.close()

    asyncio.run(main())
