"""Caps in dollars, tokens and time hold on every wire, whoever reads the turn, and also after a resume."""

import asyncio
import gc
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from machine import PATIENCE
from peers.programs import path_with
from polylect.app.embed import open_engine
from polylect.host import (
    Agent,
    EngineDied,
    Event,
    Limits,
    LimitWarning,
    StepStarted,
    TimedOut,
    TurnEnded,
    UnknownPrice,
    connect,
)
from polylect.providers.scripted import Scripted
from thoroughness import one_in

pytestmark = pytest.mark.long

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
say = [{ wait = 0.5 }, { call = "Glob", args = { pattern = "*" } }]
usage = { input = 1000, output = 0 }

[[reply]]
text = "done"
usage = { input = 1000, output = 0 }
"""
"""Each request costs a dollar and 1000 tokens."""
AT_ONCE = LOOP.replace("{ wait = 0.5 }, ", "")
"""Where nothing has to arrive while a request runs."""


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


ENGINES = ("polylect", "polylect-jsonstream", "polylect-omp", "polylect-claude")
LATE = {
    ("polylect-jsonstream", "tokens", "prompt"),
    ("polylect-claude", "cost", "prompt"),
}
"""What the wire tells only at the end of a turn."""


def options(place: Place, script: str = LOOP) -> dict[str, Any]:
    path = place.folder / "script.toml"
    path.write_text(script)
    return {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "script": str(path)}


@pytest.mark.parametrize(
    ("engine", "kind", "where"), one_in(3, [*product(ENGINES, ("tokens", "cost"), ("connect", "prompt"))])
)
def test_a_turn_ends_at_the_step_that_passes_its_cap(tmp_path: Path, engine: str, kind: str, where: str) -> None:
    """Also the first one after a resume. What the wire tells too late is said once, before anything is spent."""
    place = Place(tmp_path)
    limits = Limits(tokens=1500) if kind == "tokens" else Limits(cost=1.5)
    of_agent, of_prompt = ({"limits": limits}, {}) if where == "connect" else ({}, {"limits": limits})
    late = (engine, kind, where) in LATE
    by_host = where == "prompt" and engine != "polylect" and not late
    script = LOOP if by_host else AT_ONCE  # the host has to stop it in time; an engine stops by itself

    async def talk(**session: str) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with connect(engine, **options(place, script), **of_agent, **session) as agent:
                results = [await agent.prompt("loop", **of_prompt)]
                if engine != "polylect-claude" or where == "prompt":  # there a cap of `connect` is one of the process
                    results.append(await agent.prompt("loop", **of_prompt))
        assert [result.reason for result in results] == ["limit"] * len(results)
        most = 2 if where == "connect" else 3  # the next request may have begun before a stop of the host arrives
        assert [result.steps for result in results if result.steps > most] == ([10] * len(results) if late else [])
        assert [(one.category, one.filename) for one in caught] == ([(LimitWarning, __file__)] if late else [])
        assert not late or f"{engine} tells the {kind} of a turn only at its end" in str(caught[0].message)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await talk(session="mine")
            await talk(resume="mine")

    asyncio.run(main())


@pytest.mark.parametrize("limits", [Limits(tokens=2000), Limits(cost=2.0)], ids=["tokens", "cost"])
@pytest.mark.parametrize("engine", ["polylect", "polylect-omp"])
def test_a_limit_is_reached_at_its_value_by_whoever_watches_it(tmp_path: Path, engine: str, limits: Limits) -> None:
    """On polylect the engine stops the turn, on polylect-omp the host does."""
    place = Place(tmp_path)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), connect(engine, **options(place)) as agent:
            result = await agent.prompt("loop", limits=limits)
            assert (result.reason, result.steps <= 3) == ("limit", True)
            exact = limits.cost / 2, limits.tokens // 2
            result = await agent.prompt("say it", limits=Limits(cost=exact[0], tokens=exact[1]))
            assert (result.text, result.reason) == ("done", "limit")

    asyncio.run(main())


NO_PRICE = "the price of the model is not known, so limits in dollars do not hold"
UNPRICED = AT_ONCE.replace("[price]\ninput = 1000.0\noutput = 1000.0\n", "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cap_in_dollars_without_a_price_is_refused_at_the_start_or_accepted(tmp_path: Path, engine: str) -> None:
    place = Place(tmp_path)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises((EngineDied, UnknownPrice), match="the price of"):
                async with connect(engine, **options(place, UNPRICED), limits=Limits(cost=1.5)):
                    pass
            agent = connect(engine, **options(place, UNPRICED), limits=Limits(cost=1.5), allow_unpriced=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                async with agent:
                    assert (await agent.ask("loop")).steps == 10
            said = [str(one.message) for one in caught]
            known = engine in ("polylect", "polylect-jsonstream")  # whether the wire tells that there is no price
            assert said == ([NO_PRICE] if known else [])

    asyncio.run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cap_of_one_prompt_without_a_price_is_refused_before_much_is_spent(tmp_path: Path, engine: str) -> None:
    place = Place(tmp_path)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LimitWarning)
                async with connect(engine, **options(place, UNPRICED)) as agent:
                    result = await agent.prompt("loop", limits=Limits(cost=1.5))
                    assert result.reason == "limit"
                    assert "the price of the model is not known" in str(result.failure)
                    # Claude's wire tells neither a price before a turn nor the cost of a reply.
                    assert result.steps <= (10 if engine == "polylect-claude" else 2)
                async with connect(engine, **options(place, UNPRICED), allow_unpriced=True) as agent:
                    assert (await agent.prompt("loop", limits=Limits(cost=1.5))).steps == 10

    asyncio.run(main())


@pytest.mark.parametrize("engine", ["aionrs", "wayland-core"])
def test_engines_of_others_that_tell_too_little(tmp_path: Path, monkeypatch: Any, engine: str) -> None:
    monkeypatch.setenv("PATH", path_with(engine, tmp_path / "bin"))
    with pytest.warns(LimitWarning, match=f"{engine} tells the tokens of a turn only at its end"):
        agent = connect(engine, cwd=tmp_path, limits=Limits(tokens=5))

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with agent:
                assert (await agent.prompt("say much")).reason == "limit"
            with pytest.warns(LimitWarning):
                priceless = connect(engine, cwd=tmp_path, limits=Limits(cost=1))
            if engine == "aionrs":
                with pytest.raises(UnknownPrice, match="allow_unpriced=True"):
                    await priceless.__aenter__()

    asyncio.run(main())


@pytest.mark.parametrize("engine", one_in(2, ENGINES))
def test_run_and_settings_refuse_or_accept_it_alike(tmp_path: Path, engine: str) -> None:
    place = Place(tmp_path)
    flags = ("--engine", engine, *place.script(UNPRICED))
    refused = place.run("run", "loop", *flags, "--budget", "1.5")
    assert (refused.code, "the price of 'scripted' is not known" in refused.errors) == (78, True)
    assert "--allow-unpriced" in refused.errors
    accepted = place.run("run", "loop", *flags, "--budget", "1.5", "--allow-unpriced")
    assert (accepted.code, accepted.out) == (0, b"done\n")
    assert engine not in ("polylect", "polylect-jsonstream") or accepted.errors.count("price") == 1
    place.configure("[budget]\nmax_cost_usd = 1.5\n")
    assert place.run("run", "loop", *flags).code == 78
    place.configure("[budget]\nmax_cost_usd = 1.5\nallow_unpriced = true\n")
    assert place.run("run", "loop", *flags).code == 0
