"""Arguments that once made the engine deaf for minutes: it answers pings, stops and signals while tools work.

The work is done in the worker process, under a deadline, and a stop kills it.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attacks.deafness import Listener, results
from attacks.test_deafness import END, asks_for, call, ended, prompted, toml
from doubles_tools import processes_with, watched
from engine_process import Engine, Place
from machine import within
from polylect.tools.process.process_tree import descendants

NAME = "a" * 200


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def long_path(workspace: Path) -> list[str]:
    return [call("Read", file_path="a/" * 100_000)]


def glob_of_gaps(workspace: Path) -> list[str]:
    for number in range(300):
        folder = workspace / "src" / f"package{number % 7}" / "inner"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"some_module_with_a_long_name_{number}.py").touch()
    return [call("Glob", pattern="**?" * 12 + "!")]


def glob_of_stars(workspace: Path) -> list[str]:
    (workspace / NAME).touch()
    return [call("Glob", pattern="*a*a*a*a*a*b[c]")]


def edit_of_2000_lines(workspace: Path) -> list[str]:
    (workspace / "f").write_text("a\nb\n" * 1000)
    old, new = "a\nb\n" * 999, "b\na\na\n" * 700
    return [call("Read", file_path="f"), call("Edit", file_path="f", old_string="a\n" + old[2:], new_string=new)]


CASES: dict[str, Callable[[Path], list[str]]] = {
    "a path of 200 KB": long_path,
    "a glob of 12 gaps": glob_of_gaps,
    "a glob of stars": glob_of_stars,
    "an edit of 2000 lines": edit_of_2000_lines,
}


@pytest.mark.parametrize("calls", CASES.values(), ids=CASES.keys())
def test_an_argument_made_to_take_long_keeps_nobody_waiting(place: Place, calls: Callable[[Path], list[str]]) -> None:
    listener = prompted(place.started("--force", script=in_order(calls(place.workspace))))
    lines = listener.until("stream_end")
    assert len(results(lines)) >= 1
    listener.check()


def in_order(calls: list[str]) -> str:
    """One call a reply."""
    replies = [f"[[reply]]\nwhen = {{ step = {step} }}\nsay = [{one}]\n" for step, one in enumerate(calls, 1)]
    return "".join(replies) + '[[reply]]\ntext = "done"\n'


@pytest.mark.parametrize("end", ["stop", "eof", "signal"])
def test_400_edits_of_31_MB_can_be_stopped(place: Place, end: str) -> None:
    """They take most of a minute; meanwhile the engine hears its host, and stopping kills the worker."""
    engine = _editing(place, 31_000_000)
    with within(END):
        assert ended(engine, end) == {"stop": 0, "eof": 0, "signal": 143}[end]


def _editing(place: Place, size: int) -> Engine:
    (place.workspace / "f").write_bytes(b"x" * size + b"\n" + b"".join(b"<%d>" % number for number in range(400)))
    edits = [{"old_string": f"<{number}>", "new_string": f"<<{number}>>"} for number in range(400)]
    script = in_order(
        [call("Read", file_path="f", limit=1), toml({"call": "MultiEdit", "args": {"file_path": "f", "edits": edits}})]
    )
    engine = place.started("--force", "--on-eof", "stop", script=script)
    listener = Listener(engine)
    listener.ping()
    listener.forget()
    engine.send({"type": "message", "msg_id": "m1", "input": "go"})
    while not any(line.startswith(b'{"type":"tool_running"') and b"MultiEdit" in line for line in listener.ping()):
        pass  # each ping waits for its answer, and that is bounded
    for _ in range(20):
        listener.ping()
    listener.check()
    return engine


def test_a_program_that_the_project_calls_rg_is_not_run(place: Place) -> None:
    """An activated environment of the project is first on PATH, and its `rg` was made by a command before."""
    programs = place.workspace / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "rg").write_text(f"#!/bin/sh\ntouch {place.folder}/ran\necho stolen\n")
    (programs / "rg").chmod(0o755)
    (place.workspace / "notes.txt").write_text("alpha\n")
    calls = asks_for(call("Grep", pattern="alpha"), call("Glob", pattern="*.txt"))
    engine = place.started("--force", script=calls, env={"PATH": f"{programs}:{place.env['PATH']}"})
    outputs = [frame["output"] for frame in results(prompted(engine).until("stream_end"))]
    assert not (place.folder / "ran").exists()
    assert sorted(outputs) == ["notes.txt", "notes.txt:1:alpha"]


def test_the_worker_ends_with_an_engine_that_is_killed(place: Place) -> None:
    engine = _editing(place, 1_000_000)
    workers = [pid for pid in processes_with("worker.program") if pid in descendants((engine.pid,))]
    assert workers
    with watched(workers) as all_end_within:
        engine.signal(signal.SIGKILL)
        assert engine.wait() == -signal.SIGKILL
        assert all_end_within(END)


COUNTS = """
def extend(polylect):
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    @polylect.tool("Count", "Counts.", schema, category="info")
    def count(args):
        return f"it ran with {args['number']!r}"
"""


def test_arguments_that_do_not_fit_the_schema_of_an_extensions_tool_do_not_reach_it(place: Place) -> None:
    (place.folder / "counts.py").write_text(COUNTS)
    calls = [call("Count", number="seven"), call("Count"), call("Count", number=7)]
    flags = ("--force", "--extension", str(place.folder / "counts.py"))
    engine = place.started(*flags, script=in_order(calls))
    wrong, missing, right = results(prompted(engine).until("stream_end"))
    assert (right["status"], right["output"]) == ("success", "it ran with 7")
    assert [frame["status"] for frame in (wrong, missing)] == ["error", "error"]
    for frame in (wrong, missing):
        assert "number" in frame["output"]
        assert "it ran" not in frame["output"]
        assert "KeyError" not in frame["output"]
