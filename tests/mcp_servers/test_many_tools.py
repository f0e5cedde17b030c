"""Servers with many tools, or with large results: they are read in slices, or in part."""

from pathlib import Path

import msgspec
import pytest

from doubles_mcp import CallContext, Stage, on_stage, script
from polylect.mcp.protocol.frames import MOST_PARTS
from polylect.mcp.servers import MOST_LISTED
from polylect.mcp.values import search_budget
from polylect.tools.builtin.tool_search import ToolSearch
from polylect.vocab.content import Server
from polylect.vocab.ports import Tool, tokens_of


def many(count: int, server: str = "many", **extras: bool) -> Server:
    return script("plain", "Many", str(count), server=server, extras=extras)


def hidden(stage: Stage) -> int:
    return sum(getattr(tool, "deferred", False) for tool in stage.tools.values())


def test_a_model_is_told_of_a_hundred_tools_and_finds_the_others(tmp_path: Path) -> None:
    tools: dict[str, Tool] = {}

    async def work(stage: Stage) -> None:
        search = ToolSearch(stage.tools)
        stage.servers.add(many(MOST_LISTED))
        await stage.received("many")
        assert (hidden(stage), search.deferred) == (0, True)
        stage.servers.add(many(1, "one"))
        await stage.received("one")
        assert (hidden(stage), search.deferred) == (1, False)
        result = await search.run({"query": "select:mcp__one__last"}, CallContext(tmp_path))
        assert '"name":"mcp__one__last"' in result.output
        assert hidden(stage) == 0

    on_stage(tmp_path, work, tools=tools)


def test_tools_that_would_exceed_the_budget_of_tokens_are_left_to_the_search(tmp_path: Path) -> None:
    async def tokens(stage: Stage) -> None:
        stage.servers.add(many(10))
        await stage.received("many")
        sizes.append(sum(tokens_of([tool.spec]) for tool in stage.tools.values()))

    async def within(stage: Stage) -> None:
        stage.servers.add(many(10))
        await stage.received("many")
        assert hidden(stage) == 0
        stage.servers.add(many(1, "one"))
        await stage.received("one")
        assert hidden(stage) == 1
        stage.servers.change("many", "remove")
        stage.servers.change("one", "reconnect")
        await stage.received("one", 2)
        assert hidden(stage) == 0

    async def beyond(stage: Stage) -> None:
        stage.servers.add(many(10))
        await stage.received("many")
        assert hidden(stage) == 10
        stage.servers.add(many(1, "one"))  # a server that is not described takes nothing of the budget
        await stage.received("one")
        assert hidden(stage) == 10

    sizes: list[int] = []
    on_stage(tmp_path, tokens)
    on_stage(tmp_path, within, search_above_tokens=sizes[0])
    on_stage(tmp_path, beyond, search_above_tokens=sizes[0] - 1)


@pytest.mark.parametrize(
    ("setting", "window", "budget"),
    [(None, 0, 20_000), (None, 200_000, 20_000), (None, 1_000_000, 20_000), (None, 32_000, 3200), (0, 32_000, 0)],
)
def test_the_budget_is_the_setting_or_a_tenth_of_the_window(setting: int | None, window: int, budget: int) -> None:
    assert search_budget(setting, window) == budget


def test_a_server_can_be_left_to_the_search(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(many(2, deferred=True))
        await stage.received("many")
        assert hidden(stage) == 2

    on_stage(tmp_path, work)


def test_a_long_list_is_what_a_short_one_is(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        for count in (3, 3000):  # the second one is read in slices
            stage.servers.add(many(count, f"many{count}", long_names=True))
            up = await stage.received(f"many{count}")
            assert len(up.tools) == count
        short, long = (stage.tools[f"mcp__many{count}__last"].spec for count in (3, 3000))
        assert (short.description, short.schema) == (long.description, long.schema)
        assert (await stage.call("mcp__many3000__last", {"path": "x"})).output == "last"

    on_stage(tmp_path, work)


def test_of_a_large_result_a_part_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Large", "100000", server="large"))
        await stage.received("large")
        parts = await stage.call("parts")
        left_out = "[99000 of the 100000 parts of this result were left out]"
        assert (parts.ok, parts.output.split("\n")) == (True, ["x"] * MOST_PARTS + [left_out])
        numbers = await stage.call("numbers")
        assert (numbers.ok, "does not follow the protocol" in numbers.output) == (False, True)
        context = CallContext(tmp_path)
        keys = await stage.call("keys", context=context)
        assert (keys.ok, keys.metadata, "/spilled/1.txt" in keys.output) == (True, None, True)
        assert msgspec.json.decode(context.spilled[0])["key99999"] == 99999
        both = await stage.call("both")
        assert both.output.startswith("short\n[the structured form of this result was left out: it has ")
        assert (both.ok, both.metadata) == (True, None)

    on_stage(tmp_path, work)


def test_a_short_result_with_many_parts_is_limited_as_well(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Large", "1005", server="large"))
        await stage.received("large")
        parts = (await stage.call("parts")).output.split("\n")
        assert parts == ["x"] * MOST_PARTS + ["[5 of the 1005 parts of this result were left out]"]
        both = await stage.call("both")
        assert (both.output, len((both.metadata or {})["structured"])) == ("short", 1005)

    on_stage(tmp_path, work)
