"""Every way an engine can fail, on every wire: a typed error with its last words, in bounded time, nothing left."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine_process import eventually
from machine import PATIENCE, within
from polylect.host import EngineDied, HostError, Limits, TimedOut, TurnStarted, connect

pytestmark = pytest.mark.long

BROKEN = Path(__file__).with_name("broken_engine.py")
DIALECTS = ("jsonstream", "omp", "claude")
FAULTS: dict[str, tuple[type[HostError], str]] = {
    "dies": (EngineDied, "exit code 3; it said: out of coffee"),
    "hangs": (TimedOut, "silent for 0.4 s"),
    "floods stderr": (EngineDied, "the end"),
    "writes garbage": (EngineDied, "exit code 3"),
    "closes stdout": (EngineDied, "has ended"),
    "ignores SIGTERM": (TimedOut, "silent for 0.4 s"),
    "drops prompts": (EngineDied, "said nothing about a prompt within 1.6 s and was ended .update it"),
    "never says ready": (EngineDied, "not ready within 0.4 s"),
    "leaves children": (EngineDied, "exit code 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_told_as_what_it_is_and_leaves_nothing(fault: str, tmp_path: Path) -> None:
    """On all wires at once: most of it is waiting."""

    async def all_wires() -> list[int]:
        return await asyncio.gather(*(meet(fault, dialect, tmp_path) for dialect in DIALECTS))

    with within(15):
        pids = asyncio.run(asyncio.wait_for(all_wires(), PATIENCE))
    for pid in pids:
        eventually(lambda pid=pid: not _session(pid))  # type: ignore[misc]


async def meet(fault: str, dialect: str, folder: Path) -> int:
    kind, result = FAULTS[fault]
    argv = [sys.executable, str(BROKEN), dialect, fault]
    patience = {"never says ready": 0.4, "drops prompts": 0.4}.get(fault, PATIENCE)
    agent = connect(argv, dialect=dialect, cwd=str(folder), ready_within=patience)
    with pytest.raises(kind, match=result):
        async with agent:
            await agent.ask("hello", limits=Limits(idle=0.4) if kind is TimedOut else None)
    return agent.pid


def test_an_engine_that_hangs_keeps_nobody_waiting_for_the_turn_before(tmp_path: Path) -> None:
    async def twice() -> None:
        argv = [sys.executable, str(BROKEN), "jsonstream", "hangs"]
        async with connect(argv, dialect="jsonstream", cwd=tmp_path, limits=Limits(total=0.1)) as agent:
            for _ in range(2):
                with pytest.raises(TimedOut, match=r"longer than 0\.1 s"):
                    await agent.ask("hello")

    asyncio.run(asyncio.wait_for(twice(), PATIENCE))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_engine_that_hangs_when_its_turn_is_cancelled_is_ended(dialect: str, tmp_path: Path) -> None:
    async def talk() -> str:
        argv = [sys.executable, str(BROKEN), dialect, "hangs"]
        async with connect(argv, dialect=dialect, cwd=tmp_path, ready_within=2) as agent:
            turn = agent.prompt("hello")
            async for event in turn:
                if isinstance(event, TurnStarted):
                    break
            with suppress(EngineDied):  # on some wires the cancel has an answer
                await turn.cancel()
            reason = (await turn).reason
            with pytest.raises(EngineDied, match="said nothing for 2 s after its turn was cancelled and was ended"):
                await agent.ask("again")
            return reason

    assert asyncio.run(asyncio.wait_for(talk(), PATIENCE)) in ("cancelled", "error")


def _session(leader: int) -> list[int]:
    """Processes of the session that the engine led."""
    actual = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            actual.append(int(path.parent.name))
    return actual


TALKS = """
import json, sys
MB, lines, size = 1_000_000, int(sys.argv[1]), int(sys.argv[2])
def say(**frame): print(json.dumps(frame), flush=True)
say(type="ready", version="0.2.0", session_id="s", capabilities={})
turn = json.loads(sys.stdin.readline())["msg_id"]
say(type="stream_start", msg_id=turn)
for _ in range(lines):
    say(type="text_delta", text="x" * MB * size, msg_id=turn)
say(type="stream_end", msg_id=turn, finish_reason="stop", usage={"input_tokens": 1, "output_tokens": 1})
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("lines", "size", "outcome"),
    [
        (2, 10, ("end", 20, "")),
        (1, 40, ("end", 0, "")),
        (1000, 2, ("error", 34, "said more than 33554432 characters in one step and was ended")),
    ],
    ids=["lines of 10 MB", "a line of 40 MB is skipped", "2 GB in lines of 2 MB"],
)
def test_what_an_engine_says_takes_bounded_memory(
    lines: int, size: int, outcome: tuple[str, int, str], tmp_path: Path
) -> None:
    async def listen() -> tuple[str, int, str]:
        argv = [sys.executable, "-c", TALKS, str(lines), str(size)]
        async with connect(argv, dialect="jsonstream", cwd=str(tmp_path)) as agent:
            result = await agent.prompt("go")
        message = result.failure.message if result.failure else ""
        return result.reason, len(result.text) // 1_000_000, message

    reason, megabytes, message = asyncio.run(asyncio.wait_for(listen(), PATIENCE))
    assert (reason, megabytes) == outcome[:2]
    assert outcome[2] in message
