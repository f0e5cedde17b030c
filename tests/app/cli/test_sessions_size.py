"""How long conversations may get: a resume stays quick and small, adding to one costs the same as ever."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from engine_process import Place
from machine import cpu
from polylect.sessions import folder
from polylect.sessions.store import FileStore
from polylect.vocab.content import Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Body, MessageAdded, TurnClosed, TurnOpened

MIB = 1024 * 1024
WORDS = "Some words of a conversation between a person and a coding agent. "


def turns(number: int) -> Iterator[Body]:
    """Ten messages each."""
    for turn in (f"t{index}" for index in range(number)):
        yield MessageAdded(Message("user", (Text(WORDS * 3),)), turn)
        yield TurnOpened(turn)
        for step in range(4):
            call = ToolCall(f"{turn}-{step}", "Bash", {"command": WORDS})
            content = (Thinking(WORDS, "c2lnbmF0dXJl"), Text(WORDS * 4), call)
            yield MessageAdded(
                Message("assistant", content, "calls", Usage(1000, 100), "m", "p"), turn, f"{turn}-{step}"
            )
            yield MessageAdded(Message("tool", (ToolResult(call.call, "Bash", WORDS * 20),)))
        yield MessageAdded(
            Message("assistant", (Text(WORDS * 6),), "end", Usage(1000, 100), "m", "p"), turn, f"{turn}-5"
        )
        yield TurnClosed(turn, "end")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def test_ten_thousand_messages_are_resumed_in_eighty_mebibytes_and_a_fraction_of_a_second(place: Place) -> None:
    workspace = str(place.workspace)
    store = FileStore(
        folder.create(str(place.sessions), "one", workspace), cwd=workspace, new_id=map(str, count(1)).__next__
    )
    store.append(*turns(1000))
    store.close()
    assert (place.sessions / "one" / "log.jsonl").stat().st_size > 8 * MIB
    engine = place.started("--resume", "one")
    engine.send({"type": "ping"})
    assert engine.frame() == {"type": "pong"}
    engine.wait_until_stuck()  # it answers before it has read all
    assert engine.peak < 80 * MIB
    _, ticks = engine.effort
    assert ticks / os.sysconf("SC_CLK_TCK") < cpu(0.6), "a quiet machine needs 0.2 s"
