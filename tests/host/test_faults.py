"""Engines that behave badly, and what the host SDK makes of each: a typed error, a bounded end, nothing left."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, eventually
from machine import PATIENCE, within
from polylect.host import Agent, Ask, EngineDied, Unsupported, connect
from polylect.vocab.commands import Configure, Grant, Prompt
from polylect.vocab.events import (
    AskClosed,
    Event,
    MalformedEvent,
    TextDelta,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
    UserMessage,
)

READY = '{"type":"ready","version":"0.2.0","session_id":"s","capabilities":{}}'
WRITES = """
[[reply]]
when.step = 1
say = [
    { call = "Write", id = "c1", args = { file_path = "{prompt}.txt", content = "x" } },
    { call = "Bash", id = "c2", args = { command = "true" } },
]

[[reply]]
text = "{calls}"
"""


def bounded(work: Awaitable[None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, PATIENCE)

    asyncio.run(main())


def engine(place: Place, *flags: str, script: str = "", **options: Any) -> Agent:
    argv = place.argv(*flags, script=script)
    return connect(argv, dialect="jsonstream", cwd=str(place.workspace), env=place.env, **options)


def child(code: str, tmp_path: Path, **options: Any) -> Agent:
    """An engine that is nothing but this Python code."""
    return connect([sys.executable, "-c", code], dialect="jsonstream", cwd=str(tmp_path), **options)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# The real engine.


def test_a_turn_is_a_loop_over_events(place: Place) -> None:
    async def work() -> None:
        async with engine(place, script='[[reply]]\ntext = ["Hi! ", "How can I help?"]') as agent:
            assert agent.ready.version == "0.2.0"
            assert agent.ready.session
            events = [event async for event in agent.prompt("Hello")]
            kinds = [type(event) for event in events]
            assert kinds[0] is TurnStarted
            assert kinds[-1] is TurnEnded
            assert [event.text for event in events if isinstance(event, UserMessage)] == ["Hello"]
            assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi! ", "How can I help?"]
        assert await agent.close() == 0

    bounded(work())


def test_asks_are_answered_and_a_rule_outlives_its_ask(place: Place) -> None:
    async def work() -> None:
        async with engine(place, script=WRITES) as agent:
            requested: list[str] = []
            for prompt in ("one", "two"):
                async for event in agent.prompt(prompt):
                    if isinstance(event, Ask):
                        requested.append(event.name)
                        await (event.allow(always=True) if event.name == "Write" else event.deny())
                    if isinstance(event, ToolFinished):
                        assert event.outcome == ("ok" if event.name == "Write" else "denied")
            assert requested == ["Write", "Bash", "Bash"]

    bounded(work())
    assert (place.workspace / "two.txt").exists()


def test_a_cancel_ends_the_turn_and_the_next_one_works(place: Place) -> None:
    script = '[[reply]]\nwhen.prompt = "hang"\nsay = ["wait", { hang = true }]\n[[reply]]\ntext = "Here."'

    async def work() -> None:
        async with engine(place, script=script) as agent:
            async for event in agent.prompt("hang"):
                if isinstance(event, TextDelta):
                    await agent.cancel()
                if isinstance(event, TurnEnded):
                    assert event.reason == "cancelled"
            assert any(isinstance(event, TextDelta) for event in [event async for event in agent.prompt("on")])

    bounded(work())


def test_what_the_wire_has_no_word_for_is_refused_with_a_reason(place: Place) -> None:
    async def work() -> None:
        async with engine(place) as agent:
            with pytest.raises(Unsupported, match="favourite_colour"):
                await agent.send(Configure({"favourite_colour": "blue"}))

    bounded(work())


def test_the_tap_sees_every_byte_of_both_ways(place: Place) -> None:
    wire: dict[str, bytes] = {"in": b"", "out": b""}

    def tap(way: str, data: bytes) -> None:
        wire[way] += data

    async def work() -> None:
        async with engine(place, script='[[reply]]\ntext = "Hi."', tap=tap) as agent:
            async for _ in agent.prompt("Hello"):
                pass

    bounded(work())
    assert wire["in"].count(b"\n") == 1
    assert [line.split(b'"')[3] for line in wire["out"].splitlines()] == [
        b"ready",
        b"stream_start",
        b"text_delta",
        b"stream_end",
    ]


def test_a_prompt_of_four_megabytes_and_a_long_answer_pass(place: Place) -> None:
    async def work() -> None:
        async with engine(place, script='[[reply]]\nsay = [{ text = "word ", repeat = 50000 }]') as agent:
            size = 0
            async for event in agent.prompt("x" * 4_000_000):
                size += len(event.text) if isinstance(event, TextDelta) else 0
            assert size == 250_000

    bounded(work())


def test_several_clients_at_once_do_not_disturb_each_other(place: Place) -> None:
    async def one(number: int) -> list[str]:
        async with engine(place, script='[[reply]]\ntext = "{prompt}"') as agent:
            return [event.text async for event in agent.prompt(f"I am {number}") if isinstance(event, TextDelta)]

    async def work() -> None:
        assert await asyncio.gather(*(one(number) for number in range(4))) == [[f"I am {n}"] for n in range(4)]

    bounded(work())


# Children that behave badly.


def alive_in_session(session: int) -> list[int]:
    """Processes of this session that have not ended; a zombie has."""
    actual = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            actual.append(int(path.parent.name))
    return actual


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(EngineDied, match="/no/such/engine"):
            async with connect(["/no/such/engine"], dialect="jsonstream", cwd=str(tmp_path)):
                pass
        with pytest.raises(EngineDied, match="/no/such/folder"):
            async with connect([sys.executable], dialect="jsonstream", cwd="/no/such/folder"):
                pass

    bounded(work())


def test_an_engine_that_dies_before_ready_leaves_its_last_words(tmp_path: Path) -> None:
    async def work() -> None:
        code = "import sys; print('no key: set ONE', file=sys.stderr); sys.exit(78)"
        with pytest.raises(EngineDied, match="exit code 78; it said: no key: set ONE"):
            async with child(code, tmp_path):
                pass

    bounded(work())


def test_a_missing_key_of_the_real_engine_is_told(place: Place) -> None:
    async def work() -> None:
        argv = [sys.executable, "-m", "polylect", "--json-stream", "--provider", "anthropic"]
        with pytest.raises(EngineDied, match="ANTHROPIC_API_KEY"):
            async with connect(argv, dialect="jsonstream", cwd=str(place.workspace), env=place.env):
                pass

    bounded(work())


def test_an_engine_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        argv = ["/bin/sh", "-c", "echo looking for a port >&2; exec cat"]  # it is there at once, as Python is not
        with pytest.raises(EngineDied, match=r"not ready within 0\.5 s") as caught:
            async with connect(argv, dialect="jsonstream", cwd=str(tmp_path), ready_within=0.5):
                pass
        assert "looking for a port" in str(caught.value)

    bounded(work())


def dies_after(frames: str) -> str:
    return f"import os, sys\nprint('{READY}', flush=True)\nline = sys.stdin.readline()\n{frames}\nos._exit(3)"


def test_an_engine_that_dies_in_a_turn_ends_it_with_a_reason(tmp_path: Path) -> None:
    """L1, from the host's side."""

    async def work() -> None:
        async with child(dies_after("print('dying', file=sys.stderr)"), tmp_path) as agent:
            events = [event async for event in agent.prompt("Hello")]
            ended = events[-1]
            assert isinstance(ended, TurnEnded)
            assert ended.reason == "error"
            assert ended.failure
            for _ in range(3):
                with pytest.raises(EngineDied, match="exit code 3; it said: dying"):
                    async for _ in agent.prompt("Are you there?"):
                        pass

    bounded(work())


def test_an_engine_that_dies_while_it_asks_closes_the_ask(tmp_path: Path) -> None:
    asks = (
        "import json; m = json.loads(line)['msg_id']\n"
        "print(json.dumps({'type':'stream_start','msg_id':m}))\n"
        "print(json.dumps({'type':'tool_request','msg_id':m,'call_id':'c',"
        "'tool':{'name':'Bash','category':'exec','args':{},'description':'x'}}), flush=True)"
    )

    async def work() -> None:
        async with child(dies_after(asks), tmp_path) as agent:
            events = [event async for event in agent.prompt("Hello")]
            assert sum(isinstance(event, Ask) for event in events) == 1
            assert sum(isinstance(event, AskClosed) for event in events) == 1

    bounded(work())


def test_garbage_is_an_event_and_not_an_end(tmp_path: Path) -> None:
    says = (
        "m = __import__('json').loads(line)['msg_id']\n"
        "sys.stdout.buffer.write(b'\\xff garbage\\n[1]\\n' + b'{\"type\":\"brand_new\"}\\n')\n"
        'sys.stdout.write(\'{"type":"stream_start","msg_id":"\' + m + \'"}\\n\')\n'
        'print(\'{"type":"stream_end","msg_id":"\' + m + \'","finish_reason":"stop"}\', flush=True)\n'
        "sys.stdin.read()"
    )
    code = f"import sys\nprint('{READY}', flush=True)\nline = sys.stdin.readline()\n{says}"

    async def work() -> None:
        async with child(code, tmp_path) as agent:
            events: list[Event] = [event async for event in agent.prompt("Hello")]
            assert sum(isinstance(event, MalformedEvent) for event in events) == 2
            assert [event.kind for event in events if isinstance(event, UnknownEvent)] == ["brand_new"]
            assert isinstance(events[-1], TurnEnded)

    bounded(work())


def test_a_flood_on_stderr_blocks_nobody_and_only_its_end_is_kept(tmp_path: Path) -> None:
    flood = "sys.stderr.write('x' * 5_000_000 + 'the end'); sys.stderr.flush()"
    code = f"import sys, os\n{flood}\nprint('{READY}', flush=True)\nsys.stdin.read()\nos._exit(4)"

    async def work() -> None:
        agent = child(code, tmp_path)
        async with agent:
            assert agent.ready.session == "s"
        with pytest.raises(EngineDied) as caught:
            async for _ in agent.prompt("Hello"):
                pass
        assert "exit code 4" in str(caught.value)
        assert str(caught.value).endswith("the end")
        assert len(str(caught.value)) < 10_000

    bounded(work())


def test_a_child_that_does_not_want_to_end_is_ended_in_bounded_time(tmp_path: Path) -> None:
    """It ignores the end of its input and SIGTERM, and so does what it started."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', "
        "'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'])\n"
        f"print('{READY}', flush=True)\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(600)"
    )

    async def work() -> None:
        agent = child(code, tmp_path)
        await agent.__aenter__()
        with within(8):
            assert await agent.close() == -9
        eventually(lambda: not alive_in_session(agent.pid))

    bounded(work())


def test_an_engine_that_reads_nothing_keeps_close_from_nothing(tmp_path: Path) -> None:
    code = f"import time\nprint('{READY}', flush=True)\ntime.sleep(600)"

    async def work() -> None:
        agent = child(code, tmp_path)
        async with agent:
            sending = asyncio.create_task(agent.send(Prompt("t", "x" * 2_000_000)))
            await asyncio.wait([sending], timeout=0.1)
        await asyncio.wait([sending], timeout=PATIENCE)
        assert sending.done()
        sending.exception()

    bounded(work())


def test_closing_twice_is_closing_once(place: Place) -> None:
    async def work() -> None:
        agent = engine(place)
        async with agent:
            assert await agent.close() == 0
        assert await agent.close() == 0

    bounded(work())


def test_a_command_that_waits_for_its_answer_raises_when_the_engine_dies(tmp_path: Path) -> None:
    code = f"import sys; print({READY!r}, flush=True); sys.stdin.readline(); sys.exit(3)"

    async def work() -> None:
        async with child(code, tmp_path) as agent:
            with pytest.raises(EngineDied) as died:
                await agent.send(Grant(tokens=5))
            assert died.value.code == 3

    bounded(work())
