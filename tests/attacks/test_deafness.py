"""Whatever a model asks for in one reply, the engine hears its host: `ping`, `stop` and signals are answered in time.

Promised on a quiet machine: a ping is answered within 250 ms, a stop and SIGTERM within 2 s.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attacks.deafness import MOST as DEAFEST
from attacks.deafness import Listener, results
from attacks.tries import tries
from e2e.service import VENDORS, Service
from engine_process import Engine, Place, message
from machine import within
from polylect.engine.turn.calls import MOST_CALLS
from polylect.vocab.content import Block, Text, ToolCall

pytestmark = pytest.mark.long

END = 2.0
TRIES = tries(1)
SECONDS = min(5.0, 1.0 * TRIES)
"""How long an engine is watched while a call is at work."""
SHARDS = max(1, TRIES // 5)
"""Tests that share the generated arguments, so that two can run at once. Each makes up its own in `make attack`."""
DONE = '[[reply]]\ntext = "done"\n'
WARM = '[[reply]]\nwhen = { prompt = "warm" }\ntext = "warm"\n'
AGENTS = '[[reply]]\nwhen = { prompt = "sub" }\nsay = [{ hang = true }]\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        (place.workspace / "notes.txt").write_text("alpha\n")
        yield place


def asks_for(*calls: str, batch: int = 1) -> str:
    """A script whose first reply is these calls, each a table of the scripted provider's."""
    return f"batch = {batch}\n{WARM}{AGENTS}{step(1, *calls)}"


def step(number: int, *calls: str) -> str:
    return f"[[reply]]\nwhen = {{ step = {number} }}\nsay = [{', '.join(calls)}]\n"


def call(name: str, repeat: int = 1, **args: object) -> str:
    return toml({"call": name, "args": args, "repeat": repeat})


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def prompted(engine: Engine, *, scripted: bool = True) -> Listener:
    """An engine that has loaded all it needs, a script of megabytes too, and is at its prompt."""
    listener = Listener(engine)
    if scripted:
        engine.send(message("warm", "m0"))
        engine.until("stream_end")
    listener.ping()
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
    engine = place.started("--force", script=asks_for(calls, batch=1000) + DONE)
    listener = prompted(engine)
    lines = listener.until("stream_end")
    frames = results(lines)
    assert len(frames) >= 300
    assert sum(frame["status"] == "success" for frame in frames) <= MOST_CALLS
    listener.check()


@pytest.mark.parametrize("end", ["stop", "signal"])
def test_a_stop_and_a_signal_in_the_middle_of_2000_searches(place: Place, end: str) -> None:
    engine = place.started("--force", script=asks_for(MANY["2000 searches"]) + DONE)
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
    engine = place.started(*flags, script=asks_for(call("Fill")) + DONE)
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


# Names that are looked up without end.

DEAF_DNS = """
import socket, threading

def extend(polylect):
    socket.getaddrinfo = lambda *args, **more: threading.Event().wait()
"""


@pytest.mark.parametrize("end", ["stop", "eof", "signal"])
def test_a_name_server_that_never_answers_keeps_no_turn_from_ending(place: Place, end: str) -> None:
    """Once more names than asyncio's pool has threads: nothing that ends a turn may wait for one of those."""
    (place.folder / "dns.py").write_text(DEAF_DNS)
    flags = ("--force", "--on-eof", "stop", "--extension", str(place.folder / "dns.py"))
    names = [call("WebFetch", url=f"http://{number}.example.org/") for number in range(8)]
    engine = place.started(*flags, script=asks_for(*names) + DONE)
    listener = prompted(engine)
    lines = list[bytes]()
    while sum(line.startswith(b'{"type":"tool_running"') for line in lines) < len(names):
        lines += listener.ping()
    listener.check()
    with within(END):
        assert ended(engine, end) == {"stop": 0, "eof": 0, "signal": 143}[end]


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
        listener = prompted(vendor.engine(place, service.url, "--force"), scripted=False)
        listener.until("stream_end")
    listener.check()


# Hostile arguments, for every tool.

LINES = "".join(f"{'a' if line % 3 else 'b'}\n" for line in range(1900))
OTHER = "".join(f"{'a' if line % 2 else 'b'}\n" for line in range(1900))
EVERYTHING = [
    {"old_string": "x", "new_string": "y", "replace_all": True},
    {"old_string": "y", "new_string": "x", "replace_all": True},
]
HOSTILE = {
    "Read a path of 200 KB": call("Read", file_path="a/" * 100_000),
    "Read a path of 8 KB that a rule speaks of": call("Read", file_path="a/b/" * 2000),
    "Write to a path of 200 KB": call("Write", file_path="a/" * 100_000, content="x"),
    "Bash with 36 flags of git": call("Bash", command="git " + "-a " * 36 + "x"),
    "Bash with 20 000 nested substitutions": call("Bash", command="$(" * 20_000),
    "Bash with 100 000 quotes": call("Bash", command="'\"" * 50_000),
    "Bash that prints 20 MB": call("Bash", command="head -c 20000000 /dev/zero | tr '\\0' 'a'"),
    "16 Bash that print short lines without end": call("Bash", 16, command="yes '' >&2 & yes ''"),
    "BashOutput by a pattern that backtracks": call("BashOutput", bash_id="bash_1", filter="(a+)+$"),
    "Glob **?**?": call("Glob", pattern="**?" * 12 + "!"),
    "Glob *a*a*a": call("Glob", pattern="*a*a*a*a*a*b[c]"),
    "Glob 100 000 braces": call("Glob", pattern="{a,b}" * 20_000),
    "Grep that backtracks": call("Grep", pattern="(a|a)*(a|a)*(a|a)*$", multiline=True),
    "Grep with a repeat of a repeat": call("Grep", pattern="(a{1000}){1000}"),
    "Edit of 1900 lines of two kinds": call("Edit", file_path="lines.txt", old_string=LINES, new_string=OTHER),
    "MultiEdit of 400 changes of all of 4 MB": call("MultiEdit", file_path="long.txt", edits=EVERYTHING * 200),
    "WebFetch of an address of 8 KB": call("WebFetch", url="http://" + "a." * 4000),
    "ToolSearch for 1000 words": call("ToolSearch", query="a " * 1000),
    "TodoWrite of 3000 items": call("TodoWrite", todos=[{"content": "x", "status": "pending"}] * 3000),
    "Skill of 200 KB": call("Skill", skill="x" * 200_000),
    "KillBash of 200 KB": call("KillBash", bash_id="x" * 200_000),
    "Spawn of 200 KB": call("Spawn", tasks=[{"name": "x" * 100_000, "prompt": "y" * 100_000}]),
}
SETTINGS = """
[tools]
ask = ["Bash(git push:*)"]
deny = ["Read(**/a/**/b/**/*.pem)"]
"""


def prepare(place: Place) -> None:
    """A workspace in which these calls find something to do."""
    (place.workspace / "notes.txt").write_text("alpha\n")
    (place.workspace / ("a" * 200)).write_text("a" * 5000)
    (place.workspace / "lines.txt").write_text(LINES)
    (place.workspace / "long.txt").write_text("x" * 4 * MB)
    for number in range(40):
        folder = place.workspace / f"folder-{number}" / "inner"
        folder.mkdir(parents=True)
        (folder / f"module_{number}.py").write_text("import this\n")
    place.configure(SETTINGS)
    skill = place.settings.parent / "skills" / "demo"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: demo\ndescription: A skill.\n---\nDo it.\n")


def hostile_script(calls: str) -> str:
    """What can only be changed after it was read is read first, and a command runs in the background."""
    noisy = call("Bash", command=f"echo {'a' * 5000}b; sleep 60", run_in_background=True)
    first = [call("Read", file_path="lines.txt"), call("Read", file_path="long.txt", limit=1), noisy]
    return asks_for(*first) + step(2, calls) + DONE


@pytest.mark.parametrize("calls", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_arguments(place: Place, calls: str) -> None:
    prepare(place)
    engine = place.started("--force", script=hostile_script(calls))
    listener = prompted(engine)
    _, came = listener.ping_for(SECONDS, until="stream_end")
    listener.check()
    if not came:
        with within(END):
            engine.send({"type": "stop"})
            engine.until("stream_end")
    assert_terminated(engine)


def assert_terminated(engine: Engine) -> None:
    with within(END):
        engine.signal(signal.SIGTERM)
        while engine.read():
            pass
        assert engine.wait() == 143


_SIGNS = ["a", "*", "**", "?", "/", "../", "(a+)+", "[a-", "{a,b}", "$(", "'", "\\", "\u2028", "\0", "é"]
_TEXTS = st.lists(st.tuples(st.sampled_from(_SIGNS), st.sampled_from([1, 40, 5000, 100_000])), max_size=3)
"""Each sign so many times: what hypothesis prints of a text itself would be too long."""
_NUMBERS = st.sampled_from([-1, 0, 1, 2**31, 2**62])
_NAMES = {
    "Read": ("file_path", "offset", "limit"),
    "Write": ("file_path", "content"),
    "Edit": ("file_path", "old_string", "new_string"),
    "NotebookEdit": ("notebook_path", "new_source", "cell_id"),
    "Glob": ("pattern", "path", "head_limit"),
    "Grep": ("pattern", "path", "glob", "type", "-A", "offset"),
    "Bash": ("command", "timeout"),
    "BashOutput": ("bash_id", "filter"),
    "KillBash": ("bash_id",),
    "WebFetch": ("url",),
    "TodoWrite": ("todos",),
    "ToolSearch": ("query",),
}


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(sorted(_NAMES)))
    return name, {key: draw(st.one_of(_TEXTS, _TEXTS, _NUMBERS)) for key in _NAMES[name]}


def _written(value: Any) -> Any:
    return value if isinstance(value, int) else "".join(sign * times for sign, times in value)


@pytest.mark.parametrize("shard", range(SHARDS))
@settings(max_examples=3 * TRIES // SHARDS, phases=[Phase.generate])
@given(st.lists(_calls(), min_size=1, max_size=12))
def test_generated_arguments(shard: int, calls: list[tuple[str, dict[str, Any]]]) -> None:
    written = [call(name, **{key: _written(value) for key, value in args.items()}) for name, args in calls]
    with TemporaryDirectory() as folder, Place(Path(folder)) as place:
        prepare(place)
        engine = place.started("--force", script=asks_for(*written) + DONE)
        listener = prompted(engine)
        listener.ping_for(SECONDS, until="stream_end")
        listener.check()
        assert_terminated(engine)


# The other wires have no ping: a question that changes nothing is answered as fast.

WIRES = {
    "omp": (["--mode", "rpc"], {"type": "prompt", "message": "go"}, {"type": "get_state", "id": "q"}, "response"),
    "claude": (
        ["--output-format", "stream-json", "--input-format", "stream-json", "--permission-mode", "bypassPermissions"],
        {"type": "user", "message": {"role": "user", "content": "go"}},
        {"type": "control_request", "request_id": "q", "request": {"subtype": "initialize"}},
        "control_response",
    ),
}


@pytest.mark.parametrize("wire", WIRES)
def test_other_wires_are_heard_and_stopped_in_the_middle_of_2000_searches(place: Place, wire: str) -> None:
    flags, prompt, question, answer = WIRES[wire]
    argv = [sys.executable, "-m", "polylect", *flags, *place.script(asks_for(MANY["2000 searches"]) + DONE)]
    engine = Engine(argv, place.workspace, place.env)
    place.keep(engine)
    engine.send(question)
    engine.until(answer)
    engine.send(prompt)
    while b"Grep" not in engine.line():
        pass
    for _ in range(10):
        with within(DEAFEST):
            engine.send(question)
            while not engine.line().startswith(b'{"type":"%b"' % answer.encode()):
                pass
    assert_terminated(engine)
