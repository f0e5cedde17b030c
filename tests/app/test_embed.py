"""The engine inside another program: the examples of docs/embedding.md as they stand there, and what they leave out."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import Place
from grammar_check import Grammar
from machine import PATIENCE
from polylect.app.embed import ENV, Wire, open_engine
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Prompt
from polylect.vocab.events import Ask, AskClosed, Event, TextDelta, TurnEnded

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- example: (\w+) -->\s*```python\n(.*?)```\s*```\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_every_kind_of_sink() -> None:
    assert [name for name, _, _ in EXAMPLES] == ["memory", "own", "wire", "rights", "channel"]


@pytest.mark.parametrize(("code", "expected"), [pytest.param(*found, id=name) for name, *found in EXAMPLES])
def test_an_example_prints_what_stands_below_it(tmp_path: Path, code: str, expected: str) -> None:
    place = Place(tmp_path)
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=place.workspace, env=place.env, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.stdout.decode(), done.stderr.decode()) == (expected, "")


async def until(holds: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await holds.wait()


def test_t8_a_sink_that_is_full_makes_the_model_wait(tmp_path: Path) -> None:
    events: list[Event] = []
    reached = asyncio.Event()
    emptied = asyncio.Event()

    async def room() -> None:
        reached.set()
        await emptied.wait()

    async def talk() -> None:
        model = Scripted.from_values({"reply": [{"text": ["word "] * 50}], "batch": 1})
        async with open_engine(events.append, model, workspace=str(tmp_path), wait_writable=room) as engine:
            engine.handle(Prompt("m", "talk"))
            await until(reached)
            assert sum(isinstance(event, TextDelta) for event in events) == 1
            emptied.set()
            await engine.settled()

    asyncio.run(talk())
    assert sum(isinstance(event, TextDelta) for event in events) == 50


def test_on_leaving_what_runs_is_stopped_and_closed_in_order(tmp_path: Path) -> None:
    events: list[Event] = []
    asked = asyncio.Event()

    def say(event: Event) -> None:
        events.append(event)
        if isinstance(event, Ask):
            asked.set()

    async def talk() -> None:
        model = Scripted.in_order({"call": "Bash", "args": {"command": "true"}})
        async with open_engine(say, model, workspace=str(tmp_path)) as engine:
            engine.handle(Prompt("m", "go"))
            await until(asked)

    asyncio.run(talk())
    grammar = Grammar()
    for event in events:
        grammar.check(event)
    assert [event.how for event in events if isinstance(event, AskClosed)] == ["cancelled"]
    assert [event.reason for event in events if isinstance(event, TurnEnded)] == ["cancelled"]


def test_two_engines_of_one_loop_share_nothing(tmp_path: Path) -> None:
    said: dict[str, str] = {"a": "", "b": ""}

    async def talk(name: str) -> None:
        def say(event: Event) -> None:
            if isinstance(event, TextDelta):
                said[name] += event.text

        async with open_engine(say, Scripted.in_order(f"I am {name}."), workspace=str(tmp_path)) as engine:
            engine.handle(Prompt("m", "who?"))
            await engine.settled()

    async def both() -> None:
        await asyncio.gather(talk("a"), talk("b"))

    asyncio.run(both())
    assert said == {"a": "I am a.", "b": "I am b."}


def test_i5_a_wire_whose_host_went_away_denies_what_would_have_to_be_asked(tmp_path: Path) -> None:
    sent: list[bytes] = []

    async def talk() -> None:
        wire = Wire(EngineSide(ENV), sent.append)
        model = Scripted.in_order({"reply": [{"call": "Bash", "args": {"command": "true"}}, "{outcome}"]})
        async with open_engine(wire.say, model, workspace=str(tmp_path)) as engine:
            wire.connect(engine)
            wire.receive(b'{"type":"message","msg_id":"m","content":"go"}')
            wire.receive_eof()
            await engine.settled()

    asyncio.run(talk())
    said = b"".join(sent)
    assert b'"type":"tool_cancelled"' in said
    assert said.splitlines()[-1].startswith(b'{"type":"stream_end","msg_id":"m","finish_reason":"stop"')
