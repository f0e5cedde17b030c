"""ToolSearch: finds tools that were not listed to the model.

Vendors limit the number of tools, and each costs tokens. So a tool whose `deferred` is true is not listed. When this
tool finds it, `deferred` becomes false, and the model can call it from its next step on. Mostly these are tools of MCP
servers that have many.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec
from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Tool, ToolContext, ToolReturn
from polylect.wire.cut_text import cut_middle

TEXT = """\
Finds further tools, which can be called once they were found: by words of what they should do, or by their names as
`select:NAME,NAME`. The answer is each tool's name, description and parameters."""

MOST_FOUND = 10
MOST_QUERY = 2000
MOST_NAMES = 200
MOST = 50_000


@runtime_checkable
class Deferrable(Protocol):
    """A tool that need not be listed to the model."""

    deferred: bool


class Arguments(Struct, frozen=True):
    query: Annotated[str, Meta(min_length=1, description="Words to look for, or `select:NAME,NAME`.")]


class ToolSearch(TypedTool[Arguments]):
    """Listed to the model only while there is a deferred tool."""

    name = "ToolSearch"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        super().__init__()
        self._tools = tools

    @property
    def deferred(self) -> bool:
        return not any(tool is not self and getattr(tool, "deferred", False) for tool in self._tools.values())

    def describe(self, args: dict[str, Any]) -> str:
        return f"Search tools: {display_argument(args, 'query')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        if len(args.query) > MOST_QUERY:
            raise ToolError(f"The query has {len(args.query)} characters; at most {MOST_QUERY} are taken.")
        tools = self._selected(args.query) if args.query.startswith("select:") else self._like(args.query)
        if not tools:
            names = ", ".join(sorted(tool.name for tool in self._hidden())[:MOST_NAMES]) or "none"
            raise ToolError(f"No tool was found for {args.query!r}. Tools that can be found: {names}.")
        for tool in tools:
            if isinstance(tool, Deferrable):
                tool.deferred = False
        specs = [
            {"name": tool.spec.name, "description": tool.spec.description, "parameters": tool.spec.schema}
            for tool in tools
        ]
        return ToolReturn(cut_middle(msgspec.json.encode(specs).decode(), MOST))

    def _hidden(self) -> list[Tool]:
        """The deferred tools. Called with every model request, so without isinstance, which takes 0.25 ms for a
        protocol."""
        return [tool for tool in self._tools.values() if tool is not self and getattr(tool, "deferred", False)]

    def _selected(self, query: str) -> list[Tool]:
        """Tools by their names, also those that are listed already."""
        names = [name.strip() for name in query.removeprefix("select:").split(",")]
        return [self._tools[name] for name in names if name in self._tools and name != self.name]

    def _like(self, query: str) -> list[Tool]:
        words = query.lower().split()
        ranked = [(_rank(tool, words), tool.name) for tool in self._hidden()]
        best = sorted((-rank, name) for rank, name in ranked if rank)[:MOST_FOUND]
        return [self._tools[name] for _, name in best]


def _rank(tool: Tool, words: list[str]) -> int:
    """A word in the name counts three times. A tool whose spec is costly to make has a `summary` to search instead."""
    summary: str | None = getattr(tool, "summary", None)
    name, text = tool.name.lower(), (tool.spec.description if summary is None else summary).lower()
    return sum(3 * (word in name) + (word in text) for word in words)


def open_tool(setup: ToolSetup) -> Tool:
    return ToolSearch(setup.tools)
