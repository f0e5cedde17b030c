"""aionrs 0.2.10 driven by the SDK: a scripted peer with its quirks, as a real process (`peers/aionrs.py`)."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from machine import PATIENCE, within
from peers.programs import drive, path_with
from polylect.host import (
    Agent,
    Ask,
    EngineDied,
    Limits,
    Notice,
    Refused,
    Rule,
    Server,
    ServerFailed,
    TextDelta,
    TimedOut,
    ToolCalled,
    ToolFinished,
    allow_all,
    connect,
)
from polylect.vocab.content import Failure, Usage
from polylect.vocab.events import Event

ONE = Usage(7, 7, 4)
"""What one model request of the peer takes."""


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("PATH", path_with("aionrs", tmp_path / "bin"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("a note")

    return partial(drive, "aionrs", tmp_path / "work")


async def first(agent: Agent, prompt: str, kind: type[Any]) -> Any:
    """The first event of this kind of a new turn, which goes on."""
    async for event in agent.prompt(prompt):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"there was no {kind.__name__}")


def test_a_prompt_is_answered_and_each_turn_has_its_own_usage(talk: Callable[..., None]) -> None:
    async def two_turns(agent: Agent) -> None:
        results = [await agent.ask("say Hello"), await agent.ask("read note.txt ; say Bye")]
        assert [(result.text, result.usage) for result in results] == [("Hello", ONE), ("Bye", ONE)]

    async def after_a_resume(agent: Agent) -> None:
        results = [await agent.ask("recall"), await agent.ask("say again")]
        assert [result.usage for result in results] == [Usage(), ONE], "the totals of before are known after one turn"
        assert results[0].text == "say Hello | read note.txt ; say Bye | recall"

    talk(two_turns, session="s1")
    talk(after_a_resume, resume="s1")


def test_what_repeats_a_call_or_a_result_is_no_notice(talk: Callable[..., None]) -> None:
    async def one_call(agent: Agent) -> None:
        events = [event async for event in agent.prompt("run echo one ; say done")]
        assert [event.text for event in events if isinstance(event, Notice)] == []
        assert [event.output for event in events if isinstance(event, ToolFinished)] == [
            "Exit code: 0\nSTDOUT:\none\n\nSTDERR:"
        ]

    talk(one_call, approve=allow_all)


def test_a_stop_ends_the_turn_and_the_session_goes_on(talk: Callable[..., None]) -> None:
    async def stop(agent: Agent) -> None:
        everything = agent.events()
        pid, session = agent.pid, agent.session
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                with within(2):
                    await turn.cancel()
        assert (turn.result.reason, turn.result.failure) == ("cancelled", None)
        result = await agent.ask("recall")
        assert result.text == "wait | recall"
        assert result.usage == ONE
        assert (agent.session, agent.pid != pid) == (session, True)
        assert [type(event).__name__ for event in await _drain(everything)].count("TurnEnded") == 2

    talk(stop)


async def _drain(events: Any) -> list[Event]:
    """What has come so far."""
    received = []
    while True:
        try:
            received.append(await asyncio.wait_for(anext(events), 0.2))
        except (TimeoutError, StopAsyncIteration):
            return received


def test_prompts_that_wait_go_to_the_next_engine(talk: Callable[..., None]) -> None:
    async def stop_the_first(agent: Agent) -> None:
        turns = [agent.prompt(text) for text in ("wait", "say two", "say three")]
        waiting = [asyncio.ensure_future(_result(turn)) for turn in turns[1:]]
        async for event in turns[0]:
            if isinstance(event, TextDelta):
                await turns[0].cancel()
                await agent.cancel(queued="keep")
        assert turns[0].result.reason == "cancelled"
        assert [(await one).text for one in waiting] == ["two", "three"]

    talk(stop_the_first)


async def _result(turn: Any) -> Any:
    return await turn


def test_a_stop_inside_a_call_goes_on_in_a_new_session_that_is_told(talk: Callable[..., None]) -> None:
    """aionrs itself stores a call without a result then, and the model's service refuses that history."""

    async def stop(agent: Agent) -> None:
        session = agent.session
        await agent.ask("say The word is plum")
        turn = agent.prompt("run sleep 600")
        async for event in turn:
            match event:
                case Ask():
                    await event.allow()
                case ToolCalled():
                    pass
                case _ if type(event).__name__ == "ToolStarted":
                    await turn.cancel()
        assert turn.result.reason == "cancelled"
        events = [event async for event in agent.prompt("recall")]
        [text] = [event.text for event in events if isinstance(event, TextDelta)]
        assert "User: say The word is plum\n\nAssistant: The word is plum\n\nUser: run sleep 600" in text
        assert text.endswith("\n\nrecall")
        assert agent.session != session
        [notice] = [event for event in events if isinstance(event, Notice)]
        assert notice.level == "warning"
        assert f"goes on in a new one, {agent.session}" in notice.text

    talk(stop)


def test_what_is_allowed_for_good_is_asked_once_also_after_a_stop(talk: Callable[..., None]) -> None:
    async def allow(agent: Agent) -> None:
        assert await _asks(agent, "run true ; run true ; say done", always=True) == 1
        ask_free = [event async for event in agent.prompt("run echo hi ; say done")]
        assert [event.args for event in ask_free if isinstance(event, ToolCalled)] == [{"cmd": "echo hi"}]
        assert not [event for event in ask_free if isinstance(event, Ask)]
        await first(agent, "wait", TextDelta)
        await agent.cancel()
        assert await _asks(agent, "run true ; say done") == 0

    talk(allow)


async def _asks(agent: Agent, prompt: str, *, always: bool | Rule = False) -> int:
    count = 0
    async for event in agent.prompt(prompt):
        if isinstance(event, Ask):
            count += 1
            await event.allow(always=always)
    return count


def test_a_rule_that_its_wire_lacks_counts_once(talk: Callable[..., None]) -> None:
    """A scope that is an object would make it wait for ever."""

    async def allow(agent: Agent) -> None:
        assert await _asks(agent, "run echo a ; run echo b ; say done", always=Rule("prefix", "echo")) == 2

    talk(allow)


def test_context_goes_with_the_next_prompt(talk: Callable[..., None]) -> None:
    async def add(agent: Agent) -> None:
        await agent.add_context("Be brief.")
        assert (await agent.ask("recall")).text == "Be brief.\n\nrecall"
        assert (await agent.ask("recall")).text == "Be brief.\n\nrecall | recall"

    talk(add)


def test_a_server_that_fails_is_an_error(talk: Callable[..., None]) -> None:
    async def add(agent: Agent) -> None:
        await agent.add_server(Server("good", command="good"))
        with pytest.raises(ServerFailed, match="it has no tools"):
            await agent.add_server(Server("bad", command="bad"))
        await agent.ask("say hello")
        with pytest.raises(ServerFailed, match="only allowed before first Message"):
            await agent.add_server(Server("late", command="good"))

    talk(add)


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        ("Provider error: API error 401: no", ("auth", "provider", False)),
        ("Provider error: Rate limited, retry after 5000ms", ("rate_limit", "provider", True)),
        ("Provider error: API error 529: busy", ("overloaded", "provider", True)),
        ("Provider error: Connection error: refused", ("network", "provider", True)),
        ("Stopped after reaching the turn budget", ("engine_error", "engine", False)),
    ],
)
def test_errors_have_their_kind(message: str, failure: tuple[Any, ...], talk: Callable[..., None]) -> None:
    async def fail(agent: Agent) -> None:
        result = await agent.prompt(f"fail {message}")
        code, owner, retryable = failure
        assert result.failure == Failure(code, message, owner, retryable)
        assert (await agent.ask("say fine")).text == "fine"

    talk(fail)


def test_modes_by_its_own_names_hold_for_the_next_engine_too(talk: Callable[..., None]) -> None:
    async def change(agent: Agent) -> None:
        assert await _asks(agent, "run true ; say done") == 0, "connect(mode='force')"
        await agent.configure(mode="default")
        assert await _asks(agent, "run true ; say done") == 1
        await first(agent, "wait", TextDelta)
        await agent.cancel()
        assert await _asks(agent, "run true ; say done") == 1

    talk(change, mode="force")


def test_settings_of_its_own_are_set_and_refusals_are_told(talk: Callable[..., None]) -> None:
    async def change(agent: Agent) -> None:
        await agent.configure(image_input="supported", model="m2")
        assert agent.settings["abilities"].images is True
        with pytest.raises(Refused, match="effort: not supported"):
            await agent.configure(effort="high")
        with pytest.raises(Refused, match="dropped it without a word"):
            await agent.configure(image_input="maybe")

    talk(change)


def test_a_session_that_is_not_there_is_told(talk: Callable[..., None]) -> None:
    async def nothing(agent: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(EngineDied, match="Session 'nope' not found"):
        talk(nothing, resume="nope")


@pytest.mark.parametrize(("message", "code"), [("API error 401: no", 1), ("Rate limited, retry after 5000ms", 75)])
def test_polylect_run_says_by_its_exit_code_whether_to_try_later(message: str, code: int, tmp_path: Path) -> None:
    env = {"PATH": path_with("aionrs", tmp_path / "bin"), "HOME": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "polylect", "run", f"fail Provider error: {message}", "--engine", "aionrs"]
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, message in ran.stderr) == (code, True)


def test_between_two_engines_a_cancel_does_nothing_and_close_has_nothing_to_wait_for(talk: Callable[..., None]) -> None:
    async def stop(agent: Agent) -> None:
        everything = agent.events()
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                await agent.cancel()
                await agent.cancel()
        await agent.cancel()
        await turn.cancel()
        names = [type(event).__name__ for event in await _drain(everything)]
        assert names[-2:] == ["TurnEnded", "Settled"]
        with within(1):
            assert await agent.close() == 0

    talk(stop)


def test_a_command_line_is_started_again_in_a_new_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows how it would be told to resume."""
    monkeypatch.setenv("PATH", path_with("aionrs", tmp_path / "bin"))

    async def stop() -> None:
        async with connect(["aionrs", "--json-stream"], dialect="jsonstream", cwd=tmp_path) as agent:
            await agent.ask("say The word is plum")
            await first(agent, "wait", TextDelta)
            await agent.cancel()
            result = await agent.ask("recall")
            assert "Assistant: The word is plum" in result.text
            assert result.usage == ONE

    asyncio.run(asyncio.wait_for(stop(), PATIENCE))


def test_busy_interrupt_runs_the_new_prompt_in_the_next_engine(talk: Callable[..., None]) -> None:
    async def interrupt(agent: Agent) -> None:
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                other = asyncio.ensure_future(_result(agent.prompt("recall", busy="interrupt")))
        assert turn.result.reason == "cancelled"
        assert (await other).text == "wait | recall"

    talk(interrupt)


@pytest.mark.filterwarnings("ignore::polylect.host.limits.LimitWarning")
def test_a_limit_stops_a_turn_and_the_next_one_runs(talk: Callable[..., None]) -> None:
    async def limit(agent: Agent) -> None:
        with pytest.raises(TimedOut):
            await agent.ask("wait", limits=Limits(idle=0.3))
        assert (await agent.ask("say on")).text == "on"
        result = await agent.prompt("say much", limits=Limits(tokens=5))
        assert result.reason == "limit"

    talk(limit)
