"""The real omp and pi, old and new, driven by our host side against a model on loopback."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from interop import omp_peers
from interop.claude_model import Model as ScriptedModel
from interop.claude_model import text, use
from interop.omp_peers import Driven, Model, Peer, driven, of
from interop.script_engines import Engine
from machine import PATIENCE
from polylect.host import Agent
from polylect.vocab.answers import ModelCard, SessionOpened, ShellResult, State, Stats
from polylect.vocab.commands import Answer, Cancel, Compact, Configure, OpenSession, Prompt, Query, RunShell, Steer
from polylect.vocab.content import Text
from polylect.vocab.events import (
    AgentEnded,
    AgentStarted,
    ArgsDelta,
    Ask,
    AskClosed,
    BlockEnded,
    Display,
    Event,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    SettingChanged,
    Settled,
    ShellOutput,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

pytestmark = pytest.mark.interop
ENGINES = ("13", "18", "18.3", "pi", "pi 0.87", "pi 1.5")
COMMAND = """
export default function (pi) {
  pi.registerCommand("sure", {
    description: "asks",
    handler: async (args, ctx) => ctx.ui.notify((await ctx.ui.confirm("Sure?", "really")) ? "yes" : "no", "info"),
  });
}
"""

Talk = Callable[[Callable[[Driven], Coroutine[Any, Any, None]]], None]
"""Holds a conversation with the engine, within a time."""


@pytest.fixture(scope="module", params=ENGINES)
def peer(request: pytest.FixtureRequest) -> Peer:
    return omp_peers.peer(request.param)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture(scope="module")
def talk(peer: Peer, model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """With one engine for all conversations: each takes seconds to start."""
    folder = tmp_path_factory.mktemp("engine")
    (extension := folder / "sure.ts").write_text(COMMAND)
    with asyncio.Runner() as runner:
        engine = driven(peer, model, folder / "home", "--extension", str(extension))
        agent = runner.run(engine.__aenter__())

        def talk(conversation: Callable[[Driven], Coroutine[Any, Any, None]]) -> None:
            agent.received.clear()
            runner.run(asyncio.wait_for(conversation(agent), 2 * PATIENCE))

        yield talk
        runner.run(engine.__aexit__(None, None, None))


def test_two_turns_of_text_and_the_state_between(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        events = await agent.turn("hello")
        result = (TurnStarted, StepStarted, UserMessage, TextDelta, BlockEnded, ReplyEnded, StepEnded, TurnEnded)
        kinds = [kind.__name__ for kind, _ in groupby(type(event) for event in events if isinstance(event, result))]
        assert kinds == [
            "TurnStarted", "UserMessage", "StepStarted", "TextDelta", "BlockEnded", "ReplyEnded", "StepEnded",
            "TurnEnded",
        ]  # fmt: skip
        assert "".join(event.text for event in of(events, TextDelta)) == "you said hello"
        [prompt], [said], [end] = of(events, UserMessage), of(events, BlockEnded), of(events, TurnEnded)
        assert (prompt.text, prompt.origin, said.block) == ("hello", "prompt", Text("you said hello"))
        assert (end.reason, end.usage.input, end.usage.output, end.steps) == ("end", 25, 15, 1)
        assert end.usage.cost == pytest.approx(4e-5)
        await agent.until(Settled)
        state = (await agent.send(Query("state"))).data
        assert isinstance(state, State)
        assert (state.model, state.provider, state.busy) == ("one", "mock", False)
        assert state.messages in (2, 3), "its first words, and in newer pi its instructions"
        again = await agent.turn("again")
        assert of(again, BlockEnded)[-1].block == Text("you said again")

    talk(conversation)


def test_a_tool_runs(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        events = await agent.turn("run: echo one; sleep 0.3; echo two")
        [called], [started], [finished] = of(events, ToolCalled), of(events, ToolStarted), of(events, ToolFinished)
        assert (called.name, called.args) == ("bash", {"command": "echo one; sleep 0.3; echo two"})
        assert called.call == started.call == finished.call
        assert json.loads("".join(event.text for event in of(events, ArgsDelta))) == called.args
        assert finished.outcome == "ok"
        assert finished.output.startswith("one\ntwo")
        assert "".join(event.text for event in of(events, ToolOutput)).startswith("one\n")
        assert of(events, TurnEnded)[-1].steps == 2

    talk(conversation)


def test_a_turn_is_cancelled_and_the_next_one_runs(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        slow = agent.start(Prompt("slow", "slow"))
        await agent.until(TextDelta)
        waiting = await agent.send(Prompt("later", "never said"))
        assert waiting.failure is None
        stopped = await agent.send(Cancel())
        assert stopped.failure is None
        assert (await slow).failure is None
        ends = [await agent.until(TurnEnded), await agent.until(TurnEnded)]
        assert {(end.turn, end.reason) for end in of(ends, TurnEnded)} == {
            ("slow", "cancelled"), ("later", "cancelled"),
        }  # fmt: skip
        assert of(await agent.turn("hello"), TurnEnded)[-1].reason == "end"

    talk(conversation)


def test_a_prompt_that_was_stopped_at_once_has_its_end(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        agent.start(Prompt("gone", "slow"))
        agent.start(Cancel())
        end = await agent.until(TurnEnded)
        assert (end.turn, end.reason) == ("gone", "cancelled")  # type: ignore[union-attr]
        assert of(await agent.turn("hello"), TurnEnded)[-1].reason == "end"

    talk(conversation)


def test_a_call_is_cancelled(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        agent.start(Prompt("call", "run: sleep 30"))
        await agent.until(ToolStarted)
        agent.start(Cancel())
        finished = await agent.until(ToolFinished)
        assert finished.outcome in ("cancelled", "error")  # type: ignore[union-attr]
        end = await agent.until(TurnEnded)
        assert end.reason == "cancelled"  # type: ignore[union-attr]

    talk(conversation)


def test_a_second_prompt_waits_and_one_that_interrupts_does_not(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        agent.start(Prompt("one", "slow"))
        await agent.until(TextDelta)
        agent.start(Prompt("two", "hello", busy="interrupt"))
        agent.start(Prompt("three", "hello again"))
        ends = [await agent.until(TurnEnded) for _ in range(3)]
        assert [(end.turn, end.reason) for end in of(ends, TurnEnded)] == [
            ("one", "cancelled"), ("two", "end"), ("three", "end"),
        ], of(ends, TurnEnded)[-1].failure  # fmt: skip

    talk(conversation)


def test_a_steer_joins_the_running_turn(talk: Talk, model: Model, tmp_path: Path) -> None:
    go = tmp_path / "go"
    expected = f"run: until [ -e '{go}' ]; do sleep 0.05; done; echo x"

    async def conversation(agent: Driven) -> None:
        agent.start(Prompt("steered", expected))
        await agent.until(ToolStarted)
        assert (await agent.send(Steer("faster"))).failure is None
        go.touch()
        await agent.until(TurnEnded, turn="steered")
        messages = [event for event in of(agent.received, UserMessage) if event.turn == "steered"]
        joined = [(event.text, event.origin) for event in messages if event.origin != "engine"]
        assert joined == [(expected, "prompt"), ("faster", "steer")]
        assert "faster" in str(model.requests[-1]["messages"]), "omp 18 may tell it of the command's end after that"
        assert len([event for event in of(agent.received, TurnStarted) if event.turn == "steered"]) == 1

    talk(conversation)


def test_a_reply_that_broke_off_is_tried_again_in_the_same_turn(talk: Talk, model: Model, peer: Peer) -> None:
    model.failures = 1

    async def conversation(agent: Driven) -> None:
        events = await agent.turn("fail")
        [_], [end] = of(events, TurnStarted), of(events, TurnEnded)
        if peer.version == "18":  # which tries nothing again once the model has spoken
            assert (end.reason, of(events, RetryStarted)) == ("error", [])
            return
        [retry], [over] = of(events, RetryStarted), of(events, RetryEnded)
        assert (retry.attempt, over.ok, end.reason) == (1, True, "end")
        assert of(events, BlockEnded)[-1].block == Text("you said fail")

    talk(conversation)


def test_an_error_ends_the_turn_when_nothing_is_tried_again(talk: Talk, model: Model) -> None:
    model.failures = 9

    async def conversation(agent: Driven) -> None:
        assert (await agent.send(Configure({"auto_retry": False}))).failure is None
        [end] = of(await agent.turn("fail"), TurnEnded)
        assert end.reason == "error"
        assert "verloaded" in end.failure.message
        model.failures = 0
        assert of(await agent.turn("hello"), TurnEnded)[-1].reason == "end"

    talk(conversation)


def test_a_dialog_of_an_extension_is_answered_and_its_command_ends(talk: Talk) -> None:
    async def conversation(agent: Driven) -> None:
        agent.start(Prompt("command", "/sure"))
        ask: Any = await agent.until(Ask)
        assert (ask.kind, ask.title, ask.reason) == ("confirm", "Sure?", "really")
        assert (await agent.send(Answer(ask.ask, "allow"))).failure is None
        await agent.until(AskClosed, how="answered")
        shown: Any = await agent.until(Display, method="notify")
        assert shown.params["message"] == "yes"
        if not of(agent.received, TurnEnded):  # omp does not wait for the command, pi does
            await agent.until(TurnEnded, turn="command")
        assert of(agent.received, TurnEnded)[0].reason == "end"
        assert of(await agent.turn("hello"), TurnEnded)[-1].reason == "end"

    talk(conversation)


def test_questions_settings_and_sessions(talk: Talk, peer: Peer) -> None:
    async def conversation(agent: Driven) -> None:
        begun = (await agent.send(OpenSession(how="new"))).data
        await agent.turn("hello")
        stats = (await agent.send(Query("stats"))).data
        assert isinstance(stats, Stats)
        assert (stats.session, stats.users, stats.assistants, stats.usage.input) == (begun.session, 1, 1, 25)
        assert [item.message.role for item in (await agent.send(Query("messages"))).data] == ["user", "assistant"]
        assert (await agent.send(Query("last_text"))).data == "you said hello"
        cards = (await agent.send(Query("models"))).data
        assert {("mock", "one"), ("mock", "two")} <= {(card.provider, card.name) for card in cards}
        assert isinstance(cards[0], ModelCard)
        assert (await agent.send(Configure({"model": "mock/two"}))).failure is None
        await agent.until(SettingChanged, key="model", value="two")
        missing = await agent.send(Configure({"model": "mock/three"}))
        assert missing.failure
        assert missing.failure.message == "Model not found: mock/three"
        assert (await agent.send(Configure({"name": "A talk", "steering_mode": "all"}))).failure is None
        await agent.until(SettingChanged, key="name", value="A talk")
        shell = (await agent.send(RunShell("echo out; exit 3"))).data
        assert isinstance(shell, ShellResult)
        assert (shell.command, shell.output, shell.code) == ("echo out; exit 3", "out\n", 3)
        assert [event.text for event in of(agent.received, ShellOutput)] in ([], ["out\n"]), (
            "newer pi tells while it runs"
        )
        [point] = (await agent.send(Query("fork_points"))).data
        forked = (await agent.send(OpenSession(how="fork", at=point.entry))).data
        assert isinstance(forked, SessionOpened)
        assert (forked.text, forked.cancelled) == ("hello", False)
        opened = (await agent.send(OpenSession(how="new"))).data
        assert opened.session not in ("", forked.session)
        await agent.until(SettingChanged, key="session", value=opened.session)
        back = (await agent.send(OpenSession(how="resume", target=stats.file))).data
        assert back.session == stats.session
        if peer.version != "pi":  # which finds something to compact in anything
            nothing = await agent.send(Compact())
            assert nothing.failure
            assert "Nothing to compact" in nothing.failure.message

    talk(conversation)


def test_an_engine_that_is_killed_ends_its_turn(peer: Peer, model: Model, tmp_path: Path) -> None:
    async def conversation() -> None:
        async with driven(peer, model, tmp_path) as agent:
            agent.start(Prompt("t", "slow"))
            await agent.until(TextDelta)
            os.kill(agent.link.pid, signal.SIGKILL)
            end: Any = await agent.until(TurnEnded, turn="t")
            assert (end.reason, end.failure.code) == ("error", "engine_gone")

    asyncio.run(asyncio.wait_for(conversation(), 2 * PATIENCE))


@pytest.mark.parametrize("version", ["18", "18.3"])
def test_omp_18_tells_what_its_sub_agents_do(version: str, tmp_path: Path) -> None:
    task = use("call_1", "task", agent="task", context="c", tasks=[{"id": "One", "description": "d", "task": "DIG"}])
    dig = [[use("call_2", "bash", command="echo dug")], [use("call_3", "yield", result={"data": "ok"}, data="ok")]]

    async def conversation() -> list[Event]:
        async with (
            ScriptedModel({"DELEGATE": [[task], [text("Done.")]], "DIG": dig}) as model,
            Engine("omp", version).connect(model, tmp_path) as agent,
        ):
            events = asyncio.create_task(until_an_agent_ended(agent))
            await agent.ask("DELEGATE")  # 18.3 ends the turn before the sub-agent
            return await events

    async def until_an_agent_ended(agent: Agent) -> list[Event]:
        events: list[Event] = []
        async for event in agent.events():
            events.append(event)
            if isinstance(event, AgentEnded):
                break
        return events

    events = asyncio.run(asyncio.wait_for(conversation(), 2 * PATIENCE))
    [started], [ended] = of(events, AgentStarted), of(events, AgentEnded)
    assert (started.agent, started.background, ended.ok) == (ended.agent, True, True)
    calls = [event for event in of(events, ToolFinished) if event.agent == started.agent]
    assert [(event.call, event.outcome) for event in calls] == [("call_2", "ok"), ("call_3", "ok")]
