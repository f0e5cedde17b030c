"""Functions of the host that the engine calls at certain moments, with real engines."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.host import Agent, Hook, InvalidType, Notice, ToolFinished, TurnEnded, Unsupported, connect

WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", args = { file_path = "a.txt", content = "x" } }]

[[reply]]
text = "done"
"""
ENGINES = ("polylect", "polylect-claude")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def talk(place: Place, engine: str, do: Callable[[Agent], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        arguments = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "mode": "force", **options}
        async with connect(engine, script=place.script(WRITES)[-1], **arguments) as agent:
            await do(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hook_sees_the_call_and_says_no(place: Place, engine: str) -> None:
    seen: list[dict[str, Any]] = []

    async def check(hook_input: dict[str, Any]) -> str:
        seen.append(hook_input)
        return "not on a Monday"

    async def do(agent: Agent) -> None:
        finished = [event async for event in agent.prompt("write") if isinstance(event, ToolFinished)]
        assert [event.outcome for event in finished] == ["denied"]
        assert "not on a Monday" in finished[0].output

    talk(place, engine, do, hooks={"PreToolUse": check})
    assert [(one["hook_event_name"], one["tool_name"]) for one in seen] == [("PreToolUse", "Write")]
    assert not (place.workspace / "a.txt").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hook_lets_pass_matches_names_and_changes_arguments(place: Place, engine: str) -> None:
    called: list[str] = []

    def rename(hook_input: dict[str, Any]) -> dict[str, Any]:
        args = {**hook_input["tool_input"], "file_path": "b.txt"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": args}}

    def note(hook_input: dict[str, Any]) -> None:
        called.append(hook_input["hook_event_name"])

    async def do(agent: Agent) -> None:
        assert (await agent.ask("write")).text == "done"

    hooks = {
        "PreToolUse": [Hook(rename, "Write"), Hook(note, "Bash")],
        "PostToolUse": note,
        "UserPromptSubmit": note,
    }
    talk(place, engine, do, hooks=hooks)
    assert called == ["UserPromptSubmit", "PostToolUse"]
    assert (place.workspace / "b.txt").read_text() == "x"


@pytest.mark.parametrize(("guards", "outcome"), [(False, "ok"), (True, "denied")])
def test_a_hook_that_fails_is_reported_and_denies_only_if_it_guards(place: Place, guards: bool, outcome: str) -> None:
    def broken(hook_input: dict[str, Any]) -> None:
        raise RuntimeError("no network")

    async def do(agent: Agent) -> None:
        events = [event async for event in agent.prompt("write")]
        assert [event.outcome for event in events if isinstance(event, ToolFinished)] == [outcome]
        result = [str(event) for event in events if isinstance(event, Notice | ToolFinished)]
        assert any("no network" in text for text in result)
        assert isinstance(events[-1], TurnEnded)

    talk(place, "polylect", do, hooks={"PreToolUse": Hook(broken, guards=guards)})


def test_a_prompt_is_refused_by_a_hook(place: Place) -> None:
    async def do(agent: Agent) -> None:
        result = await agent.prompt("write")
        assert result.reason == "refused"

    talk(place, "polylect", do, hooks={"UserPromptSubmit": lambda hook_input: "closed today"})


def test_a_wire_without_hooks_says_so_at_the_start(place: Place) -> None:
    async def do(agent: Agent) -> None:
        raise AssertionError("it must not start")

    for engine in ("polylect-omp", "polylect-jsonstream"):
        with pytest.raises(Unsupported, match="carries no hooks of the host"):
            talk(place, engine, do, hooks={"PreToolUse": lambda hook_input: None})


def test_what_is_no_function_is_refused_at_once() -> None:
    with pytest.raises(InvalidType, match="a hook is a function"):
        connect("polylect", hooks={"PreToolUse": "check"})  # type: ignore[dict-item]
