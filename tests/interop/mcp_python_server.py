"""A server of the official Python SDK or of FastMCP, with the tools that mcp_features.py calls.

    mcp_python_server.py LIBRARY stdio | http | sse | modern      LIBRARY is mcp or fastmcp

All but stdio print their port first. `modern` is `http` without the handshake: it speaks only revision 2026-07-28.
"""

import asyncio
import json
import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp_types import (
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

LIBRARY, TRANSPORT = sys.argv[1], sys.argv[2]
if LIBRARY == "mcp":
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError
else:
    from fastmcp import Context
    from fastmcp import FastMCP as Server
    from fastmcp.exceptions import ToolError

warnings.simplefilter("ignore")  # what the newest revision deprecates is still what servers use
server: Any = Server("feature", version="1.2.3")
PIXEL = "iVBORw0KGgogcmVzdCBvZiBhIHBpY3R1cmU="
cancelled = asyncio.Event()


class Name(BaseModel):
    value: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("the oven is cold")


@server.tool(**({"structured_output": False} if LIBRARY == "mcp" else {"output_schema": None}))
def everything() -> list[Any]:
    """All kinds of content."""
    return [
        TextContent(type="text", text="first"),
        ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
        ResourceLink(type="resource_link", name="manual", uri="https://manual.example/1", description="how to"),
        TextContent(type="text", text="last"),
    ]


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and tell how far it has come."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "done"


async def meet(ctx: Context) -> str:
    """Ask who is there."""
    answer: Any = await ctx.elicit("Who are you?", Name)
    return f"{answer.action} {answer.data.value if answer.action == 'accept' else None}"


async def meet_by_result(ctx: Context) -> InputRequiredResult | str:
    """Ask who is there, and where."""
    if not ctx.input_responses:
        form = ElicitRequestFormParams(message="Who are you?", requested_schema=Name.model_json_schema())
        requests: Any = {"who": ElicitRequest(params=form), "where": ListRootsRequest()}
        return InputRequiredResult(input_requests=requests, request_state="opaque")
    who: Any = ctx.input_responses["who"]
    where: Any = ctx.input_responses["where"]
    assert ctx.request_state == "opaque"
    assert str(where.roots[0].uri).startswith("file:///")
    return f"{who.action} {who.content['value'] if who.action == 'accept' else None}"


server.tool(name="meet")(meet_by_result if TRANSPORT == "modern" else meet)


@server.tool()
async def wait(ctx: Context) -> str:
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


@server.resource("note://{number}", name="note", mime_type="text/plain")
def note(number: str) -> str:
    """One note."""
    return f"note {number}"


if LIBRARY == "mcp":

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        files = ("a.py", "ab.py", "b.py")
        return Completion(values=[file for file in files if file.startswith(argument.value)])

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Get another tool."""
        server.add_tool(lambda: "grown", name="leaf", description="A leaf.")
        await (ctx.notify_tools_changed() if TRANSPORT == "modern" else ctx.session.send_tool_list_changed())
        return "growing"

    if TRANSPORT != "modern":  # where a server makes no requests

        @server.tool()
        async def surroundings(ctx: Context) -> str:
            """Roots."""
            roots = await ctx.session.list_roots()
            return " ".join(str(root.uri) for root in roots.roots)


class WithoutHandshake:
    """Answers `initialize` as a server does that does not know it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        message = await receive()
        body = json.loads(message["body"])
        if body.get("method") != "initialize":
            messages = [message]
            return await self._app(scope, lambda: _next(messages, receive), send)
        error = {"code": -32601, "message": "Method not found"}
        data = json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode()
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"application/json")]})
        return await send({"type": "http.response.body", "body": data})


async def _next(messages: list[Any], receive: Any) -> Any:
    return messages.pop() if messages else await receive()


def main() -> None:
    if TRANSPORT == "stdio":
        return server.run(**({} if LIBRARY == "mcp" else {"show_banner": False, "log_level": "error"}))
    if TRANSPORT == "sse":
        app = server.sse_app()
    else:
        app = server.streamable_http_app() if LIBRARY == "mcp" else server.http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    served = WithoutHandshake(app) if TRANSPORT == "modern" else app
    return uvicorn.Server(uvicorn.Config(served, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
