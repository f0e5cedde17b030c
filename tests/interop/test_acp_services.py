"""Real agents of ACP that leave files and commands to their client, served by the SDK: goose, kimi and gemini."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, Sleepers
from interop.acp_agents import AGENTS
from interop.acp_model import Model
from interop.claude_model import text, use
from polylect import host
from polylect.host import Ask, HostCall, ToolFinished

pytestmark = pytest.mark.interop
PATIENCE = 240.0
WRITES = {"goose": ("write", "path"), "kimi": ("Write", "path"), "gemini": ("write_file", "file_path")}
"""What each calls the tool that writes a file, and its path."""
RUNS = ["create_terminal", "wait_for_terminal_exit", "terminal_output", "release_terminal"]


async def turn(engine: host.Agent, prompt: str) -> tuple[list[str], str]:
    """What the agent asks of its client in a turn, and the output of its calls. Everything is allowed."""
    methods, output = [], ""
    async for event in engine.prompt(prompt):
        if isinstance(event, Ask):
            await event.allow()
        if isinstance(event, HostCall):
            methods.append(event.method)
        if isinstance(event, ToolFinished):
            output += event.output
    return methods, output


@pytest.mark.parametrize("name", WRITES)
def test_files_and_commands_of_the_agent_are_the_work_of_the_sdk(name: str, tmp_path: Path) -> None:
    agent, (tool, path) = AGENTS[name], WRITES[name]
    sleepers = Sleepers(Place(tmp_path))
    (tmp_path / "work").mkdir()
    new = tmp_path / "work" / "new" / "written.txt"
    sleep = f"{sleepers.go}; sleep {sleepers.length}"
    script: dict[str, Any] = {
        "MAKE": [[agent.call("call_1", "echo made | tee made.txt")], [text("Made.")]],
        "WRITE": [[use("call_2", tool, **{path: str(new), "content": "written\n"})], [text("Written.")]],
        "SLEEP": [[agent.call("call_3", sleep)], [text("Awake.")]],
    }

    async def main() -> None:
        async with Model(script) as model, agent.connect(model, tmp_path, files=True, terminal=True) as engine:
            methods, output = await turn(engine, "MAKE")
            assert methods == ([] if name == "gemini" else RUNS)
            assert "made\n" in output or name == "gemini"
            assert "write_text_file" in (await turn(engine, "WRITE"))[0]
            running = asyncio.create_task(turn(engine, "SLEEP"))
            await asyncio.to_thread(sleepers.wait_until_started)
            await engine.cancel()
            await running
            await asyncio.to_thread(sleepers.wait_until_gone)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert (tmp_path / "work" / "made.txt").read_text() == "made\n"
    assert new.read_text() == "written\n"
