"""A server's tool in a conversation."""

from pathlib import Path
from typing import Any

import msgspec

from doubles import converse
from polylect.mcp.tool import ListedTool, ServerTool
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Prompt
from polylect.vocab.events import ToolFinished
from polylect.vocab.ports import ToolContext, ToolReturn


def test_a_server_is_not_called_with_arguments_that_do_not_fit_the_schema(tmp_path: Path) -> None:
    called: list[dict[str, Any]] = []

    async def call(name: str, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        called.append(args)
        return ToolReturn("done")

    schema = {"properties": {"number": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    tool = ServerTool("square", "maths", ListedTool("square", "", msgspec.json.encode(schema)), call)
    tries = [{"call": "square", "id": f"c{number}", "args": {"number": number}} for number in ("one", 2)]
    talk = converse(tmp_path, Scripted.in_order([*tries, "ok"]), [Prompt("t1", "go")], tool, mode="force")
    assert [event.output for event in talk.of(ToolFinished)] == [
        "Wrong parameter: number: expected integer, got a string",
        "done",
    ]
    assert called == [{"number": 2}]


async def _never(name: str, args: dict[str, Any], context: ToolContext) -> ToolReturn:
    raise AssertionError


def test_a_schema_of_megabytes_does_not_go_into_every_request() -> None:
    schema = {"properties": {f"p{number}": {"type": "string"} for number in range(10_000)}}
    tool = ServerTool("large", "maths", ListedTool("large", "", msgspec.json.encode(schema)), _never)
    assert tool.spec.schema == {"type": "object", "properties": {}}
