"""The API for programs without an event loop."""

import os
from pathlib import Path

import pytest

from engine_process import Place
from polylect.host import Ask, EngineDied, TextDelta, ToolFinished, allow_all
from polylect.host.sync import SyncAgent, connect

WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done: {prompt}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def agent(place: Place, **options: object) -> SyncAgent:
    file = place.workspace.parent / "script.toml"
    file.write_text(WRITES)
    told = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "script": str(file)}
    return connect("polylect", **told, **options)


def test_a_script_reads_events_and_answers_asks_without_a_loop_of_its_own(place: Place) -> None:
    with agent(place) as one:
        assert one.pid
        assert one.session
        outcomes, text = [], ""
        for event in one.prompt("go"):
            match event:
                case Ask():
                    event.allow()
                case ToolFinished(outcome=outcome):
                    outcomes.append(outcome)
                case TextDelta(text=more):
                    text += more
        assert (outcomes, text) == (["ok"], "done: go")
        assert (place.workspace / "made.txt").exists()


def test_a_result_is_waited_for(place: Place) -> None:
    with agent(place, approve=allow_all) as one:
        assert one.ask("this").text == "done: this"
        assert one.prompt("that").wait().text == "done: that"


def test_what_goes_wrong_is_raised_where_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match="cannot be started"), connect(["no-such-engine"], dialect="jsonstream"):
        pass


def test_leaving_early_ends_the_engine(place: Place) -> None:
    one = agent(place)
    with pytest.raises(RuntimeError, match="enough"), one:
        pid = one.pid
        for _ in one.prompt("go"):
            raise RuntimeError("enough")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
