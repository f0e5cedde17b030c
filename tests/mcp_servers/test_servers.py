"""Servers come and go while the engine works; none waits for another."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from doubles_mcp import CallContext, Stage, on_stage, script
from polylect.vocab.content import Server
from polylect.vocab.events import ServerChanged


def works(name: str) -> Server:
    return script("plain", "Works", server=name)


def test_L5_servers_connect_side_by_side_and_a_slow_one_delays_nobody(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Silent", server="silent"))
        for number in range(8):
            stage.servers.add(works(f"s{number}"))
        assert stage.events == []
        for number in range(8):
            assert (await stage.received(f"s{number}")).status == "ready"
        assert stage.about("silent") == []
        assert [status.status for status in stage.servers.status()] == ["connecting", *["ready"] * 8]
        assert len(stage.tools) == 8

    on_stage(tmp_path, work)


def test_a_tool_that_two_servers_have_is_told_apart_and_keeps_its_name(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        for name in ("one", "two"):
            stage.servers.add(works(name))
            await stage.received(name)
        assert list(stage.tools) == ["echo", "mcp__two__echo"]
        stage.servers.change("one", "disable")
        assert list(stage.tools) == ["mcp__two__echo"]
        stage.servers.change("one", "enable")
        await stage.received("one", 3)
        assert list(stage.tools) == ["mcp__two__echo", "echo"]
        assert (await stage.call("mcp__two__echo", {"a": 1})).output == '{"a": 1}'

    on_stage(tmp_path, work)


def test_what_can_be_done_with_a_server_is_reported(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(works("one"))
        await stage.received("one")
        stage.servers.change("one", "enable")
        stage.servers.change("one", "reconnect")
        assert stage.tools == {}
        await stage.received("one", 2)
        stage.servers.change("one", "disable")
        assert [status.status for status in stage.servers.status()] == ["disabled"]
        stage.servers.change("one", "enable")
        await stage.received("one", 4)
        stage.servers.change("one", "remove")
        assert stage.servers.status() == []
        ready, removed = ServerChanged("one", "ready", ("echo",)), ServerChanged("one", "removed")
        assert stage.events == [ready, ready, removed, ready, removed]
        with pytest.raises(LookupError, match="no MCP server 'one'"):
            stage.servers.change("one", "remove")

    on_stage(tmp_path, work)


def test_a_server_that_is_named_again_is_replaced(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Silent", server="one"))
        stage.servers.add(works("one"))
        assert await stage.received("one") == ServerChanged("one", "ready", ("echo",))
        assert len(stage.servers.status()) == 1

    on_stage(tmp_path, work)


def test_a_server_that_is_switched_off_is_known_and_not_started(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(Server("one", command="no-such-program", extras={"disabled": True}))
        await asyncio.sleep(0)
        assert [status.status for status in stage.servers.status()] == ["disabled"]
        assert stage.events == []

    on_stage(tmp_path, work)


def test_a_call_to_a_server_that_is_removed_meanwhile_is_an_error(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Slow", server="one"))
        await stage.received("one")
        context = CallContext(tmp_path)
        tool = stage.tools["sleep"]
        call = asyncio.ensure_future(tool.run({}, context))
        await context.showing.wait()
        stage.servers.change("one", "remove")
        assert (await call).output == "MCP server one: the server ended the connection"
        assert (await tool.run({}, context)).output == "MCP server one: the server was removed"

    on_stage(tmp_path, work)


def test_a_prompt_that_nobody_has_is_unknown(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        with pytest.raises(LookupError, match="no MCP server has the prompt"):
            await stage.servers.expand("mcp__one__review", [])

    on_stage(tmp_path, work)


PROGRAM = """
import asyncio, sys
for name in ("mcp", "mcp_types", "pydantic", "httpx2", "anyio"):
    sys.modules[name] = None
from polylect.mcp.servers import Servers
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server

async def main():
    heard = asyncio.Event()
    def report(event):
        print(event.status, event.reason)
        heard.set()
    custody = Custody()
    servers = Servers({}, ServerSetup(custody, {}, "/", report))
    servers.add(Server("plain", command=sys.executable, args=(sys.argv[1], "Works")))
    await heard.wait()
    await servers.close()
    await custody.close()

asyncio.run(main())
"""


def test_a_server_needs_neither_the_SDK_nor_what_it_is_made_of() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = (sys.executable, "-c", PROGRAM, str(Path(__file__).parent / "plain.py"))
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert done.stdout == "ready \n"
