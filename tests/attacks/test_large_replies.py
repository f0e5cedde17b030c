"""Replies larger than any model writes: on every wire the engine hears its host, and its memory stays bounded."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attacks.deafness import Listener
from attacks.test_deafness import WIRES
from attacks.tries import tries
from e2e.service import VENDORS, Service
from engine_process import Engine, Place, message
from polylect.vocab.content import Block, Text, ToolCall

MANY = min(100, tries(30))
MB = 1_000_000
MIB = 1024 * 1024
VENDOR = VENDORS["chat"]
TODOS = {"todos": [{"content": "x", "status": "pending"}] * 2400}
CASES: dict[str, tuple[str, Callable[[], list[Block]]]] = {
    "json-stream, lists": ("json-stream", lambda: [ToolCall(f"t{n}", "TodoWrite", TODOS) for n in range(MANY)]),
    "claude, lists": ("claude", lambda: [ToolCall(f"t{n}", "TodoWrite", TODOS) for n in range(MANY)]),
    "omp, lists": ("omp", lambda: [ToolCall(f"t{n}", "TodoWrite", TODOS) for n in range(MANY)]),
    "omp, files": ("omp", lambda: [ToolCall(f"t{n}", "Write", _file(n)) for n in range(MANY)]),
    "omp, text": ("omp", lambda: [Text("lorem ipsum\n" * (MANY * MB // 12))]),
    "omp, escapes": ("omp", lambda: [Text("\u2028" * MB)]),
    "claude, escapes": ("claude", lambda: [Text("\u2028" * MB)]),
    "claude, text": ("claude", lambda: [Text("lorem ipsum\n" * (MANY * MB // 12))]),
}
LONG_ONES = ("claude, lists", "omp, files", "claude, escapes")
JSON_STREAM = (["--json-stream", "--force"], message("go"), {"type": "ping"}, "pong")
ENDS = {"json-stream": "stream_end", "omp": "prompt_result", "claude": "result"}


def _file(number: int) -> dict[str, str]:
    return {"file_path": f"{number}.txt", "content": "lorem ipsum\n" * 37_500}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def started(place: Place, wire: str, url: str) -> tuple[Engine, Listener]:
    """An engine of this wire at its prompt, and who pings it."""
    flags, prompt, question, answer = {**WIRES, "json-stream": JSON_STREAM}[wire]
    result = ["--provider", VENDOR.provider, "--base-url", url, "--model", "some-model"]
    engine = Engine([sys.executable, "-m", "polylect", *flags, *result], place.workspace, {**place.env, **VENDOR.env})
    place.keep(engine)
    listener = Listener(engine, question, b'{"type":"%b"' % answer.encode())
    listener.ping()
    engine.send(prompt)
    if wire == "omp":
        engine.until("response")
    listener.forget()
    return engine, listener


@pytest.mark.parametrize("case", [case for case in CASES if MANY > 30 or case not in LONG_ONES])
def test_megabytes_of_calls_and_text_keep_nobody_waiting(place: Place, case: str) -> None:
    wire, blocks = CASES[case]
    with Service() as service:
        service.give(VENDOR.says(*blocks(), width=60_000), VENDOR.says(Text("done")))
        _, listener = started(place, wire, service.url)
        listener.until(ENDS[wire])
    listener.check()


def test_arguments_beyond_the_limit_get_an_error_and_the_others_run(place: Place) -> None:
    calls = [
        ToolCall("t1", "Write", {"file_path": "a.txt", "content": "x" * 5 * MB}),
        ToolCall("t2", "Write", {"file_path": "b.txt", "content": "x" * MB}),
        ToolCall("t3", "TodoWrite", {"todos": [{"content": "x", "status": "pending"}] * 3500}),
        ToolCall("t4", "Write", {"file_path": "c.txt", "content": "y"}),
    ]
    with Service() as service:
        service.give(VENDOR.says(*calls, width=60_000), VENDOR.says(Text("done")))
        engine, _ = started(place, "json-stream", service.url)
        frames = [frame for frame in engine.until("stream_end") if frame["type"] == "tool_result"]
        request = json.loads(service.requests[-1].body)
    results = {frame["call_id"]: (frame["status"], frame["output"][:50]) for frame in frames}
    refused = ("error", "The arguments are cut off, too large or not a JSON")
    assert results["t1"] == results["t3"] == refused
    assert results["t2"] == ("success", "Created b.txt (1 lines)")
    assert results["t4"] == ("success", "Created c.txt (1 lines)")
    assert len(json.dumps(request)) < 2 * MB


def test_reply_after_reply_of_megabytes_of_arguments_fills_no_memory(place: Place) -> None:
    """A path of 7 MB is refused, and nothing of it is kept."""
    calls = [ToolCall(f"t{n}", "Read", {"file_path": "a" * 7 * MB}) for n in range(4)]
    with Service() as service:
        big = VENDOR.says(*calls, width=MB)
        service.give(*[big] * max(2, MANY // 15), VENDOR.says(Text("done")))
        engine, listener = started(place, "json-stream", service.url)
        listener.until("stream_end")
        assert engine.peak < 150 * MIB
    listener.check()
