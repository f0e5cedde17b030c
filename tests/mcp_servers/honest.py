"""A server made with the official SDK: one tool for each thing that a server can do.

    honest.py stdio
    honest.py sse PORT
    honest.py http PORT

The latter two print their port first.
"""

import asyncio
import os
import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel

warnings.simplefilter("ignore")  # what the newest revision deprecates is still what servers use
server = MCPServer("honest", version="1.2.3")
PIXEL = b"\x89PNG\r\n\x1a\n rest of a picture"
cancelled = asyncio.Event()


class Person(BaseModel):
    name: str
    age: int


class Colour(BaseModel):
    colour: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("the oven is cold")


@server.tool(structured_output=False)
def everything() -> list[Any]:
    """All kinds of content."""
    return [
        "first",
        Image(data=PIXEL, format="png"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
        ResourceLink(type="resource_link", name="manual", uri="https://manual.example/1", description="how to"),
        TextContent(type="text", text="last"),
    ]


@server.tool()
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Count, and tell how far it has come."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "done"


@server.tool()
async def meet(ctx: Context[Any, Any]) -> str:
    """Ask who is there."""
    met = await ctx.elicit("Who are you?", Person)
    return f"{met.action} {getattr(met, 'data', None)!r}"


@server.tool()
async def paint(ctx: Context[Any, Any]) -> str:
    """Ask for a colour."""
    met = await ctx.elicit("Which colour?", Colour)
    return f"{met.action} {getattr(met, 'data', None)!r}"


@server.tool()
async def surroundings(ctx: Context[Any, Any]) -> str:
    """Roots, environment, working folder, and what sampling says."""
    roots = await ctx.session.list_roots()
    try:
        await ctx.session.create_message([], max_tokens=1)
        sampled = "sampled"
    except Exception as error:  # noqa: BLE001
        sampled = str(error)
    facts = [str(root.uri) for root in roots.roots], os.getcwd(), sampled
    return f"{facts} {sorted(os.environ)}"


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Get another tool."""
    server.add_tool(lambda: "grown", name="leaf", description="A leaf.")
    await ctx.session.send_tool_list_changed()
    return "growing"


@server.tool()
async def wait(ctx: Context[Any, Any]) -> str:
    """Wait for ever."""
    try:
        await ctx.report_progress(0, message="waiting")
        await asyncio.Event().wait()
    finally:
        cancelled.set()
    return "never"


@server.tool()
async def regret() -> str:
    """Tell when the wait was cancelled."""
    await cancelled.wait()
    return "cancelled"


@server.prompt()
def review(file: str, wish: str = "") -> str:
    """Review a file."""
    return f"Please review {file}. {wish}"


@server.resource("note://all", name="notes", mime_type="text/plain")
def notes() -> str:
    """All notes."""
    return "one note"


def main() -> None:
    how = sys.argv[1]
    if how == "stdio":
        return server.run()
    app = server.sse_app() if how == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listening.getsockname()[1], flush=True)
    return uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
