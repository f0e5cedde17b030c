"""One tool of a server, as the engine knows tools."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from polylect.mcp.names import long_name
from polylect.vocab.argument_schema import misfit
from polylect.vocab.content import Category, Origin
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec
from polylect.vocab.shown import arguments

_MOST_DESCRIPTION = 4000


class Listed(msgspec.Struct, frozen=True):
    """A tool as its server lists it."""

    name: str
    description: str
    schema: dict[str, Any]


class ServerTool:
    """A `Tool` that a server does the work of. What it touches cannot be known."""

    category: Category = "mcp"
    origin: Origin = "mcp"

    def __init__(
        self,
        name: str,
        server: str,
        listed: Listed,
        call: Callable[[str, dict[str, Any], ToolContext], Awaitable[ToolReturn]],
    ) -> None:
        self.name = name
        self.long_name = long_name(server, listed.name)
        self.listed = listed
        self.spec = ToolSpec(name, _description(server, listed), _schema(listed.schema))
        self._server = server
        self._call = call

    def describe(self, args: dict[str, Any]) -> str:
        return f"MCP {self._server}/{self.listed.name}: {arguments(args)}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    def misfit(self, args: dict[str, Any]) -> str:
        """What is wrong with the arguments. The engine asks before it runs the tool."""
        return misfit(args, self.spec.schema)

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return await self._call(self.listed.name, args, context)


def _description(server: str, listed: Listed) -> str:
    text = listed.description.strip() or f"The tool {listed.name} of the MCP server {server}."
    return text if len(text) <= _MOST_DESCRIPTION else f"{text[:_MOST_DESCRIPTION]} ..."


def _schema(told: dict[str, Any]) -> dict[str, Any]:
    """What every vendor insists on, also where a server leaves it out."""
    return {**told, "type": "object", "properties": told.get("properties") or {}}
