"""Caps in dollars, tokens and time hold on every wire, whoever reads the turn, and also after a resume."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from machine import PATIENCE
from polylect.app.embed import open_engine
from polylect.host import Agent, Event, Limits, StepStarted, TimedOut, TurnEnded
from polylect.providers.scripted import Scripted

LOOP = """
[price]
input = 1000.0
output = 1000.0

[[reply]]
when.prompt = "wait"
say = ["Well, ", { wait = 600 }]

[[reply]]
when.prompt = "loop"
when.step = [1, 2, 3, 4, 5, 6, 7, 8, 9]
say = [{ call = "Glob", args = { pattern = "*" } }]
usage = { input = 1000, output = 0 }

[[reply]]
text = "done"
usage = { input = 1000, output = 0 }
"""
"""Each request costs a dollar and 1000 tokens."""


def here(folder: Path, **options: Any) -> Agent:
    return open_engine(Scripted.from_text(LOOP), workspace=str(folder), **options)


async def rest(events: Any) -> list[Event]:
    """All events up to the end of the turn."""
    read = []
    async for event in events:
        read.append(event)
        if isinstance(event, TurnEnded):
            break
    return read


@pytest.mark.parametrize("limits", [Limits(tokens=1500), Limits(cost=1.5)], ids=["tokens", "dollars"])
def test_a_turn_that_nobody_reads_any_more_is_stopped_too(tmp_path: Path, limits: Limits) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path, limits=limits) as agent:
            events = agent.events()
            async for _ in agent.prompt("loop"):
                break
            gc.collect()
            read = await rest(events)
            assert read[-1].reason in ("cancelled", "limit")
            assert len([event for event in read if isinstance(event, StepStarted)]) <= 3

    asyncio.run(main())


@pytest.mark.parametrize("limits", [Limits(total=0.2), Limits(idle=0.2)], ids=["total", "idle"])
def test_time_passes_also_while_nobody_reads(tmp_path: Path, limits: Limits) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path, limits=limits) as agent:
            events = agent.events()
            async for _ in agent.prompt("wait"):
                break
            gc.collect()
            assert (await rest(events))[-1].reason == "cancelled"

    asyncio.run(main())


def test_who_comes_back_to_a_turn_that_took_too_long_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            events = agent.events()
            turn = agent.prompt("wait", limits=Limits(total=0.2))
            async for _ in turn:
                break
            await rest(events)
            with pytest.raises(TimedOut, match=r"took longer than 0\.2 s"):
                await turn
            assert (turn.result.reason, turn.result.text) == ("cancelled", "Well, ")

    asyncio.run(main())
