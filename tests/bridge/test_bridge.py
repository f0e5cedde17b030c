"""What a bridge promises the host in front, whatever the engine behind does. Real processes on both sides."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.test_pairs import bridged, send
from engine_process import Place
from machine import PATIENCE, within
from polylect.host import Agent, EngineDied, ToolFinished, TurnEnded
from polylect.vocab.events import AskClosed, ToolStarted

POLYLECT = [sys.executable, "-m", "polylect", "bridge"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def talk(agent: Agent, do: Callable[[Agent], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with agent:
            return await do(agent)

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize(("front", "engine"), [("json-stream", "polylect-claude"), ("acp", "polylect-omp")])
def test_a_turn_is_cancelled_across_the_bridge(front: str, engine: str, place: Place) -> None:
    async def do(agent: Agent) -> str:
        turn = agent.prompt("wait")
        async for event in turn:
            if hasattr(event, "allow"):
                await event.allow()
            if isinstance(event, AskClosed):  # the call runs; Claude's wire does not say that it has begun
                await turn.cancel()
        return turn.result.reason

    assert talk(bridged(place, front, engine), do) == "cancelled"


def test_an_engine_that_dies_ends_the_turn_and_the_next_prompt_starts_it_again(place: Place) -> None:
    async def do(agent: Agent) -> list[str]:
        reasons = []
        turn = agent.prompt("wait")
        async for event in turn:
            if hasattr(event, "allow"):
                await event.allow()
            if isinstance(event, ToolStarted):
                os.kill(_engine_of(agent.pid), signal.SIGKILL)
            if isinstance(event, TurnEnded):
                reasons.append(event.reason)
        reasons.append((await agent.prompt("hello")).reason)
        return reasons

    assert talk(bridged(place, "json-stream", "polylect"), do) == ["error", "end"]


def test_the_engine_ends_with_a_bridge_that_is_killed(place: Place) -> None:
    async def do(agent: Agent) -> int:
        await agent.prompt("hello")
        engine = _engine_of(agent.pid)
        os.kill(agent.pid, signal.SIGKILL)
        with pytest.raises(EngineDied):
            await agent.prompt("hello")
        return engine

    engine = talk(bridged(place, "native", "polylect-omp"), do)
    with within(10):
        while _runs(engine):
            os.sched_yield()


def test_a_session_is_resumed_across_the_bridge_by_the_name_that_the_host_has_for_it(place: Place) -> None:
    name = "11111111-2222-4333-8444-555555555555"

    async def first(agent: Agent) -> None:
        await agent.prompt("hello")

    async def second(agent: Agent) -> str:
        return str(await agent.query("messages"))

    talk(bridged(place, "native", "polylect", "--session-id", name), first)
    assert talk(bridged(place, "native", "polylect", "--resume", name), second).count("You said hello.") == 1


def test_a_flag_that_protects_and_means_nothing_to_the_engine_stops_the_start(place: Place) -> None:
    ended = run(place, "--front", "claude", "--engine", "omp", "--disallowedTools", "Bash")
    assert ended.returncode == 2
    assert "has no flag for deny" in ended.stderr
    assert ended.stdout == ""


def test_a_flag_that_means_nothing_to_the_engine_is_named(place: Place) -> None:
    ended = run(place, "--front", "native", "--engine", "omp", "--max-turns", "3")
    assert "the engine omp has no flag for max_turns: it is ignored" in ended.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--engine", "polylect"], "choose the wire that the host speaks"),
        (["--front", "claude"], "--engine is missing"),
        (["--front", "claude", "--engine", "nosuch"], "there is no engine 'nosuch'"),
        (["--explain", "acp"], "name two"),
    ],
)
def test_a_wrong_command_line_says_what_would_be_right(words: list[str], text: str, place: Place) -> None:
    ended = run(place, *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert text in ended.stderr


def test_an_engine_that_cannot_start_ends_the_bridge_with_its_reason(place: Place) -> None:
    ended = run(place, "--front", "json-stream", "--engine", "polylect", "--engine-arg", "--no-such-flag")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "--no-such-flag" in ended.stderr


def test_the_report_says_what_was_lost_and_how_often(place: Place, tmp_path: Path) -> None:
    report = tmp_path / "report.json"

    async def do(agent: Agent) -> bool:
        events = await send(agent, "allow", True)
        return any(isinstance(event, ToolFinished) for event in events)

    assert talk(bridged(place, "aionrs", "polylect", "--loss-report", str(report)), do)
    read = json.loads(report.read_text())
    assert (read["front"], read["engine"]) == ("aionrs", "polylect")
    assert read["events"]["Settled"] == 1


def test_explain_prints_the_table_and_its_json(place: Place) -> None:
    text = run(place, "--explain", "acp", "claude").stdout
    assert "Steer              lost     refused with an error" in text
    rows = json.loads(run(place, "--explain", "acp", "claude", "--json").stdout)["fates"]
    assert {"kind": "event", "name": "StepEnded", "fate": "made", "detail": "derived from other frames"} in rows


def run(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*POLYLECT, *words]
    return subprocess.run(
        command, cwd=place.workspace, env=place.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def _runs(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _engine_of(bridge: int) -> int:
    """The process of the engine behind a bridge: its child that runs polylect."""
    children = Path(f"/proc/{bridge}/task/{bridge}/children").read_text().split()
    for child in children:
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"polylect" in words:
            return int(child)
    raise AssertionError(f"no engine among {children}")


def test_link_makes_a_program_that_is_a_bridge(place: Place, tmp_path: Path) -> None:
    link = [sys.executable, "-m", "polylect", "link", "--bridge"]
    made = subprocess.run(
        [*link, "claude=polylect", str(tmp_path / "bin")], env=place.env, timeout=PATIENCE, check=True
    )
    assert made.returncode == 0
    program = str(tmp_path / "bin" / "claude")
    form = ["--print", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    ended = subprocess.run(
        [program, *form], cwd=place.workspace, env={**place.env, "POLYLECT_PROVIDER": "scripted"}, text=True,
        input='{"type":"user","message":{"role":"user","content":"hello"}}\n', capture_output=True, timeout=PATIENCE,
        check=True,
    )  # fmt: skip
    assert json.loads(ended.stdout.splitlines()[-1])["result"] == "Hi! How can I help?"
    wrong = subprocess.run([*link, "claude=nosuch", str(tmp_path)], env=place.env, timeout=PATIENCE, check=False)
    assert wrong.returncode == 2
