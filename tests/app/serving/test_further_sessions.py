"""Several sessions on one connection, with a real engine process on the native wire."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_process import Engine, Place

PLAIN = Path(__file__).parents[2] / "mcp_servers" / "plain.py"
ECHO = '[[reply]]\ntext = "{prompt}"\n'
WAITS = (
    """
[[reply]]
when.prompt = "sleep"
when.step = 1
say = [{ call = "Bash", args = { command = "echo begun; exec tail -f /dev/null" } }]

[[reply]]
when.prompt = "write"
when.step = 1
say = [{ call = "Write", args = { file_path = "here.txt", content = "x" } }]

"""
    + ECHO
)


class Native:
    """An engine on the native wire."""

    def __init__(self, place: Place, script: str, *flags: str) -> None:
        argv = [sys.executable, "-m", "polylect", "--native", *place.script(script), *flags]
        self.engine = Engine(argv, place.workspace, place.env)
        place.keep(self.engine)
        self.ready = self.engine.frame()

    def send(self, **command: Any) -> None:
        self.engine.send(command)

    def until(self, **expected: Any) -> list[dict[str, Any]]:
        """The frames up to one that has all of these fields."""
        frames = [self.engine.frame()]
        while not expected.items() <= frames[-1].items():
            frames.append(self.engine.frame())
        return frames

    def reply(self, **command: Any) -> dict[str, Any]:
        self.send(**command, ref="r")
        return self.until(type="reply", ref="r")[-1]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def folder(place: Place, name: str) -> str:
    path = place.folder / name
    path.mkdir()
    return str(path)


def test_two_sessions_work_at_once_each_in_its_own_folder(place: Place) -> None:
    native = Native(place, WAITS, "--force")
    second = folder(place, "second")
    opened = native.reply(type="open_session", how="new", session="two", cwd=second)
    assert (opened["session"], opened["data"]["session"], opened["data_type"]) == ("two", "two", "session_opened")
    native.send(type="prompt", turn="t", text="sleep")
    native.until(type="tool_started")
    native.send(type="prompt", turn="t", text="write", session="two")
    ended = native.until(type="turn_ended", session="two")[-1]
    assert (ended["turn"], ended["reason"]) == ("t", "end")
    assert (Path(second) / "here.txt").read_text() == "x"
    assert not (place.workspace / "here.txt").exists()
    native.send(type="cancel")
    assert native.until(type="turn_ended")[-1]["reason"] == "cancelled"


def test_what_one_session_runs_is_not_ended_with_the_other(place: Place) -> None:
    native = Native(place, WAITS, "--force")
    native.reply(type="open_session", how="new", session="two")
    native.send(type="prompt", turn="t", text="sleep", session="two")
    native.until(type="tool_output", session="two")
    native.send(type="prompt", turn="t", text="sleep")
    native.until(type="tool_output")
    native.send(type="cancel")
    assert native.until(type="turn_ended")[-1].get("session") is None
    assert native.reply(type="query", what="state", session="two")["data"]["busy"]
    native.send(type="cancel", session="two")
    assert native.until(type="turn_ended")[-1]["reason"] == "cancelled"


def test_a_session_is_closed_and_gone_on_with(place: Place) -> None:
    native = Native(place, ECHO)
    native.reply(type="open_session", how="new", session="two")
    native.send(type="prompt", turn="t", text="remember", session="two")
    native.until(type="turn_ended", session="two")
    assert "failure" not in native.reply(type="close_session", session="two")
    assert native.reply(type="query", what="state", session="two")["failure"]["code"] == "unknown_session"
    opened = native.reply(type="open_session", how="resume", target="two", session="again")
    assert (opened["data"]["session"], opened["data"]["resumed"]) == ("two", True)
    assert native.reply(type="query", what="last_text", session="again")["data"] == "remember"
    forked = native.reply(type="open_session", how="fork", target="two", session="copy")
    assert forked["data"]["session"] == "copy"
    assert native.reply(type="query", what="last_text", session="copy")["data"] == "remember"


@pytest.mark.parametrize(
    ("fields", "words", "code"),
    [
        ({"session": "two", "how": "resume"}, "two", "no_such_session"),
        ({"session": "../x", "how": "new"}, "bad session id", "session"),
        ({"session": "two", "how": "new", "cwd": "/no/such/folder"}, "there is no such folder", "bad_folder"),
    ],
)
def test_a_session_that_cannot_be_opened_says_why_and_the_others_go_on(
    place: Place, fields: dict[str, str], words: str, code: str
) -> None:
    native = Native(place, ECHO)
    native.send(type="open_session", ref="o", **fields)
    native.send(type="prompt", turn="t1", text="early", session=fields["session"])
    failed = native.until(type="reply", ref="o")[-1]
    assert words in failed["failure"]["message"]
    assert native.until(type="turn_ended")[-1]["failure"]["code"] == code
    native.send(type="prompt", turn="t2", text="hello")
    assert native.until(type="turn_ended")[-1]["reason"] == "end"


def test_trust_in_the_first_folder_is_not_trust_in_another(place: Place) -> None:
    second = folder(place, "second")
    for workspace in (str(place.workspace), second):
        settings = Path(workspace) / ".polylect" / "config.toml"
        settings.parent.mkdir()
        settings.write_text('[tools]\nallow = ["Write"]\n')
    native = Native(place, WAITS, "--trust-workspace")
    native.reply(type="open_session", how="new", session="two", cwd=second)
    native.reply(type="open_session", how="new", session="three")
    for session, requested in (("two", True), ("three", False)):
        native.send(type="prompt", turn="t", text="write", session=session)
        kinds = {frame["type"] for frame in native.until(type="ask" if requested else "turn_ended", session=session)}
        assert ("ask" in kinds) is requested


def test_the_end_of_input_waits_for_all_of_them(place: Place) -> None:
    lines = [
        {"type": "open_session", "how": "new", "session": "two"},
        {"type": "prompt", "turn": "t", "text": "one"},
        {"type": "prompt", "turn": "t", "text": "two", "session": "two"},
    ]
    supplied = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    done = place.run("--native", *place.script(ECHO), given=supplied)
    ends = [frame for frame in map(json.loads, done.out.splitlines()) if frame["type"] == "turn_ended"]
    assert sorted((frame.get("session", ""), frame["reason"]) for frame in ends) == [("", "end"), ("two", "end")]
    assert (done.code, done.errors) == (0, "")


@pytest.mark.parametrize(("setting", "processes"), [("", 2), ("[mcp]\nshare_servers = false\n", 3)])
def test_further_sessions_in_one_folder_share_their_servers(place: Place, setting: str, processes: int) -> None:
    """The first session has its own."""
    started = place.folder / "started"
    command = f'echo $$ >> {started}; exec "{sys.executable}" "{PLAIN}" Works'
    place.configure(f"{setting}[mcp.servers.one]\ncommand = 'sh'\nargs = ['-c', '{command}']\n")
    native = Native(place, ECHO)
    native.until(type="server_changed")
    for session in ("two", "three"):
        native.reply(type="open_session", how="new", session=session)
        native.until(type="server_changed", session=session, status="ready")
    assert len(started.read_text().split()) == processes
    native.reply(type="open_session", how="new", session="four", cwd=folder(place, "elsewhere"))
    native.until(type="server_changed", session="four", status="ready")
    pids = started.read_text().split()
    assert len(pids) == processes + 1
    native.reply(type="close_session", session="two")
    assert os.path.exists(f"/proc/{pids[1]}") == (setting == "")
    native.reply(type="close_session", session="three")
    assert not os.path.exists(f"/proc/{pids[1]}")
