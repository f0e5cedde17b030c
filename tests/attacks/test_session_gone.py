"""The folder of a session is deleted right after `ready`, has links in it, or its disk is full.

Each prompt has its end all the same, and nothing elsewhere is changed.
"""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import Place, message

SCRIPT = '[[reply]]\ntext = "hi"\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


@pytest.mark.parametrize("flags", [(), ("--session-id", "abc")])
def test_the_folder_of_a_new_session(place: Place, flags: tuple[str, ...]) -> None:
    engine = place.started(*flags, script=SCRIPT)
    shutil.rmtree(place.sessions)
    engine.send(message("go"))
    frames, code = engine.finish()
    assert (frames[-1]["type"], frames[-1]["msg_id"], code) == ("stream_end", "m1", 0)


def test_the_folder_of_a_session_that_goes_on(place: Place) -> None:
    """Nothing can stand in for what was said in it: the prompt ends with an error, and so does the engine."""
    engine = place.started("--session-id", "abc", script=SCRIPT)
    engine.send(message("go"))
    engine.finish()
    engine = place.start("--resume", "abc", script=SCRIPT)
    engine.send(message("go"))  # read with the first step
    assert engine.frame()["type"] == "ready"
    shutil.rmtree(place.sessions)
    frames, code = engine.finish()
    assert frames[-1]["type"] == "stream_end"
    if code:  # else the log was open by then, and goes on without a name
        assert frames[0]["type"] == "error"


def test_a_log_for_which_there_is_no_room(place: Place) -> None:
    """The person can make room, so it is not called a fault of the engine."""
    engine = place.started("--session-id", "abc", script=SCRIPT)
    engine.send(message("go"))
    engine.until("stream_end")
    size = (place.sessions / "abc" / "log.jsonl").stat().st_size
    resource.prlimit(engine.pid, resource.RLIMIT_FSIZE, (size, size))
    engine.send(message("go on", "m2"))
    error, end = engine.until("stream_end")
    assert (error["error"]["code"], end["msg_id"]) == ("config_error", "m2")
    assert engine.finish()[1] == 0


@pytest.mark.parametrize("name", ["lock", "spill", "blobs"])
def test_links_in_the_folder_of_a_session_lead_nowhere(place: Place, tmp_path: Path, name: str) -> None:
    engine = place.started("--session-id", "abc", script=SCRIPT)
    engine.send(message("go"))
    engine.finish()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    precious = elsewhere / "precious"
    precious.write_text("precious")
    link = place.sessions / "abc" / name
    link.unlink(missing_ok=True)
    link.symlink_to(precious if name == "lock" else elsewhere)
    for words in (
        ("sessions", "repair", "abc"),
        ("sessions", "name", "abc", "x"),
        ("--json-stream", "--resume", "abc"),
    ):
        assert "Traceback" not in place.run(*words).errors
    assert precious.read_text() == "precious"
