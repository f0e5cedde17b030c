"""Tools that run in the host's program.

A host offers them in its hello. A call becomes a `HostCall` event, and the host's reply becomes the result. Results may
be text or content blocks as MCP has them; anything else is shown as JSON.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from polylect.engine.agent import Agent
from polylect.engine.context.images import BadPicture, check
from polylect.engine.host_calls import HostFault
from polylect.vocab.content import Category, Image, Origin
from polylect.vocab.describe_arguments import arguments
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec


class HostTool(Struct, frozen=True):
    """A tool as the host describes it. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class RemoteTool:
    """The engine's side of a host tool. Its effects are unknown, so it is asked about like an MCP tool."""

    category: Category = "mcp"
    origin: Origin = "host"

    def __init__(self, offered: HostTool, agent: Agent) -> None:
        self.name = offered.name
        schema = {"properties": {}, **offered.parameters, "type": "object"}
        self.spec = ToolSpec(offered.name, offered.description or f"The host's {offered.name}.", schema)
        self._agent = agent

    def describe(self, args: dict[str, Any]) -> str:
        return f"{self.name}: {arguments(args)}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        params = {"name": self.name, "args": args, "call": context.call}
        emit = self._agent.emitter(context.turn)
        try:
            return returned(
                await self._agent.host_calls.call("tool", params, emit, on_partial=_progress_of_partials(context))
            )
        except HostFault as fault:
            return ToolReturn(str(fault), ok=False)


def _progress_of_partials(context: ToolContext) -> Callable[[Any], None]:
    """Hosts send the whole output so far with each partial result; this passes on what is new."""
    shown = ""

    def show(part: Any) -> None:
        nonlocal shown
        text = returned(part).output
        context.progress(text.removeprefix(shown))
        shown = text

    return show


def returned(result: Any) -> ToolReturn:
    """The host's result as a ToolReturn."""
    match result:
        case None:
            return ToolReturn("")
        case str():
            return ToolReturn(result)
        case {"content": str() as text}:
            return ToolReturn(text, ok=not result.get("isError"))
        case {"content": list() as content}:
            parts = [_part(part) for part in content]
            images = tuple(part for part in parts if isinstance(part, Image))
            texts = [part for part in parts if isinstance(part, str)]
            return ToolReturn("\n".join(texts), ok=not result.get("isError"), images=images)
        case _:
            return ToolReturn(msgspec.json.encode(result).decode())


def _part(part: Any) -> str | Image:
    match part:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "image", "data": str() as data}:
            return _picture(data)
        case Mapping():
            return f"[{part.get('type', 'something')}, not shown]"
        case _:
            return str(part)


def _picture(data: str) -> str | Image:
    """An image, or a note in its place: one bad image would make a whole model request fail."""
    try:
        kind = check(base64.b64decode(data, validate=True))
    except (ValueError, BadPicture):
        kind = ""
    return Image(kind, data) if kind else "[image, not shown]"
