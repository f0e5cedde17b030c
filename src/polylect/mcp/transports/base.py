"""The interface that every transport to an MCP server has, and the values that it takes and gives.

A transport moves whole JSON-RPC messages as bytes and does not understand them. `mcp/connection.py` makes the messages,
and is the only reader and the only writer of its transport. Addresses and headers may hold keys, so they are in no text
that a transport raises or returns.
"""

from typing import Protocol

from msgspec import Struct

from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import Id


class Outgoing(Struct, frozen=True):
    """A message for the server. `line` is its JSON, without a newline; `id` is that of a request, else None.

    `name` is the tool, the prompt or the address of the resource that a request is about: HTTP sends it as a header.
    `headers` are further ones for HTTP, whose values are not encoded yet.
    """

    line: bytes
    id: Id = None
    method: str = ""
    name: str = ""
    headers: dict[str, str] = {}


class Failed(Struct, frozen=True):
    """A request that could not be delivered, or that the server refused. `status` is the one of HTTP, 0 without one."""

    id: Id
    reason: str
    status: int = 0


class Transport(Protocol):
    """A way to one server. It is started once and closed once."""

    async def start(self) -> None:
        """Open it. Raises ServerFault."""

    def send(self, message: Outgoing) -> None:
        """Queue a message: never waits and never sends a part of one. Raises ServerFault after the end."""

    async def receive(self) -> bytes | TooLong | Failed | None:
        """The next message of the server, or what became of a request; None at the end.

        What is not received yet is held in a bounded queue, so a server that writes faster is slowed down.
        """

    def cancel(self, id: Id) -> None:
        """Nobody waits for the answer to this request any more. HTTP closes its stream; stdio does nothing."""

    def negotiated(self, version: str) -> None:
        """The handshake is done. From now on HTTP names the protocol version in a header."""

    async def close(self) -> None:
        """End it, in bounded time."""
