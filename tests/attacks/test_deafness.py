"""Whatever a model asks for in one reply, the engine hears its host: `ping`, `stop` and signals are answered in time.

Promised on a quiet machine: a ping is answered within 250 ms, a stop and SIGTERM within 2 s.
"""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attacks.deafness import Listener, results
from e2e.service import VENDORS, Service
from engine_process import Engine, Place, message
from machine import within
from polylect.vocab.content import Block, Text, ToolCall

END = 2.0
DONE = '[[reply]]\ntext = "done"\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        (place.workspace / "notes.txt").write_text("alpha\n")
        yield place


def asks_for(*calls: str, batch: int = 1) -> str:
    """A script whose first reply is these calls, each a table of the scripted provider's."""
    agents = '[[reply]]\nwhen = { prompt = "sub" }\nsay = [{ hang = true }]\n'
    return f"batch = {batch}\n{agents}[[reply]]\nwhen = {{ step = 1 }}\nsay = [{', '.join(calls)}]\n{DONE}"


def call(name: str, repeat: int = 1, **args: object) -> str:
    return toml({"call": name, "args": args, "repeat": repeat})


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def prompted(engine: Engine) -> Listener:
    listener = Listener(engine)
    listener.ping()  # answered when all is loaded
    listener.forget()
    engine.send(message("go"))
    return listener


MANY = {
    "2000 searches": call("Grep", 2000, pattern="alpha"),
    "2000 reads": call("Read", 2000, file_path="notes.txt"),
    "4000 of an unknown tool": call("Nothing", 4000),
    "300 agents in the background": call("Spawn", 300, tasks=[{"name": "a", "prompt": "sub"}], background=True),
}


@pytest.mark.parametrize("calls", MANY.values(), ids=MANY.keys())
def test_thousands_of_calls_in_one_reply(place: Place, calls: str) -> None:
    engine = place.started("--force", script=asks_for(calls, batch=1000))
    listener = prompted(engine)
    lines = listener.until("stream_end")
    assert len(results(lines)) >= 300
    listener.check()


@pytest.mark.parametrize("end", ["stop", "signal"])
def test_a_stop_and_a_signal_in_the_middle_of_2000_searches(place: Place, end: str) -> None:
    engine = place.started("--force", script=asks_for(MANY["2000 searches"]))
    prompted(engine).until("tool_running")
    with within(END):
        if end == "stop":
            engine.send({"type": "stop"})
            engine.until("stream_end")
        else:
            engine.signal(signal.SIGTERM)
            engine.rest()
            assert engine.wait() == 143


# Threads that never come back.

FILL = """
import asyncio, threading

def extend(polylect):
    @polylect.tool("Fill", "Fills the pool of threads for ever.", {"type": "object"}, category="info")
    async def fill(args):
        await asyncio.gather(*(asyncio.to_thread(threading.Event().wait) for _ in range(64)))
"""


@pytest.mark.parametrize("end", ["stop", "eof", "signal"])
def test_a_pool_full_of_threads_does_not_keep_a_turn_from_ending(place: Place, end: str) -> None:
    """An extension fills asyncio's pool, as pages and name servers once did: the log is saved all the same."""
    (place.folder / "fill.py").write_text(FILL)
    flags = ("--force", "--on-eof", "stop", "--extension", str(place.folder / "fill.py"))
    engine = place.started(*flags, script=asks_for(call("Fill")))
    prompted(engine).until("tool_running")
    with within(END):
        assert ended(engine, end) == {"stop": 0, "eof": 0, "signal": 143}[end]


def ended(engine: Engine, how: str) -> int:
    """Stop what runs, then close the input; or the latter alone; or SIGTERM. Returns the exit code."""
    match how:
        case "stop":
            engine.send({"type": "stop"})
            engine.until("stream_end")
            engine.close_input()
        case "eof":
            engine.close_input()
        case "signal":
            engine.signal(signal.SIGTERM)
    assert how == "stop" or engine.rest()[-1]["type"] == "stream_end"
    return engine.wait()


# Replies and arguments that are larger than any model writes.

MB = 1_000_000
LARGE: dict[str, Callable[[], Block]] = {
    "text": lambda: Text("lorem ipsum\n" * (16 * MB // 12)),
    "Write": lambda: ToolCall("t1", "Write", {"file_path": "a.txt", "content": "lorem ipsum\n" * (8 * MB // 12)}),
    "Bash": lambda: ToolCall("t1", "Bash", {"command": "true " + "x" * (8 * MB)}),
    "TodoWrite": lambda: ToolCall("t1", "TodoWrite", {"todos": [{"content": "x", "status": "pending"}] * (MB // 5)}),
    "WebFetch": lambda: ToolCall("t1", "WebFetch", {"url": "http://" + "x" * (8 * MB)}),
    "an unknown tool": lambda: ToolCall("t1", "x" * (8 * MB), {}),
    "an id": lambda: ToolCall("x" * (8 * MB), "Read", {"file_path": "notes.txt"}),
}


@pytest.mark.parametrize("block", LARGE.values(), ids=LARGE.keys())
def test_megabytes_in_one_reply(place: Place, block: Callable[[], Block]) -> None:
    vendor = VENDORS["chat"]
    with Service() as service:
        service.give(vendor.says(block(), width=60_000), vendor.says(Text("done")))
        listener = prompted(vendor.engine(place, service.url, "--force"))
        listener.until("stream_end")
    listener.check()
