"""ListMcpResources and ReadMcpResource: what MCP servers offer to be read, as tools of the model.

`Servers` has them among the engine's tools while a server with resources is connected. A call names its server. For
rules it counts as a call of that server's tool (`mcp__shop__ReadMcpResource`), so that a rule about a server holds for
what is read from it too.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from polylect.mcp.names import long_name
from polylect.mcp.values import Resource
from polylect.vocab.content import Category, Origin
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec
from polylect.wire.cut_text import cut_middle

RESOURCE_TOOLS = LIST, READ = "ListMcpResources", "ReadMcpResource"
_MOST = 50_000
_LIST_TEXT = """\
Lists what an MCP server offers to be read, as JSON: the server, the uri, and a description. A uriTemplate has parts \
in braces that you fill in. Read one with ReadMcpResource. Without a server, it names those that have resources."""
_READ_TEXT = "Reads a resource of an MCP server: a document, a record, an image. ListMcpResources tells what there is."
_SERVER = {"type": "string", "description": "The name of the server."}
_URI = {"type": "string", "description": "The uri of the resource, as it is listed."}


class ResourceServer(Protocol):
    """What a server with resources can do here."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that it lists, once `resources_listed` is set."""

    @property
    def resources_listed(self) -> asyncio.Event:
        """Set when they are known, or cannot be."""

    async def templates(self) -> list[dict[str, Any]]:
        """The templates that it lists, as JSON has them; none if it cannot say."""

    async def read_resource(self, uri: str, context: ToolContext) -> ToolReturn:
        """The contents of a resource, or why it cannot be read."""


Connected = Callable[[], Mapping[str, ResourceServer]]
"""The servers with resources that are connected now, by their names."""


class _ResourceTool:
    name: str
    category: Category = "mcp"
    origin: Origin = "mcp"

    def __init__(self, servers: Connected) -> None:
        self._servers = servers

    def long_name_for(self, args: dict[str, Any]) -> str:
        """The name by which rules know a call with these arguments."""
        return long_name(str(args.get("server") or ""), self.name)

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    def _unknown(self, server: object) -> ToolReturn:
        names = ", ".join(self._servers()) or "none"
        text = f"No connected MCP server {str(server)!r} has resources. Servers that have some: {names}"
        return ToolReturn(text, ok=False)


class ListMcpResources(_ResourceTool):
    """Lists the resources of one server. Without one it names only servers, because rules are about servers."""

    name = LIST
    spec = ToolSpec(LIST, _LIST_TEXT, {"type": "object", "properties": {"server": _SERVER}})

    def describe(self, args: dict[str, Any]) -> str:
        return f"MCP {args.get('server') or 'servers'}: list resources"

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        servers = self._servers()
        name = str(args.get("server") or "")
        if not name:
            return ToolReturn(f"Servers that have resources: {', '.join(servers)}. Call it with one of them as server.")
        if (server := servers.get(name)) is None:
            return self._unknown(name)
        await server.resources_listed.wait()
        rows = [{"server": name, **_row(resource)} for resource in server.resources]
        rows += [{"server": name, **template} for template in await server.templates()]
        text = "\n".join(msgspec.json.encode(row).decode() for row in rows) or "There are no resources."
        return ToolReturn(cut_middle(text, _MOST, context.spill(text) if len(text) > _MOST else ""))


class ReadMcpResource(_ResourceTool):
    """Reads one resource."""

    name = READ
    spec = ToolSpec(
        READ,
        _READ_TEXT,
        {"type": "object", "properties": {"server": _SERVER, "uri": _URI}, "required": ["server", "uri"]},
    )

    def describe(self, args: dict[str, Any]) -> str:
        return f"MCP {args.get('server')}: read {args.get('uri')}"

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        server = self._servers().get(str(args.get("server")))
        if server is None:
            return self._unknown(args.get("server"))
        return await server.read_resource(str(args.get("uri")), context)


def _row(resource: Resource) -> dict[str, str]:
    fields = {"name": resource.name, "mimeType": resource.media_type, "description": resource.description}
    return {"uri": resource.uri, **{key: value for key, value in fields.items() if value}}
