"""A tool of an MCP server in the form that the engine expects of every tool (`vocab.ports.Tool`).

`ServerTool` only describes the tool; calls go to the `ServerSupervisor` of its server. Its schema stays JSON until the
model is told of the tool, because a server may list 50 000 tools. `Servers` creates one for each tool that is listed.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

import msgspec

from polylect.mcp.names import long_name
from polylect.vocab.content import Category, Origin
from polylect.vocab.describe_arguments import arguments
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec, tokens_of

_MOST_DESCRIPTION = 4000
MOST_SCHEMA = 64 * 1024
"""Bytes of a schema that the model is told of. It goes into every request, so a longer one is left out."""


class ListedTool(msgspec.Struct, frozen=True):
    """A tool as its server lists it. The schemas are JSON and are decoded when they are used."""

    name: str
    description: str
    schema: bytes
    output_schema: bytes = b""


class ServerTool:
    """A `Tool` that a server runs. Which files it touches cannot be known."""

    category: Category = "mcp"
    origin: Origin = "mcp"

    def __init__(
        self,
        name: str,
        server: str,
        listed: ListedTool,
        call: Callable[[str, dict[str, Any], ToolContext], Awaitable[ToolReturn]],
    ) -> None:
        """`name` is the tool's name in the engine."""
        self.name = name
        self.listed = listed
        self.deferred = False
        """Whether the model gets it only once ToolSearch has found it."""
        self._server = server
        self._call = call

    @property
    def long_name(self) -> str:
        return long_name(self._server, self.listed.name)

    @property
    def summary(self) -> str:
        """The text that ToolSearch searches; the schema is not needed for it."""
        return self.listed.description

    @cached_property
    def spec(self) -> ToolSpec:
        large = len(self.listed.schema) > MOST_SCHEMA
        schema = {} if large else msgspec.json.decode(self.listed.schema, type=dict[str, Any])
        schema = {**schema, "type": "object", "properties": schema.get("properties") or {}}
        return ToolSpec(self.name, _description(self._server, self.listed), schema)

    @property
    def tokens(self) -> int:
        """The estimated tokens that describing it takes in every request."""
        return tokens_of((self.spec,))

    def describe(self, args: dict[str, Any]) -> str:
        return f"MCP {self._server}/{self.listed.name}: {arguments(args)}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return await self._call(self.listed.name, args, context)


def _description(server: str, listed: ListedTool) -> str:
    text = listed.description.strip() or f"The tool {listed.name} of the MCP server {server}."
    return text if len(text) <= _MOST_DESCRIPTION else f"{text[:_MOST_DESCRIPTION]} ..."
