"""L4: a host is heard while a long session is read."""

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from engine_process import Engine, Place, message
from polylect.sessions import folder
from polylect.sessions.store import FileStore
from polylect.vocab.content import Message, Text
from polylect.vocab.entries import MessageAdded, TurnOpened

_SLOW = """
import os, sys
from polylect.sessions import store

class Slow(store.FileStore):
    def _load(self):
        os.read(int(os.environ["GATE"]), 1)  # until the test says so
        super()._load()

store.FileStore = Slow
sys.argv = ["polylect", *sys.argv[1:]]
from polylect.app.main import main
sys.exit(main())
"""
REPLY = '[[reply]]\ntext = "Turn {turn}: {prompt}"'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        workspace = str(place.workspace)
        made = folder.create(str(place.sessions), "one", workspace)
        store = FileStore(made, cwd=workspace, new_id=map(str, count(1)).__next__)
        store.append(MessageAdded(Message("user", (Text("x" * folder.LONG),)), "t1"), TurnOpened("t1"))
        store.close()
        yield place


@pytest.fixture
def gate() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def slow(place: Place, gate: tuple[int, int], *flags: str) -> Engine:
    """An engine that does not come to an end with reading its session before the gate is opened."""
    argv = [sys.executable, "-c", _SLOW, *flags, *place.script(REPLY), "--resume", "one"]
    engine = Engine(argv, place.workspace, {**place.env, "GATE": str(gate[0])}, keep=(gate[0],))
    place.keep(engine)
    return engine


def test_L4_ping_and_stop_are_answered_while_a_long_session_is_read(place: Place, gate: tuple[int, int]) -> None:
    engine = slow(place, gate, "--json-stream")
    assert engine.frame()["type"] == "ready"
    engine.send({"type": "ping"}, message("one", "m1"), {"type": "stop"}, message("two", "m2"), {"type": "ping"})
    result = [engine.frame() for _ in range(3)]
    assert sorted(frame["type"] for frame in result) == ["pong", "pong", "stream_end"]
    assert [frame["msg_id"] for frame in result if "msg_id" in frame] == ["m1"]
    os.write(gate[1], b"!")
    received = engine.until("stream_end")
    assert [frame["text"] for frame in received if frame["type"] == "text_delta"] == ["Turn 2: two"]
    assert {frame["msg_id"] for frame in received if "msg_id" in frame} == {"m2"}
    assert engine.finish() == ([], 0)


def test_L4_the_end_of_the_input_waits_for_the_session_and_a_signal_does_not(
    place: Place, gate: tuple[int, int]
) -> None:
    engine = slow(place, gate, "--mode", "rpc")
    assert engine.frame() == {"type": "ready"}
    engine.signal(signal.SIGTERM)
    assert engine.wait() == 128 + signal.SIGTERM
    again = slow(place, gate, "--mode", "rpc")
    again.send({"type": "get_state", "id": "r"})
    again.close_input()
    os.write(gate[1], b"!")
    ready, state = again.rest()
    assert (ready["type"], state["id"], state["data"]["messageCount"]) == ("ready", "r", 1)
    assert again.wait() == 0
