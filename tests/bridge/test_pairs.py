"""Every front before every engine: the same script through each pair, with our own host in front and real processes."""

import asyncio
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.app.cli.bridge.explain import engine_wire, front_wire
from polylect.bridge.fates import fates
from polylect.host import Agent, connect
from polylect.host.engine_registry import engine_spec
from polylect.vocab.events import Ask, Event, TextDelta, ToolFinished, TurnEnded

FRONTS = {
    "native": {"dialect": "native"},
    "json-stream": {"dialect": "jsonstream", "version": "0.2.0"},
    "aionrs": {"dialect": "jsonstream", "version": "0.1.0"},
    "claude": {"dialect": "claude"},
    "omp": {"dialect": "omp", "version": "13"},
    "pi": {"dialect": "omp", "version": "pi"},
    "acp": {"dialect": "acp"},
}
FLAGS = {
    "claude": [
        *("--print", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
        *("--permission-prompt-tool", "stdio", "--include-partial-messages"),
    ],
    "omp": ["--mode", "rpc", "--approval-mode", "always-ask"],
    "pi": ["--mode", "rpc", "--approval-mode", "always-ask"],
}
ENGINES = ("polylect", "polylect-jsonstream", "polylect-omp", "polylect-claude", "polylect-acp")
SCRIPT = """
[[reply]]
when.prompt = "allow"
when.step = 1
say = ["So.", { call = "Bash", args = { command = "echo a > allow.txt" } }]

[[reply]]
when.prompt = "deny"
when.step = 1
say = ["So.", { call = "Bash", args = { command = "echo d > deny.txt" } }]

[[reply]]
when.prompt = "wait"
when.step = 1
say = [{ call = "Bash", args = { command = "sleep 60" } }]

[[reply]]
when.step = 2
text = "Done: {outcome}."

[[reply]]
text = "You said {prompt}."
"""


def bridged(place: Place, front: str, engine: str, *more: str) -> Agent:
    """Our own host, before a bridge."""
    words = ["--provider", "scripted", "--script", place.script(SCRIPT)[-1]]
    to_engine = [word for one in words for word in ("--engine-arg", one)]
    command = [sys.executable, "-m", "polylect", "bridge", "--front", front, "--engine", engine, *to_engine, *more]
    flags = FLAGS.get(front, [])
    options: dict[str, Any] = {"cwd": str(place.workspace), "env": place.env, **FRONTS[front]}
    return connect([*command, *flags], **options)


def direct(place: Place, engine: str) -> Agent:
    script = place.script(SCRIPT)[-1]
    return connect(engine, cwd=str(place.workspace), env=place.env, provider="scripted", script=script)


async def send(agent: Agent, prompt: str, allow: bool) -> list[Event]:
    events = []
    async for event in agent.prompt(prompt):
        events.append(event)
        if isinstance(event, Ask):
            await (event.allow() if allow else event.deny("not now"))  # type: ignore[attr-defined]
    return events


def kinds(events: list[Event]) -> list[str]:
    """The kinds of events in order, runs of the same as one: each wire cuts texts in its own way."""
    names = [type(event).__name__ for event in events if not event.agent]
    return [name for index, name in enumerate(names) if not index or names[index - 1] != name]


async def talk(agent: Agent) -> list[list[Event]]:
    async with agent:
        return [await send(agent, prompt, prompt == "allow") for prompt in ("hello", "allow", "deny")]


@pytest.fixture(scope="module")
def without_bridge(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[list[Event]]]:
    """The same conversation with an engine of this name alone, held once."""

    @cache
    def run(engine: str) -> list[list[Event]]:
        place = Place(tmp_path_factory.mktemp("direct"))
        return asyncio.run(asyncio.wait_for(talk(direct(place, engine)), PATIENCE))

    return run


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_conversation_goes_across_every_pair(
    engine: str, front: str, tmp_path: Path, without_bridge: Callable[[str], list[list[Event]]]
) -> None:
    """A plain turn, a call that is allowed and one that is denied: the same as without a bridge, less the fates."""
    place = Place(tmp_path)
    expected = without_bridge(engine)
    received = asyncio.run(asyncio.wait_for(talk(bridged(place, front, engine)), PATIENCE))
    for before, after in zip(expected, received, strict=True):
        ended_before, ended = before[-1], after[-1]
        assert isinstance(ended, TurnEnded)
        assert isinstance(ended_before, TurnEnded)
        assert ended.reason == ended_before.reason
        assert _text(after) == _text(before)
        assert _outcomes(after) == _outcomes(before)
        lost = {row.name for row in fates(front_wire(front), engine_wire(engine)) if row.fate == "lost"}
        missing = set(kinds(before)) - set(kinds(after))
        assert missing <= lost | MADE_AGAIN, missing
    assert (place.workspace / "allow.txt").exists()
    assert not (place.workspace / "deny.txt").exists()


MADE_AGAIN = {"SettingChanged", "CostChanged", "ContextUsed", "Notice", "Alive", "ToolOutput", "QueueChanged"}
"""Events that depend on the moment, or whose few kinds that a wire has are not those of this conversation."""


def _text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def _outcomes(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.name, event.outcome) for event in events if isinstance(event, ToolFinished)]


def test_the_engines_are_those_of_the_registry() -> None:
    assert [engine_spec(engine).name for engine in ENGINES] == list(ENGINES)
