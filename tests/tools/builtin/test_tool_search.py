"""ToolSearch: tools that cost nothing until they are found."""

import asyncio
import json
from pathlib import Path

import pytest

from doubles_tools import FolderContext
from polylect.tools.builtin.todo_write import TodoWrite
from polylect.tools.builtin.tool_search import Deferrable
from polylect.tools.standard import standard_tools
from polylect.vocab.ports import Tool, ToolReturn, ToolSpec


class Hidden(TodoWrite):
    """Any tool that is told of only when it is found."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__()
        self.name = name
        self.spec = ToolSpec(name, description, {"type": "object"})
        self.deferred = True


@pytest.fixture
def tools() -> dict[str, Tool]:
    tools = standard_tools()
    for tool in (
        Hidden("create_issue", "Opens an issue in the tracker"),
        Hidden("list_pages", "Lists wiki pages and issues"),
        Hidden("send_mail", "Sends mail"),
    ):
        tools[tool.name] = tool
    return tools


def reported(tools: dict[str, Tool]) -> set[str]:
    """What a request to a model holds."""
    return {tool.name for tool in tools.values() if not (isinstance(tool, Deferrable) and tool.deferred)}


def search(tools: dict[str, Tool], query: str) -> ToolReturn:
    return asyncio.run(tools["ToolSearch"].run({"query": query}, FolderContext(Path("."))))


def test_without_anything_to_find_it_is_not_told_of_itself(tools: dict[str, Tool]) -> None:
    assert "ToolSearch" not in reported(standard_tools())
    assert "ToolSearch" in reported(tools)
    search(tools, "select:create_issue,list_pages,send_mail")
    assert "ToolSearch" not in reported(tools)


def test_what_is_found_can_be_called_from_then_on(tools: dict[str, Tool]) -> None:
    assert reported(tools) & {"create_issue", "list_pages", "send_mail"} == set()
    specs = json.loads(search(tools, "Issue tracker").output)
    assert [spec["name"] for spec in specs] == ["create_issue", "list_pages"]
    assert specs[0] == {
        "name": "create_issue",
        "description": "Opens an issue in the tracker",
        "parameters": {"type": "object"},
    }
    assert reported(tools) & {"create_issue", "list_pages", "send_mail"} == {"create_issue", "list_pages"}


def test_tools_are_selected_by_name(tools: dict[str, Tool]) -> None:
    specs = json.loads(search(tools, "select: send_mail, nothing, Read, ToolSearch").output)
    assert [spec["name"] for spec in specs] == ["send_mail", "Read"]
    assert reported(tools) & {"create_issue", "send_mail"} == {"send_mail"}


def test_nothing_found_names_what_there_is(tools: dict[str, Tool]) -> None:
    for query in ("quantum", "select:quantum"):
        result = search(tools, query)
        assert not result.ok
        assert result.output.endswith("Tools that can be found: create_issue, list_pages, send_mail.")
