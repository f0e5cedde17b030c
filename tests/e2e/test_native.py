"""A real engine on the native wire: docs/native.md is true, and every line fits the schema."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialects.native_schema import valid
from engine_process import Engine, Frame, Place
from polylect.engine.commands.queries import QUERIES

PAGE = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
WRITES = """
[[reply]]
when.step = 1
say = ["I'll create it.", { call = "Write", id = "c1", args = { file_path = "hello.txt", content = "hello" } }]

[[reply]]
text = "Done."
"""
LOOKS_UP = """
[[reply]]
when.step = 1
say = [{ call = "stock", id = "c1", args = { article = "bolts" } }]

[[reply]]
text = "Enough."
"""
OWN = {"seq", "stream", "session", "version", "abilities", "ask", "request", "usage", "total", "rows"}
"""What differs from one run to the next, or is shortened on the page."""
ARGS = {"file": {"path": "hello.txt"}, "export": {"path": "out.html"}}
NOT_THERE = {"agent_messages": "no agent '' is at work", "agent_output": "there is no command '' in the background"}
"""Queries about what does not run here."""
Start = Callable[[str], Engine]


@pytest.fixture
def start(place: Place) -> Start:
    def start(script: str) -> Engine:
        argv = [sys.executable, "-m", "polylect", "--native", *place.script(script)]
        engine = Engine(argv, place.workspace, place.env)
        place.keep(engine)
        return engine

    return start


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def arrows(text: str) -> list[tuple[str, Frame]]:
    actual = re.findall(r"^ *([→←]) (\{.*\})$", text, re.MULTILINE)
    return [(arrow, json.loads(line)) for arrow, line in actual]


def comparable(frame: Frame) -> dict[str, Any]:
    return {key: "..." if key in OWN else value for key, value in frame.items()}


def reply(engine: Engine, command: Frame) -> Frame:
    valid("commands", [command])
    engine.send({**command, "ref": "mine"})
    frames = engine.until("reply")
    valid("events", frames)
    return frames[-1]


def test_the_conversation_of_the_page_happens(start: Start) -> None:
    engine, ask = start(WRITES), ""
    for arrow, line in arrows(section("A conversation")):
        if arrow == "→":
            command = {**line, "ask": ask} if "ask" in line else line
            valid("commands", [command])
            engine.send(command)
        else:
            frame = engine.frame()
            valid("events", [frame])
            assert comparable(frame) == comparable(line)
            ask = frame.get("ask", ask)
    assert engine.finish() == ([], 0)


def test_the_page_lists_every_query_with_the_type_of_its_answer(start: Start, place: Place) -> None:
    _, *rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", section("Queries"), re.MULTILINE)
    assert {name for name, _ in rows} == set(QUERIES)
    (place.workspace / "hello.txt").write_text("hello")
    engine = start(WRITES)
    engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    engine.send({"type": "answer", "ask": engine.until("ask")[-1]["ask"], "verdict": "allow"})
    engine.until("settled")
    for name, data_type in rows:
        answer = reply(engine, {"type": "query", "what": name, "args": ARGS.get(name, {})})
        if name in NOT_THERE:
            assert answer["failure"]["message"] == NOT_THERE[name]
        elif answer.get("data") == []:
            assert (answer["data_type"], data_type.strip()[-3:]) == ("[]", "[]`")
        else:
            assert ("data" in answer, answer.get("data_type", "")) == (True, data_type.strip().strip("`"))


def test_a_line_that_is_no_command_is_answered_as_the_page_says(start: Start) -> None:
    engine = start(WRITES)
    engine.until("ready")
    (_, command), (_, answer) = arrows(section("Lines"))
    engine.send(command)
    assert comparable(engine.frame()) == comparable(answer)


def test_a_host_gives_the_model_a_tool_as_the_page_says(start: Start) -> None:
    engine = start(LOOKS_UP)
    engine.until("ready")
    (_, hello), (_, call), (_, result) = arrows(section("What the host does for the engine"))
    assert "failure" not in reply(engine, hello)
    engine.send({"type": "configure", "settings": {"mode": "force"}}, {"type": "prompt", "turn": "t1", "text": "go"})
    *_, called = engine.until("host_call")
    assert {**comparable(called), "call": "h1"} == comparable(call)
    engine.send({**result, "call": called["call"]})
    frames = engine.until("turn_ended")
    valid("events", frames)
    assert [frame["output"] for frame in frames if frame["type"] == "tool_finished"] == ["4200"]


def test_commands_of_the_page_are_commands() -> None:
    actual = re.findall(r"`(\{\"type\":\"[^`]*\})`", section("What you can do"))
    assert len(actual) >= 15
    valid("commands", [json.loads(one.replace("{...}", "{}")) for one in actual])


def test_a_session_is_opened_as_the_page_says(start: Start, place: Place) -> None:
    engine = start(WRITES)
    engine.until("ready")
    (_, opening), (_, ready), (_, opened), (_, prompt) = arrows(section("Several sessions"))
    valid("commands", [opening, prompt])
    engine.send(prompt)
    assert [frame["failure"]["code"] for frame in engine.until("failed")] == ["unknown_session"]
    engine.send({**opening, "cwd": str(place.workspace)})
    frames = engine.until("reply")
    valid("events", frames)
    file = str(place.folder / "state" / "sessions" / "docs" / "log.jsonl")
    opened["data"]["file"] = file
    assert [comparable(frame) for frame in frames] == [comparable(ready), comparable(opened)]
