"""Several turns at once on every engine: each can be stopped by itself, and none is held up by what nobody reads."""

import asyncio
from pathlib import Path

import pytest

from interop.acp_model import Model
from interop.claude_model import WAIT, text
from interop.script_engines import ENGINES
from polylect.host import Agent, Ask, Result, TextDelta, Turn

pytestmark = pytest.mark.interop
PATIENCE = 60.0
DROPS_ALL = ("polylect json-stream", "polylect json-stream 0.1.0")
"""Their `stop` is for all that the engine has."""


async def result(turn: Turn) -> Result:
    return await turn


async def under_way(agent: Agent, prompt: str) -> tuple[Turn, "asyncio.Task[Result]"]:
    """A turn whose model has begun to speak."""
    turn = agent.prompt(prompt)
    async for event in turn:
        if isinstance(event, TextDelta):
            break
    return turn, asyncio.ensure_future(result(turn))


async def waiting(agent: Agent, prompt: str) -> tuple[Turn, "asyncio.Task[Result]"]:
    turn = agent.prompt(prompt)
    reading = asyncio.ensure_future(result(turn))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    return turn, reading


@pytest.mark.parametrize("name", ENGINES)
def test_turns_are_stopped_one_by_one_and_a_loop_can_be_left(name: str, tmp_path: Path) -> None:
    async def talk() -> None:
        engine = ENGINES[name]
        make = [text("I will."), engine.call("call_1", "true", "does nothing")]
        script = {"SLOW": [[text("One moment"), WAIT]], "HELLO": [[text("Hello.")]], "MAKE": [make, [text("So.")]]}
        async with Model(script) as model, engine.connect(model, tmp_path) as agent:
            first, slow = await under_way(agent, "SLOW")
            second, never = await waiting(agent, "HELLO 2")
            await second.cancel()
            assert not slow.done(), "the one that runs is left alone"
            _, third = await waiting(agent, "HELLO 3")
            await first.cancel()
            assert (await slow).reason == "cancelled"
            assert (await never).reason == "cancelled"
            assert (await third).reason == ("cancelled" if name in DROPS_ALL else "end")
            await first.cancel()
            turn = agent.prompt("MAKE")
            async for event in turn:
                if isinstance(event, TextDelta):
                    break
            assert (await agent.ask("HELLO 4")).text == "Hello.", "nobody answers what the other one asks"
            assert not [event for event in [event async for event in turn] if isinstance(event, Ask) and event.open]

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
