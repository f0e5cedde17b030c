"""Resources of servers as the model reads them, and what rules about a server say to that."""

import sys
from pathlib import Path

import pytest

from doubles_mcp import Stage, on_stage, script
from engine_process import Place, message
from polylect.mcp.resource_tools import RESOURCE_TOOLS
from polylect.vocab.content import Server

PLAIN = Path(__file__).with_name("plain.py")


def notes(name: str = "notes") -> Server:
    return script("plain", "Notes", server=name)


def test_resources_are_listed_and_read(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(notes())
        await stage.received("notes")  # its resources are listed after that, and waited for
        listed = '{"server":"notes","uri":"note://all","name":"notes","mimeType":"text/plain"}'
        template = '{"server":"notes","uriTemplate":"note://{number}","name":"note"}'
        names = (await stage.call("ListMcpResources")).output  # rules are about servers, so it tells no more
        assert names == "Servers that have resources: notes. Call it with one of them as server."
        assert (await stage.call("ListMcpResources", {"server": "notes"})).output == f"{listed}\n{template}"
        read = await stage.call("ReadMcpResource", {"server": "notes", "uri": "note://7"})
        assert (read.ok, read.output) == (
            True,
            "[resource note://7]\nWhat note://7 says\n[resource note://7: of unknown type, 1 bytes, not shown]",
        )
        missing = await stage.call("ReadMcpResource", {"server": "notes", "uri": "note://13"})
        assert (missing.ok, missing.output) == (False, "MCP server notes: Resource not found")
        unknown = await stage.call("ReadMcpResource", {"server": "other", "uri": "note://1"})
        assert unknown.output == "No connected MCP server 'other' has resources. Servers that have some: notes"

    on_stage(tmp_path, work)


def test_the_tools_are_there_while_a_server_has_resources(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Named", "ReadMcpResource,echo", server="imposter"))
        assert (await stage.received("imposter")).tools == ("mcp__imposter__ReadMcpResource", "echo")
        assert not {*RESOURCE_TOOLS} & {*stage.tools}
        for name in ("one", "two"):
            stage.servers.add(notes(name))
            await stage.received(name)
        assert {*RESOURCE_TOOLS} <= {*stage.tools}
        stage.servers.change("one", "remove")
        assert {*RESOURCE_TOOLS} <= {*stage.tools}
        stage.servers.change("two", "disable")
        assert not {*RESOURCE_TOOLS} & {*stage.tools}

    on_stage(tmp_path, work)


def test_a_server_that_is_withheld_is_not_read_either(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(notes())
        await stage.received("notes")
        assert not {*RESOURCE_TOOLS} & {*stage.tools}

    on_stage(tmp_path, work, withheld=lambda name: name.startswith("mcp__notes__"))


@pytest.mark.parametrize(
    ("rule", "read"),
    [
        ('deny = ["mcp__notes"]', ["other"]),
        ('deny = ["mcp__notes__ReadMcpResource"]', ["other"]),
        ('deny = ["ReadMcpResource"]', []),
    ],
)
def test_a_rule_about_a_server_holds_for_its_resources(tmp_path: Path, rule: str, read: list[str]) -> None:
    with Place(tmp_path) as place:
        rows = [
            f"[mcp.servers.{name}]\ncommand = '{sys.executable}'\nargs = ['{PLAIN}', 'Notes']"
            for name in ("notes", "other")
        ]
        place.configure("\n".join((f"[tools]\n{rule}", *rows)))
        calls = [
            f'{{ call = "ReadMcpResource", id = "{name}", args = {{ server = "{name}", uri = "note://1" }} }}'
            for name in ("notes", "other")
        ]
        reply = f'[[reply]]\nwhen.step = 1\nsay = [{", ".join(calls)}]\n[[reply]]\ntext = "ok"\n'
        engine = place.started("--approval-mode", "force", script=reply)
        engine.send(message("go"))
        results = [frame for frame in engine.until("stream_end") if frame["type"] == "tool_result"]
        assert [frame["call_id"] for frame in results if frame["status"] == "success"] == read
