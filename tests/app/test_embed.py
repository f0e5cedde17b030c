"""The engine inside another program: the page docs/embedding.md as it stands there, and what it leaves out."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from doubles_mcp import FOLDER as SERVERS
from engine_process import Place
from grammar_check import Grammar
from interop.claude_model import Model, text, use
from machine import PATIENCE
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.embed import ENV, Wire, open_engine, run_engine
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Prompt
from polylect.vocab.events import Ask, AskClosed, Event, TextDelta, TurnEnded
from providers.loopback import Loopback
from providers.wires import WIRES

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
FRAGMENTS = re.findall(r"<!-- run: (\w+) -->\s*```python\n(.*?)```\s*```\n(.*?)```", PAGE, re.DOTALL)
FILES = re.findall(r"<!-- file: ([\w.]+) -->\s*```python\n(.*?)```", PAGE, re.DOTALL)
RUNNER = """
import ast, asyncio, inspect, json, os, sys, types
import polylect.embed

urls, real = json.loads(os.environ["URLS"]), polylect.embed.open_engine

def redirected(*provider, **options):
    return real(*provider, base_url=urls[provider[0] if provider else options["provider"]], **options)

if urls:
    polylect.embed.open_engine = redirected
code, names = compile(sys.argv[1], "fragment", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(types.FunctionType(code, names)())
else:
    exec(code, names)
"""
"""Runs a fragment as `python -m asyncio` does, with the model services on loopback."""
REPLIES = {
    "What is in this folder": [[text("A README and two folders.")]],
    "Tidy up the branches": [
        [use("c1", "Bash", command="git branch -D old")],
        [text("I may not delete branches today.")],
    ],
    "Write a note": [[use("c1", "Write", file_path="note.txt", content="x")], [text("It is written.")]],
    "enough bolts": [[use("c1", "stock", article="bolts")], [text("Yes, 4200.")]],
    "Remember the number": [[text("I do.")]],
    "Which number": [[text("It was 7.")]],
    "Say hello": [[text("Hello!")]],
    "in the notes": [[use("c1", "echo", about="it")], [text("The notes say yes.")]],
    "Push it": [[use("c1", "Bash", command="git push")], [text("I may not.")]],
    "Sum up": [[text("They meet.")]],
}


def test_the_page_shows_every_task_and_every_kind_of_sink() -> None:
    tasks = ["anthropic", "openai", "approvals", "reading", "tools", "sessions", "budget", "servers", "extensions"]
    sinks = ["memory", "own", "wire", "channel"]
    assert [name for name, _, _ in FRAGMENTS] == [*tasks, "many", "sync", "errors", *sinks]


@pytest.mark.parametrize(("name", "code", "expected"), FRAGMENTS, ids=[name for name, _, _ in FRAGMENTS])
def test_an_example_prints_what_stands_below_it(tmp_path: Path, name: str, code: str, expected: str) -> None:
    place = Place(tmp_path)
    for file, content in FILES:
        (place.workspace / file).write_text(content)
    server = place.folder / "bin" / "notes-server"
    server.parent.mkdir()
    server.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SERVERS}/plain.py" Works\n')
    server.chmod(0o755)

    async def run() -> tuple[str, str]:
        openai = Loopback([WIRES["chat"].answer()])
        async with asyncio.timeout(PATIENCE), Model(REPLIES) as model, openai:
            urls = {"anthropic": model.url, "openai": f"{openai.url}/v1"} if name != "errors" else {}
            env = {
                **{key: value for key, value in place.env.items() if not key.startswith("POLYLECT")},
                "PATH": f"{server.parent}{os.pathsep}{place.env['PATH']}",
                "URLS": json.dumps(urls),
                **({"ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o"} if urls else {}),
            }
            argv = (sys.executable, "-c", RUNNER, code)
            how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
            child = await asyncio.create_subprocess_exec(*argv, cwd=place.workspace, env=env, **how)
            out, errors = await child.communicate()
            return out.decode(), errors.decode()

    assert asyncio.run(run()) == (expected, "")


def test_the_page_has_every_parameter() -> None:
    table = PAGE.partition("## Parameters of open_engine")[2].partition("\n## ")[0]
    names = [name for name in inspect.signature(open_engine).parameters if name != "provider_settings"]
    assert [name for name in names if f"`{name}`" not in table] == []


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
        async with run_engine(events.append, model, workspace=tmp_path, wait_writable=room) as engine:
            engine.handle(Prompt("m", "talk"))
            await until(reached)
            assert sum(isinstance(event, TextDelta) for event in events) == 1
            emptied.set()
            await engine.settled()

    asyncio.run(talk())
    assert sum(isinstance(event, TextDelta) for event in events) == 50


def test_on_leaving_what_runs_is_stopped_and_closed_in_order(tmp_path: Path) -> None:
    events: list[Event] = []
    requested = asyncio.Event()

    def say(event: Event) -> None:
        events.append(event)
        if isinstance(event, Ask):
            requested.set()

    async def talk() -> None:
        model = Scripted.in_order({"call": "Bash", "args": {"command": "true"}})
        async with run_engine(say, model, workspace=tmp_path) as engine:
            engine.handle(Prompt("m", "go"))
            await until(requested)

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

        async with run_engine(say, Scripted.in_order(f"I am {name}."), workspace=tmp_path) as engine:
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
        async with run_engine(wire.emit, model, workspace=tmp_path) as engine:
            wire.connect(engine)
            wire.receive(b'{"type":"message","msg_id":"m","content":"go"}')
            wire.receive_eof()
            await engine.settled()

    asyncio.run(talk())
    said = b"".join(sent)
    assert b'"type":"tool_cancelled"' in said
    assert said.splitlines()[-1].startswith(b'{"type":"stream_end","msg_id":"m","finish_reason":"stop"')
