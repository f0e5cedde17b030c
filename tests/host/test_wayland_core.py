"""wayland-core 0.13.4 driven by the SDK: `peers/wayland_core.py`, a scripted peer with its quirks, as a process."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from peers.programs import allowed_turn, drive, path_with
from polylect.host import (
    Agent,
    Ask,
    EngineDied,
    Event,
    Notice,
    Refused,
    Rule,
    Server,
    ServerFailed,
    TextDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
)
from polylect.vocab.commands import Grant
from polylect.vocab.content import Usage

ONE = Usage(11, 7)
"""What one turn of the peer takes."""
TOLD = (
    "This conversation began in another session, which was interrupted. This is what was said there, the oldest first. "
    "Go on from here.\n\n"
)


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("PATH", path_with("wayland-core", tmp_path / "bin"))
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    for name in ("a", "b"):
        (tmp_path / "outside" / name).write_text(name)

    return partial(drive, "wayland-core", tmp_path / "work")


def only(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_turns_have_their_usage_and_a_cost_that_nobody_knows(talk: Callable[..., None]) -> None:
    async def two_turns(agent: Agent) -> None:
        results = [await agent.ask("say Hello"), await agent.ask("say Bye")]
        assert [(result.text, result.usage) for result in results] == [("Hello", ONE), ("Bye", ONE)]
        assert agent.cost is None

    talk(two_turns)


def test_what_repeats_a_call_a_result_or_a_notice_is_no_notice(talk: Callable[..., None]) -> None:
    async def calls(agent: Agent) -> None:
        events = await allowed_turn(agent, "run echo one ; say done") + await allowed_turn(agent, "say again")
        assert [event.text.split(" ")[0] for event in only(events, Notice)] == ["crash", "No"]
        assert [event.args for event in only(events, ToolCalled)] == [{"command": "echo one"}]
        assert [event.output for event in only(events, ToolFinished)] == ["one\n"]

    talk(calls)


def test_modes_and_servers_are_obeyed(talk: Callable[..., None]) -> None:
    async def force(agent: Agent) -> None:
        await agent.add_server(Server("team", command="team"))
        await agent.configure(mode="force")
        assert only(await allowed_turn(agent, "run true ; say done"), Ask) == []

    talk(force)


def test_a_refusal_that_is_only_an_info_is_an_error(talk: Callable[..., None]) -> None:
    """A person has set the variables otherwise, and that counts."""

    async def refused(agent: Agent) -> None:
        with pytest.raises(ServerFailed, match="active assistant identity is required"):
            await agent.add_server(Server("team", command="team"))
        with pytest.raises(Refused, match="set_mode: 'force' refused"):
            await agent.configure(mode="force")
        with pytest.raises(Refused, match="effort: not supported"):
            await agent.configure(effort="high")
        with pytest.raises(Refused, match="path grant refused"):
            await agent.send(Grant(rule=Rule("path", "/srv", write=False)))
        with pytest.raises(Refused, match="host_not_authorized"):
            await agent.send(Grant(tokens=1000))
        await agent.configure(mode="default")
        assert (await agent.ask("say fine")).text == "fine"

    talk(refused, env={**os.environ, "WAYLAND_ASSISTANT": "", "WAYLAND_ALLOW_WIRE_FORCE": ""})


def test_a_mode_that_is_refused_at_the_start_fails_the_start(talk: Callable[..., None]) -> None:
    async def nothing(agent: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(Refused, match="set_mode: 'force' refused"):
        talk(nothing, mode="force", env={**os.environ, "WAYLAND_ALLOW_WIRE_FORCE": ""})


def test_a_path_that_the_launcher_lets_grant_is_granted(talk: Callable[..., None], tmp_path: Path) -> None:
    async def grant(agent: Agent) -> None:
        await agent.send(Grant(rule=Rule("path", str(tmp_path), write=False)))
        assert only(await allowed_turn(agent, f"peek {tmp_path}/outside/a"), Ask) == []

    talk(grant, args=["--allow-host-path-grants"])


@pytest.mark.parametrize(
    ("always", "asks"),
    [(False, 2), (True, 1), ("rule", 1)],
    ids=["once grants the file", "always grants the folder that is suggested", "a rule grants its path"],
)
def test_a_read_outside_the_workspace_says_why_it_asks_and_succeeds(
    always: Any, asks: int, talk: Callable[..., None], tmp_path: Path
) -> None:
    files = [tmp_path / "outside" / name for name in ("a", "b")]

    async def read(agent: Agent) -> None:
        rule = Rule("path", str(tmp_path / "outside")) if always == "rule" else always
        events = await allowed_turn(agent, f"peek {files[0]} ; peek {files[1]} ; say done", always=rule)
        reasons = [f"it would read {file}, which is outside the workspace" for file in files]
        assert [ask.reason for ask in only(events, Ask)] == reasons[:asks]
        assert [event.output for event in only(events, ToolFinished)] == ["a", "b"]

    talk(read)


def test_after_a_stop_the_conversation_goes_on_in_a_new_session(talk: Callable[..., None]) -> None:
    async def stop(agent: Agent) -> None:
        session = agent.session
        await allowed_turn(agent, "say The word is plum")
        await allowed_turn(agent, "run true ; say ran", always=True)
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                await turn.cancel()
        assert turn.result.reason == "cancelled"
        events = await allowed_turn(agent, "recall")
        [text] = [event.text for event in only(events, TextDelta)]
        assert text.startswith(f"{TOLD}User: say The word is plum\n\nAssistant: The word is plum\n\nUser: run true")
        assert text.endswith("User: wait\n\nAssistant: …\n\nrecall")
        assert only(events, Notice)[0].level == "warning"
        assert agent.session != session
        assert only(await allowed_turn(agent, "run true ; say done"), Ask) == [], "what was allowed for good still is"
        assert (await agent.ask("recall")).text.endswith("recall | run true ; say done | recall")

    talk(stop)


def test_what_the_new_session_was_told_is_still_there_when_it_is_resumed(talk: Callable[..., None]) -> None:
    """The engine keeps the text of `init_history` only as long as its process runs."""

    async def stop_and_resume(agent: Agent) -> None:
        await agent.ask("say The word is plum")
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                await turn.cancel()
        await agent.ask("say on")
        session = agent.session
        await agent.prompt("fail 401")
        assert "Assistant: The word is plum" in (await agent.ask("recall")).text
        assert agent.session == session

    talk(stop_and_resume)


def test_a_stop_inside_a_call_whose_result_comes_after_the_next_prompt(talk: Callable[..., None]) -> None:
    async def stop(agent: Agent) -> None:
        turn = agent.prompt("run sleep 600")
        async for event in turn:
            if isinstance(event, Ask):
                await event.allow()
            if isinstance(event, ToolStarted):
                await turn.cancel()
        assert turn.result.reason == "cancelled"
        events = await allowed_turn(agent, "say on")
        assert ([event.text for event in only(events, TextDelta)], only(events, ToolFinished)) == (["on"], [])

    talk(stop)


def test_after_a_kill_too(talk: Callable[..., None]) -> None:
    async def kill(agent: Agent) -> None:
        await agent.ask("say The word is plum")
        turn = agent.prompt("wait")
        async for event in turn:
            if isinstance(event, TextDelta):
                os.kill(agent.pid, signal.SIGKILL)
        assert turn.result.reason == "error"
        assert "Assistant: The word is plum" in (await agent.ask("recall")).text

    talk(kill, restarts=1)


def test_after_a_refused_key_too(talk: Callable[..., None]) -> None:
    async def refuse(agent: Agent) -> None:
        await agent.ask("say The word is plum")
        failure = (await agent.prompt("fail 401")).failure
        assert failure is not None
        assert (failure.code, failure.owner, failure.retryable) == ("auth_required", "user", False)
        assert (await agent.ask("recall")).text == "say The word is plum | fail 401 | recall"

    talk(refuse)


def test_after_a_rate_limit_too_and_the_limit_is_what_failed(talk: Callable[..., None]) -> None:
    """The engine drops its key then, and reports that it has none."""

    async def limit(agent: Agent) -> None:
        session = agent.session
        await agent.ask("say The word is plum")
        failure = (await agent.prompt("fail 429")).failure
        assert failure is not None
        assert (failure.code, failure.owner, failure.retryable) == ("rate_limit", "provider", True)
        assert (await agent.ask("recall")).text == "say The word is plum | fail 429 | recall"
        assert agent.session == session

    talk(limit)


def test_after_an_outage_that_lasted_too_and_the_outage_is_what_failed(talk: Callable[..., None]) -> None:
    """The engine counts each failed request as used, until its budget is exceeded and the session is blocked."""

    async def outage(agent: Agent) -> None:
        session = agent.session
        await agent.ask("say The word is plum")
        result = await agent.prompt("fail 529")
        assert result.failure is not None
        assert (result.reason, result.failure.code, result.failure.retryable) == ("error", "overloaded", True)
        assert "The word is plum" in (await agent.ask("recall")).text
        assert agent.session != session

    talk(outage)


def test_after_an_outage_in_a_session_that_was_gone_on_with_too(talk: Callable[..., None]) -> None:
    """The engine's journal is broken then, and refuses every later message."""

    async def outage(agent: Agent) -> None:
        await agent.prompt("fail 401")
        session = agent.session
        assert (await agent.ask("outage ; say The word is plum")).text.endswith("The word is plum")
        assert "The word is plum" in (await agent.ask("recall")).text
        assert agent.session != session
        assert (await agent.ask("say on")).text == "on"

    talk(outage)


def test_the_cost_goes_on_where_an_engine_is_replaced(talk: Callable[..., None]) -> None:
    async def limit(agent: Agent) -> None:
        prompts = ("say one", "fail 429", "say two", "say three")
        costs = [((await agent.prompt(prompt)).usage.cost, agent.cost) for prompt in prompts]
        assert costs == [(0.5, 0.5), (0.0, 0.5), (0.5, 1.0), (0.5, 1.5)]

    talk(limit, model="priced")


def test_an_answered_question_is_finished_by_its_answer(talk: Callable[..., None]) -> None:
    async def ask(agent: Agent) -> None:
        events: list[Event] = []
        async for event in agent.prompt("ask Which? ; ask Really? ; say done"):
            events.append(event)
            if isinstance(event, Ask):
                await (event.answer("blue") if event.title == "Which?" else event.deny("no"))
        finished = [(event.outcome, event.output, event.reason) for event in only(events, ToolFinished)]
        assert finished == [("ok", "blue", ""), ("denied", "", "no")]
        assert [type(event) for event in events if isinstance(event, ToolStarted | ToolFinished | TextDelta)] == [
            ToolStarted, ToolFinished, ToolFinished, TextDelta,
        ]  # fmt: skip

    talk(ask)


def test_a_start_that_fails_says_why_and_nothing_else(talk: Callable[..., None]) -> None:
    async def nothing(agent: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(EngineDied) as caught:
        talk(nothing, resume="nope")
    why = "Engine failed to start: Session 'nope' not found"
    assert str(caught.value) == f"the engine wayland-core has ended with exit code 1; it said: {why}"


def test_a_stop_with_prompts_that_wait(talk: Callable[..., None]) -> None:
    async def stop_the_first(agent: Agent) -> None:
        turns = [agent.prompt(text) for text in ("wait", "say two", "say three")]
        waiting = [asyncio.ensure_future(_result(turn)) for turn in turns[1:]]
        async for event in turns[0]:
            if isinstance(event, TextDelta):
                await turns[0].cancel()
        assert turns[0].result.reason == "cancelled"
        assert [(await one).text for one in waiting] == ["two", "three"]

    talk(stop_the_first)


async def _result(turn: Any) -> Any:
    return await turn
