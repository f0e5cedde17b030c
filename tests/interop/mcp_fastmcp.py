"""A server made with FastMCP, with the tools that mcp_features.py calls: mcp_fastmcp.py stdio | http PORT."""

import asyncio
import socket
import sys
import warnings
from typing import Any

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

warnings.simplefilter("ignore")
server: Any = FastMCP("feature", version="1.2.3")
PIXEL = b"\x89PNG\r\n\x1a\n rest of a picture"
cancelled = asyncio.Event()


@server.tool(annotations={"readOnlyHint": True, "title": "Sum"})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("the oven is cold")


@server.tool(output_schema=None)
def everything() -> list[Any]:
    """All kinds of content."""
    return [
        TextContent(type="text", text="first"),
        Image(data=PIXEL, format="png").to_image_content(),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
        ResourceLink(type="resource_link", name="manual", uri="https://manual.example/1", description="how to"),
        TextContent(type="text", text="last"),
    ]


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Count, and tell how far it has come."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "done"


@server.tool
async def meet(ctx: Context) -> str:
    """Ask who is there."""
    answer: Any = await ctx.elicit("Who are you?", str)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool
async def wait(ctx: Context) -> str:
    """Wait for ever."""
    try:
        await ctx.report_progress(0, message="waiting")
        await asyncio.Event().wait()
    finally:
        cancelled.set()
    return "never"


@server.tool
async def regret() -> str:
    """Tell when the wait was cancelled."""
    await cancelled.wait()
    return "cancelled"


@server.prompt
def review(file: str, wish: str = "") -> str:
    """Review a file."""
    return f"Please review {file}. {wish}"


@server.resource("note://all", name="notes", mime_type="text/plain")
def notes() -> str:
    """All notes."""
    return "one note"


@server.resource("note://{number}", name="note", mime_type="text/plain")
def note(number: str) -> str:
    """One note."""
    return f"note {number}"


def main() -> None:
    if sys.argv[1] == "stdio":
        return server.run(show_banner=False, log_level="error")
    app = server.http_app()
    listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listening.getsockname()[1], flush=True)
    return uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
