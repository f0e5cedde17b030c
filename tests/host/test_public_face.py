"""What a program sees of the SDK: names, representations, errors, and a warning for what was forgotten."""

import asyncio
import gc
import warnings
from pathlib import Path

import pytest

from polylect.app.embed import InProcess
from polylect.host import Agent, Result, TextDelta, TurnEnded, Usage, connect
from polylect.host.results import update
from polylect.host.sync import SyncAgent
from polylect.host.sync import connect as sync_connect
from polylect.providers.scripted import Scripted

PATIENCE = 20.0
SCRIPT = '[[reply]]\ntext = "Hello"\n'


def here(folder: Path) -> Agent:
    return connect(lambda: InProcess(Scripted.from_text(SCRIPT), workspace=str(folder)))


def sync_here(folder: Path) -> SyncAgent:
    return sync_connect(lambda: InProcess(Scripted.from_text(SCRIPT), workspace=str(folder)))


def test_a_result_shows_text_reason_and_cost() -> None:
    result = Result("t1")
    update(result, TextDelta("word " * 40))
    update(result, TurnEnded("end", Usage(10, 5, cost=0.25)))
    assert repr(result) == f"Result(text={'word ' * 16 + '…'!r}, reason='end', cost=0.25)"


def test_a_turn_that_is_forgotten_warns_with_its_prompt(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            with pytest.warns(RuntimeWarning, match=r"the prompt 'Tidy the imp(orts, ){8}.*…' was never sent: await"):
                agent.prompt("Tidy the imp" + "orts, " * 40)

    asyncio.run(main())


def test_a_forgotten_turn_warns_without_asyncio_too(tmp_path: Path) -> None:
    with sync_here(tmp_path) as agent, pytest.warns(RuntimeWarning, match="the prompt 'Hi' was never sent"):
        agent.prompt("Hi")


def test_turns_that_are_used_or_given_up_do_not_warn(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            await agent.prompt("awaited")
            async for _ in agent.prompt("read"):
                break
            await anext(agent.prompt("read by one"))
            await agent.prompt("cancelled before it began").cancel()
            await asyncio.gather(agent.prompt("one"), agent.prompt("other"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(one.message) for one in caught] == []


def test_an_agent_that_an_exception_closed_does_not_warn(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            turn = agent.prompt("never sent")
            raise LookupError(turn.id)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(LookupError):
            asyncio.run(main())
        with pytest.raises(LookupError), sync_here(tmp_path) as agent:
            turn = agent.prompt("never sent")
            raise LookupError(turn.id)
        del turn
        gc.collect()
    assert [str(one.message) for one in caught] == []
