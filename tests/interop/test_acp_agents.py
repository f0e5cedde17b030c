"""The SDK drives real agents of ACP by their names, each on a model on loopback.

Each agent is started twice: once for a conversation of several chapters, and once to go on with it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.peers import installed

from engine_process import Place, Sleepers
from grammar_check import Grammar
from interop.acp_agents import AGENTS, SECOND, Agent, age_sessions
from interop.acp_clients import processes
from interop.acp_model import Model
from interop.claude_model import REFUSE, WAIT, Step, text
from polylect import host
from polylect.host import Ask, Event
from polylect.vocab import commands as c
from polylect.vocab import events as e

pytestmark = pytest.mark.interop
PATIENCE = 240.0
"""For all that one agent does; they are slow to start on a busy machine."""
SLOW = "One moment"
STOPS = ("codex-acp",)
"""Agents that cancel the turn when a call is denied."""
DONE = ("gemini", "opencode")
"""Agents that tell a command that was stopped as completed."""


class Heard(NamedTuple):
    """The events of each chapter, what was seen beside them, and what is left at the end."""

    events: dict[str, list[Event]]
    seen: dict[str, Any]


def script(agent: Agent, sleep: str) -> dict[str, list[Step]]:
    return {
        "HELLO": [[text("Hello to you.")]],
        "MAKE": [[text("I will."), agent.call("call_1", "echo made > made.txt")], [text("It is made.")]],
        "DENY": [[agent.call("call_2", "echo made > denied.txt")], [text("Then not.")]],
        "SLOW": [[text(SLOW), WAIT]],
        "SLEEP": [[agent.call("call_3", sleep)], [text("Awake.")]],
        "REFUSE": [REFUSE],
    }


async def converse(agent: Agent, place: Path) -> Heard:
    events: dict[str, list[Event]] = {}
    seen: dict[str, Any] = {}
    sleepers = Sleepers(Place(place))
    async with Model(script(agent, f"{sleepers.go}; sleep {sleepers.length}")) as model:
        async with agent.connect(model, place) as engine:
            grammar = asyncio.create_task(_check(engine))
            events["plain"] = await _turn(engine, "HELLO")
            events["allowed"] = await _turn(engine, "MAKE", answer=Ask.allow)
            events["denied"] = await _turn(engine, "DENY", answer=_no)
            seen["files"] = sorted(path.name for path in (place / "work").glob("*.txt"))
            events["cancelled"] = await _turn(engine, "SLOW", then=engine.cancel)
            events["stopped"] = await _stopped(engine, sleepers)
            events["refused"] = await _turn(engine, "REFUSE")
            events["after"] = await _turn(engine, "HELLO")
            seen["two sessions"] = await _two_sessions(engine)
            session, before = engine.session, len(model.asked)
        await grammar
        age_sessions(place)
        async with agent.connect(model, place, resume=session) as engine:
            events["resumed"] = await _turn(engine, "HELLO")
            seen["remembers"] = any("MAKE" in str(requested["messages"]) for requested in model.asked[before:])
    await asyncio.to_thread(sleepers.wait_until_gone)
    seen["processes"] = processes(place)
    return Heard(events, seen)


async def _turn(
    engine: host.Agent,
    prompt: str,
    *,
    answer: Callable[[Ask], Awaitable[None]] | None = None,
    then: Callable[[], Awaitable[None]] | None = None,
) -> list[Event]:
    heard: list[Event] = []
    async for event in engine.prompt(prompt):
        heard.append(event)
        if answer and isinstance(event, Ask):
            await answer(event)
        if then and isinstance(event, e.TextDelta) and said(heard) == SLOW:
            await then()
    return heard


async def _no(ask: Ask) -> None:
    await ask.deny("not this one")


async def _stopped(engine: host.Agent, sleepers: Sleepers) -> list[Event]:
    """A turn that is cancelled while its command runs."""
    turn = asyncio.create_task(_turn(engine, "SLEEP", answer=Ask.allow))
    await asyncio.to_thread(sleepers.wait_until_started)
    await engine.cancel()
    return await turn


async def _two_sessions(engine: host.Agent) -> dict[str, str]:
    """What is said in each, while a turn runs in both."""
    heard: dict[str, list[Event]] = {"": [], "two": []}
    ended = asyncio.Event()

    async def listen() -> None:
        async for event in engine.events():
            heard[event.session].append(event)
            if isinstance(event, e.TurnEnded) and event.session == "two":
                ended.set()

    listening = asyncio.create_task(listen())
    slow = asyncio.create_task(_turn(engine, "SLOW"))
    while said(heard[""]) != SLOW:  # noqa: ASYNC110  (what is heard is read elsewhere)
        await asyncio.sleep(0.01)
    await engine.send(c.OpenSession("new", session="two"))
    await engine.send(c.Prompt("t2", "HELLO", session="two"))
    await ended.wait()
    await engine.cancel()
    await slow
    listening.cancel()
    return {name: said(events) for name, events in heard.items()}


async def _check(engine: host.Agent) -> None:
    """The main session keeps the grammar."""
    grammar = Grammar()
    async for event in engine.events():
        result = {name: getattr(event, name) for name in e.Ask.__struct_fields__} if isinstance(event, Ask) else {}
        if not event.session:
            grammar.check(e.Ask(**result) if result else event)  # the SDK's asks can do more
    grammar.finish()


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, e.TextDelta))


def end(events: list[Event]) -> e.TurnEnded:
    assert isinstance(events[-1], e.TurnEnded)
    return events[-1]


def of(events: list[Event], *kinds: type[Event]) -> list[str]:
    """The events of these kinds: what kind, and how it went."""
    chosen = [event for event in events if isinstance(event, kinds)]
    return [" ".join((type(one).__name__, getattr(one, "outcome", getattr(one, "how", "")))).strip() for one in chosen]


@pytest.fixture(scope="module", params=[*AGENTS, *SECOND])
def agent(request: pytest.FixtureRequest) -> Agent:
    return {**AGENTS, **SECOND}[request.param]


@pytest.fixture(scope="module")
def name(agent: Agent) -> str:
    return agent.name


@pytest.fixture(scope="module")
def heard(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    return asyncio.run(asyncio.wait_for(converse(agent, tmp_path_factory.mktemp(agent.name)), PATIENCE))


def test_a_text_is_answered(heard: Heard) -> None:
    for chapter in ("plain", "after", "resumed"):
        assert said(heard.events[chapter]) == "Hello to you."
        assert end(heard.events[chapter]).reason == "end"


def test_a_call_is_allowed(heard: Heard) -> None:
    result = of(heard.events["allowed"], e.Ask, e.AskClosed, e.ToolFinished)
    assert result == ["Ask", "AskClosed allowed", "ToolFinished ok"]
    assert said(heard.events["allowed"]) == "I will.It is made."
    assert heard.seen["files"] == ["made.txt"]


def test_a_call_is_denied(name: str, heard: Heard) -> None:
    result = of(heard.events["denied"], e.Ask, e.AskClosed, e.ToolFinished)
    assert result == ["Ask", "AskClosed denied", "ToolFinished denied"]
    assert end(heard.events["denied"]).reason == ("cancelled" if name in STOPS else "end")


def test_a_turn_is_cancelled(heard: Heard) -> None:
    assert end(heard.events["cancelled"]).reason == "cancelled"


def test_a_command_is_stopped(name: str, heard: Heard) -> None:
    """That it has ended is part of the conversation."""
    assert end(heard.events["stopped"]).reason == "cancelled"
    assert of(heard.events["stopped"], e.ToolFinished) == [f"ToolFinished {'ok' if name in DONE else 'cancelled'}"]


def test_a_provider_refuses(heard: Heard) -> None:
    assert end(heard.events["refused"]).failure


def test_two_sessions_at_once(heard: Heard) -> None:
    assert heard.seen["two sessions"] == {"": SLOW, "two": "Hello to you."}


def test_a_session_is_gone_on_with(heard: Heard) -> None:
    assert heard.seen["remembers"]


def test_no_process_is_left(heard: Heard) -> None:
    assert heard.seen["processes"] == []


def test_copilot_says_what_to_run_before_it_can_be_used(tmp_path: Path) -> None:
    """Without a login there is no session, so that this is all that can be tried."""
    program = installed("copilot") / "node_modules" / "@github" / "copilot-linux-x64"
    env = {"PATH": str(program), "HOME": str(tmp_path)}

    async def start() -> None:
        async with host.connect("copilot", cwd=tmp_path, env=env, ready_within=PATIENCE):
            raise AssertionError

    with pytest.raises(host.NotConfigured, match=r"Log in with Copilot CLI \(run .*copilot login in a terminal\)"):
        asyncio.run(start())
