"""claude as it was seen to behave: its sessions and what they cost, after it died and after a resume."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from machine import PATIENCE
from peers.programs import path_with
from polylect.host import Agent, Notice, connect

Claude = Callable[..., Agent]


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claude:
    monkeypatch.setenv("PATH", path_with("claude", tmp_path / "bin"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "sessions"))
    return partial(connect, "claude", cwd=tmp_path, restarts=1)


def drive(talk: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(talk, PATIENCE))


def test_a_session_that_was_not_written_before_claude_died_is_begun_anew(claude: Claude) -> None:
    async def talk() -> tuple[list[str], str, str, float | None]:
        async with claude(session="tidy up") as agent:
            await agent.ask("one")
            died = await agent.prompt("die")
            assert died.failure
            assert (died.failure.code, died.failure.retryable) == ("engine_gone", True)
            turn = agent.prompt("two")
            notices = [event.text async for event in turn if isinstance(event, Notice)]
            return notices, turn.result.text, agent.session_id, agent.cost

    notices, text, session, cost = drive(talk())
    assert notices == [
        "the engine cannot go on with its session, so the conversation goes on in a new one, tidy up; "
        "it was told what was said before"
    ]
    assert (text.startswith("This conversation began"), "User: one" in text, text[-3:]) == (True, True, "two")
    assert (session, cost) == ("tidy up", 1.0)


def test_the_cost_of_a_session_goes_on_when_claude_is_started_again(claude: Claude) -> None:
    async def talk() -> tuple[list[float | None], str]:
        async with claude(session="tidy up") as agent:
            costs = [(await agent.ask("write")).cost, agent.cost]
            await agent.prompt("die")
            result = await agent.ask("two")
            return [*costs, result.cost, agent.cost], result.text

    assert drive(talk()) == ([0.5, 0.5, 0.5, 1.0], "write two")


def test_the_cost_of_a_session_is_not_known_if_claude_does_not_know_it(claude: Claude) -> None:
    """It says only what this process has cost, which is not the cost of the session."""

    async def talk() -> list[float | None]:
        async with claude(session="tidy up") as agent:
            await agent.ask("write")
        async with claude(resume="tidy up") as agent:
            return [agent.cost, (await agent.ask("two")).cost, agent.cost]

    assert drive(talk()) == [None, 0.5, None]
