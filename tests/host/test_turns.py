"""Turns that wait for each other, that nobody reads, that are cancelled; engines in this process, so it is quick."""

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine_process import Place
from polylect.embed import open_engine
from polylect.host import (
    Agent,
    Ask,
    EngineDied,
    Event,
    Limits,
    Refused,
    Result,
    TimedOut,
    Turn,
    TurnEnded,
    TurnFailed,
    TurnStarted,
    WrongState,
    connect,
)
from polylect.host.process import _below, _processes
from polylect.host.supervision import open_turns
from polylect.providers.scripted import Scripted

Kind = TypeVar("Kind", bound=Event)
PATIENCE = 20.0
SCRIPT = """
[[reply]]
when.prompt = "write"
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
when.prompt = "slow"
say = [{ text = "word {i} ", repeat = 8, pace = 0.05 }]

[[reply]]
when.prompt = "hang"
say = [{ wait = 600 }]

[[reply]]
text = "answer to {prompt}"
"""


def here(folder: Path, **options: Any) -> Agent:
    return open_engine(Scripted.from_text(SCRIPT), workspace=folder, **options)


def bounded(work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, PATIENCE)

    asyncio.run(main())


async def result(turn: Turn) -> Result:
    return await turn


async def begun(agent: Agent, text: str, **details: Any) -> tuple[Turn, "asyncio.Task[Result]"]:
    """A turn that is under way or waits for others, and its result."""
    turn = agent.prompt(text, **details)
    reading = asyncio.ensure_future(result(turn))
    await asyncio.sleep(0)
    return turn, reading


def test_a_turn_that_waits_for_another_is_neither_late_nor_silent(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            requested = agent.events()
            _, first = await begun(agent, "write")
            _, second = await begun(agent, "hang", limits=Limits(total=0.05))
            _, third = await begun(agent, "hang", limits=Limits(idle=0.05))
            await asyncio.wait([first, second, third], timeout=0.2)
            assert (first.done(), second.done(), third.done()) == (False, False, False)
            async for event in requested:
                if isinstance(event, Ask):
                    await event.allow()
                    break
            assert (await first).ok
            for reading in (second, third):
                with pytest.raises(TimedOut):
                    await reading

    bounded(talk())


def test_a_turn_that_hangs_is_late_though_another_waits_behind_it(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            _, first = await begun(agent, "hang", limits=Limits(total=0.2))
            _, second = await begun(agent, "hello")
            with pytest.raises(TimedOut, match=r"took longer than 0\.2 s"):
                await first
            assert (await second).text == "answer to hello"

    bounded(talk())


def test_cancelling_a_turn_that_waits_or_has_ended_leaves_the_one_that_runs_alone(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            ended, reading = await begun(agent, "hello")
            await reading
            _, running = await begun(agent, "slow")
            waiting, never = await begun(agent, "hello")
            await ended.cancel()
            await waiting.cancel()
            await agent.prompt("not begun").cancel()
            assert (await running).reason == "end"
            assert (await never).reason == "cancelled"

    bounded(talk())


def test_cancelling_a_turn_leaves_those_behind_it_in_line(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            first, one = await begun(agent, "hang")
            _, two = await begun(agent, "hello")
            await first.cancel()
            assert [(await one).reason, (await two).reason] == ["cancelled", "end"]

    bounded(talk())


def test_what_a_turn_asks_after_its_loop_was_left_is_denied_though_it_is_still_held(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            turn = agent.prompt("write")
            async for _ in turn:
                break
            assert (await agent.ask("next")).text == "answer to next"
            assert [denial.name for denial in (await turn).denials] == ["Write"]

    bounded(talk())


def test_an_ask_that_was_read_can_be_answered_after_the_loop(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            turn = agent.prompt("write")
            asks = []
            async for event in turn:
                if isinstance(event, Ask):
                    asks.append(event)
                    break
            assert asks[0].open
            await asks[0].allow()
            assert not asks[0].open
            assert (await turn).ok
            assert (tmp_path / "made.txt").read_text() == "x"

    bounded(talk())


def test_a_prompt_that_was_refused_says_so_to_everyone_who_waits_for_it(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            turn = agent.prompt("hello", files=["missing.txt"])
            for _ in range(2):
                with pytest.raises(Refused, match=r"missing\.txt"):
                    await turn
            assert (await agent.ask("hello")).ok

    bounded(talk())


@pytest.mark.parametrize("steps", range(6))
def test_a_reader_that_is_cancelled_anywhere_loses_nothing(tmp_path: Path, steps: int) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            turn = agent.prompt("hello")
            reading = asyncio.ensure_future(events_of(turn))
            for _ in range(steps):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            assert (await turn).text == "answer to hello"

    bounded(talk())


@pytest.mark.parametrize("rounds", range(3))
def test_a_turn_that_is_cancelled_before_it_is_sent_never_runs(tmp_path: Path, rounds: int) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            everything = agent.events()
            turn = agent.prompt("hang")
            reading = asyncio.create_task(events_of(turn))
            for _ in range(rounds):
                await asyncio.sleep(0)
            await turn.cancel()
            await reading
            assert turn.result.reason == "cancelled"
            assert (await agent.ask("hello")).ok
        started = [event.turn async for event in everything if isinstance(event, TurnStarted)]
        assert len(started) == 1

    bounded(talk())


@pytest.mark.parametrize("queued", ["keep", "drop"])
@pytest.mark.parametrize("rounds", range(1, 4))
def test_cancelling_the_agent_reaches_a_turn_that_is_not_sent_yet(tmp_path: Path, rounds: int, queued: Any) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            asking = asyncio.create_task(agent.ask("hang"))
            behind = asyncio.create_task(agent.ask("hello"))
            for _ in range(rounds):
                await asyncio.sleep(0)
            await agent.cancel(queued=queued)
            with pytest.raises(TurnFailed, match="it was cancelled"):
                await asking
            if queued == "keep":
                assert (await behind).ok
            else:
                with pytest.raises(TurnFailed, match="it was cancelled"):
                    await behind

    bounded(talk())


@pytest.mark.parametrize("way", ["ask", "await"])
def test_cancelling_the_task_that_awaits_a_turn_cancels_the_turn(tmp_path: Path, way: str) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            everything = agent.events()
            waiting = asyncio.create_task(agent.ask("hang") if way == "ask" else result(agent.prompt("hang")))
            await _until(everything, TurnStarted)
            waiting.cancel()
            ended = await _until(everything, TurnEnded)
            assert (ended.reason, waiting.cancelled()) == ("cancelled", True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(agent.ask("hang"), 0.05)
            assert (await _until(everything, TurnEnded)).reason == "cancelled"
            assert (await agent.ask("hello")).ok

    bounded(talk())


def test_cancelling_the_task_that_awaits_a_turn_in_line_withdraws_its_prompt(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            everything = agent.events()
            first, running = await begun(agent, "hang")
            second, waiting = await begun(agent, "hello")
            await _until(everything, TurnStarted)
            waiting.cancel()
            ended = await _until(everything, TurnEnded)
            assert (ended.turn, ended.reason) == (second.id, "cancelled")
            await first.cancel()
            assert (await running).reason == "cancelled"

    bounded(talk())


def test_a_turn_that_is_cancelled_while_it_waits_ends_before_the_one_that_runs(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            first, running = await begun(agent, "hang")
            second, waiting = await begun(agent, "hello")
            await second.cancel()
            assert ((await waiting).reason, running.done()) == ("cancelled", False)
            await first.cancel()
            assert (await running).reason == "cancelled"

    bounded(talk())


def test_the_events_of_a_turn_are_read_once_by_one_task(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            turn = agent.prompt("slow")
            one, two = asyncio.create_task(events_of(turn)), asyncio.create_task(events_of(turn))
            with pytest.raises(WrongState, match="another task reads this turn"):
                await two
            with pytest.raises(WrongState, match="another task reads this turn"):
                await turn
            assert isinstance((await one)[-1], TurnEnded)
            with pytest.raises(WrongState, match="were read already"):
                await events_of(turn)
            assert (await turn).ok

    bounded(talk())


async def events_of(turn: Turn) -> list[Event]:
    return [event async for event in turn]


async def _until(events: AsyncIterator[Event], kind: type[Kind]) -> Kind:
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def test_everything_is_heard_from_the_moment_it_was_asked_for_until_the_engine_is_gone(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            received = agent.events()
            await agent.ask("hello")
        assert [event.reason async for event in received if isinstance(event, TurnEnded)] == ["end"]
        assert [event async for event in agent.events()] == []

    bounded(talk())


async def _cancelled(ask: Ask) -> bool:
    await asyncio.wait_for(asyncio.Event().wait(), 600)
    return True


async def _of_a_cancelled_future(ask: Ask) -> bool:
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


@pytest.mark.parametrize("policy", [lambda ask: None, lambda ask: 1, lambda ask: {}, _of_a_cancelled_future])
def test_anything_but_a_clear_yes_of_a_policy_is_a_no_a1(tmp_path: Path, policy: Any) -> None:
    async def talk() -> None:
        async with here(tmp_path, approve=policy) as agent:
            actual = await agent.ask("write")
            assert [denial.name for denial in actual.denials] == ["Write"]
            assert "policy" in actual.denials[0].reason

    bounded(talk())


def test_a_policy_that_never_answers_ends_with_its_turn(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path, approve=_cancelled) as agent:
            with pytest.raises(TimedOut):
                await agent.ask("write", limits=Limits(total=0.2))
            assert (await agent.ask("hello")).ok

    bounded(talk())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda agent: agent.prompt(5), r"Prompt: Expected `str`, got `int` - at `\$\.text`"),
        (lambda agent: agent.prompt("x", files="notes.md"), "a list of paths"),
        (lambda agent: agent.prompt("x", attachments=["notes.md"]), r"attachments"),
        (lambda agent: agent.prompt("x", busy="now"), r"busy"),
        (lambda agent: agent.prompt("x", limits=5), r"Limits\("),
        (lambda agent: agent.add_context(5), r"AddContext: Expected `str`"),
        (lambda agent: agent.add_server("x"), r"AddServer: Expected `object`, got `str`"),
        (lambda agent: agent.cancel(queued="all"), r"Cancel"),
        (lambda agent: agent.send("stop"), r"a command is one of"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_said(tmp_path: Path, wrong: Any, why: str) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            with pytest.raises(TypeError, match=why):
                await wrong(agent)
            assert (await agent.ask("hello")).ok

    bounded(talk())


def test_limits_and_policies_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"Limits\("):
        here(tmp_path, limits={"total": 5})
    with pytest.raises(TypeError, match="approve is a function"):
        here(tmp_path, approve="yes")
    with pytest.raises(ValueError, match="zero or more"):
        Limits(total=-1)


def test_an_agent_has_one_engine_at_a_time(tmp_path: Path) -> None:
    async def talk() -> None:
        agent = here(tmp_path)
        async with agent:
            with pytest.raises(RuntimeError, match="has an engine already"):
                await agent.__aenter__()
            assert (await agent.ask("hello")).ok

    bounded(talk())


def test_all_who_need_a_dead_engine_wait_for_the_same_new_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = Place(tmp_path)
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)

    async def talk() -> None:
        result: dict[str, Any] = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted"}
        async with connect("polylect", **result, script=str(script), restarts=1) as agent:
            asks = []
            async for event in agent.prompt("write"):
                if isinstance(event, Ask):
                    asks.append(event)
                    os.kill(agent.pid, 9)
            with pytest.raises(EngineDied):  # nobody is started to hear an answer to what nobody asks any more
                await asks[0].allow()
            assert "starting it again" not in caplog.text
            actual = await asyncio.gather(*(agent.ask(word) for word in ("one", "two", "three")))
            assert [each.text for each in actual] == ["answer to one", "answer to two", "answer to three"]

    with caplog.at_level(logging.WARNING, "polylect.host"):
        bounded(talk())
    assert caplog.text.count("starting it again") == 1


@pytest.mark.parametrize("steps", [1, 3, 30])
def test_closing_while_an_engine_is_started_again_leaves_none(tmp_path: Path, steps: int) -> None:
    place = Place(tmp_path)
    before = _below([os.getpid()], _processes())

    async def talk() -> None:
        result: dict[str, Any] = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted"}
        async with connect("polylect", **result, restarts=1) as agent:
            received = agent.events()
            os.kill(agent.pid, 9)
            assert [event async for event in received] == []
            reading = asyncio.ensure_future(agent.ask("hello"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await agent.close()
            with pytest.raises(EngineDied):
                await reading

    bounded(talk())
    assert _below([os.getpid()], _processes()) == before


def test_everything_can_be_had_at_once() -> None:
    names: dict[str, Any] = {}
    exec("from polylect.host import *", names)
    assert names["connect"] is connect


def test_a_turn_that_runs_when_the_block_is_left_is_cancelled(tmp_path: Path) -> None:
    async def talk() -> None:
        async with here(tmp_path) as agent:
            _, reading = await begun(agent, "hang")
            await asyncio.sleep(0)
        assert (await reading).reason == "cancelled"

    bounded(talk())


def test_another_session_has_its_own_cost(tmp_path: Path) -> None:
    async def talk() -> None:
        script = (
            "[price]\ninput = 1000.0\noutput = 1000.0\n[[reply]]\ntext = 'x'\nusage = { input = 1000, output = 0 }\n"
        )
        async with open_engine(Scripted.from_text(script), workspace=tmp_path) as agent:
            await agent.ask("hello")
            assert agent.cost == 1.0
            await agent.new_session()
            assert agent.cost == 0.0
            assert (await agent.ask("hello")).cost == agent.cost == 1.0

    bounded(talk())


@pytest.mark.filterwarnings("always:the turn has been waiting")
def test_a_question_that_is_read_and_not_answered_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_turns, "_ASK_PATIENCE", 0.05)

    async def talk() -> None:
        async with here(tmp_path) as agent:
            shown: asyncio.Queue[str] = asyncio.Queue()
            monkeypatch.setattr(warnings, "showwarning", lambda message, *place: shown.put_nowait(str(message)))
            answering = None
            async for event in agent.prompt("write"):
                if isinstance(event, Ask):
                    answering = asyncio.ensure_future(answered(event, shown))
            assert answering
            warning = await answering
            assert warning.startswith("the turn has been waiting for 0.05 s for an answer to a question (")
            assert "made.txt" in warning
            assert shown.empty()

    async def answered(ask: Ask, shown: asyncio.Queue[str]) -> str:
        warning = await shown.get()
        await ask.allow()
        return warning

    bounded(talk())


def test_a_question_that_is_answered_in_time_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_turns, "_ASK_PATIENCE", 0.0)

    async def talk() -> None:
        async with here(tmp_path) as agent:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                async for event in agent.prompt("write"):
                    if isinstance(event, Ask):
                        await event.allow()
                async for _ in agent.prompt("slow"):
                    pass

    bounded(talk())
