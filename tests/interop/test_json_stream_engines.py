"""The real aionrs and wayland-core, where they are on PATH: they are no packages, so nothing here installs them.

`tests/host/test_aionrs.py` and `tests/host/test_wayland_core.py` drive scripted peers with the same quirks.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine_process import eventually
from interop.claude_model import REFUSE, WAIT, Model, text, use
from machine import PATIENCE
from polylect.host import Agent, Ask, Event, TextDelta, ToolFinished, ToolStarted, connect

pytestmark = pytest.mark.interop
COMMANDS = {"aionrs": ("ExecCommand", "cmd"), "wayland-core": ("Bash", "command")}
"""The tool that runs commands, and its argument."""


@pytest.fixture(params=COMMANDS)
def engine(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not on PATH")
    return str(request.param)


def call(engine: str, id: str, line: str) -> dict[str, Any]:
    tool, argument = COMMANDS[engine]
    return use(id, tool, **{argument: line})


def drive(engine: str, script: dict[str, Any], place: Path, conversation: Any) -> None:
    async def main() -> None:
        async with Model(script) as model:
            env = {"PATH": os.environ["PATH"], "HOME": str(place), "ANTHROPIC_API_KEY": "none"}
            service = {"provider": "anthropic", "base_url": model.url, "model": "claude-sonnet-4-5"}
            async with connect(engine, cwd=place, env=env, **service) as agent:
                await conversation(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def allowing(agent: Agent, prompt: str, *, always: bool = False) -> list[Event]:
    events = []
    async for event in agent.prompt(prompt):
        events.append(event)
        if isinstance(event, Ask):
            await event.allow(always=always)
    return events


def test_turns_calls_and_what_is_allowed_for_good(engine: str, tmp_path: Path) -> None:
    ran = [[call(engine, "c1", "echo one")], [text("ran")]]

    async def talk(agent: Agent) -> None:
        results = [await agent.ask("hello"), await agent.ask("hello")]
        assert [result.text for result in results] == ["Hi", "Hi"]
        assert results[0].usage == results[1].usage
        first, second = [await allowing(agent, "run", always=True) for _ in range(2)]
        outputs = [event.output for event in (*first, *second) if isinstance(event, ToolFinished)]
        assert [len([event for event in events if isinstance(event, Ask)]) for events in (first, second)] == [1, 0]
        assert ["one" in output for output in outputs] == [True, True]

    drive(engine, {"hello": [[text("Hi")]], "run": ran}, tmp_path, talk)


def test_a_stop_while_the_model_writes_and_one_inside_a_call(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        for prompt, moment in (("slow", TextDelta), ("sleep", ToolStarted)):
            turn = agent.prompt(prompt)
            async for event in turn:
                if isinstance(event, Ask):
                    await event.allow()
                if isinstance(event, moment):
                    await turn.cancel()
            assert turn.result.reason == "cancelled"
            assert (await agent.ask("hello")).text == "Hi"

    slept = [[call(engine, "c1", "sleep 600")], [text("slept")]]
    drive(engine, {"hello": [[text("Hi")]], "slow": [[text("a"), WAIT]], "sleep": slept}, tmp_path, talk)


def test_a_refusal_of_the_service_has_its_kind(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        failure = (await agent.prompt("no")).failure
        assert failure is not None
        assert failure.code in ("auth", "auth_invalid")
        assert not failure.retryable
        assert (await agent.ask("hello")).text == "Hi"

    drive(engine, {"hello": [[text("Hi")]], "no": [REFUSE]}, tmp_path, talk)


def test_close_leaves_nothing(engine: str, tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def talk(agent: Agent) -> None:
        async for event in agent.prompt("sleep"):
            if isinstance(event, Ask):
                await event.allow()
            if isinstance(event, ToolStarted):
                await asyncio.to_thread(eventually, lambda: mark.exists() and mark.read_text().strip())
                break

    slept = [[call(engine, "c1", f"setsid sleep 600 & echo $! > {mark}; wait")], [text("slept")]]
    drive(engine, {"sleep": slept}, tmp_path, talk)
    eventually(lambda: not Path(f"/proc/{mark.read_text().strip()}/fd").exists() or _is_zombie(mark.read_text()))


def _is_zombie(pid: str) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid.strip()}/stat").read_text()
    except OSError:
        return True
