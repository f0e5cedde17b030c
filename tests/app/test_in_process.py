"""An engine in this process, driven by the same API as any other."""

import asyncio
from pathlib import Path

import pytest

from doubles_mcp import script
from machine import PATIENCE
from polylect.app.embed import InProcess
from polylect.host import Ask, Refused, ToolFinished, allow_all, connect
from polylect.providers.scripted import Scripted
from polylect.vocab.answers import State
from polylect.vocab.commands import Query

SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done"
"""


def test_it_is_prompted_asked_and_questioned_without_a_child_process(tmp_path: Path) -> None:
    async def talk() -> None:
        work = tmp_path / "work"
        work.mkdir()
        engine = InProcess(Scripted.from_text(SCRIPT), workspace=str(work))
        async with asyncio.timeout(PATIENCE), connect(lambda: engine) as agent:
            assert agent.can("compact", "query:state", "tools")
            outcomes = []
            async for event in agent.prompt("go"):
                match event:
                    case Ask():
                        await event.allow()
                    case ToolFinished(outcome=outcome):
                        outcomes.append(outcome)
            assert outcomes == ["ok"]
            assert (work / "made.txt").read_text() == "x"
            state = await agent.send(Query("state"))
            assert isinstance(state, State)
            assert state.messages == 4

    asyncio.run(talk())


def test_two_of_them_at_once_share_nothing(tmp_path: Path) -> None:
    async def one(name: str) -> str:
        work = tmp_path / name
        work.mkdir()
        engine = InProcess(Scripted.from_text(SCRIPT), workspace=str(work))
        async with connect(lambda: engine, approve=allow_all) as agent:
            await agent.ask("go")
        return (work / "made.txt").read_text()

    async def talk() -> None:
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(one("a"), one("b")) == ["x", "x"]

    asyncio.run(talk())


def test_an_engine_in_this_process_has_mcp_servers(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="no wheel of the MCP SDK for this machine")
    server = script("plain", "Works")

    async def talk() -> None:
        engine = InProcess(Scripted.in_order({"reply": [{"call": "echo", "args": {"a": 1}}, "It says {result}."]}))
        async with asyncio.timeout(PATIENCE), connect(lambda: engine, approve=allow_all) as agent:
            await agent.add_server(server)
            assert (await agent.ask("go")).text == 'It says {"a": 1}.'
            with pytest.raises(Refused, match="before the first prompt"):
                await agent.add_server(script("plain", "Works", server="late"))

    asyncio.run(talk())
