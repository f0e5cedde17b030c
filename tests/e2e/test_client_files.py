"""The host's own text files: tools read what its editor has not saved, and change it there."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from native_editor import Editor, Reply, calls

BOTH = {"read": True, "write": True}
QUICK = "[client]\ntimeout = 0.2\n"
READ = ("Read", {"file_path": "a.txt"})
EDIT = ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"})
WRITE = ("Write", {"file_path": "a.txt", "content": "new\n"})


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "Edit", {"file_path": "a.txt", "old_string": old, "new_string": new}


def test_read_shows_what_the_editor_has_not_saved(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls([READ]))
    editor.open("a.txt", "unsaved\n")
    editor.offer(files=BOTH)
    assert editor.outputs() == ["     1\tunsaved"]
    assert editor.asked == [("read_text_file", {"path": str(place.workspace / "a.txt")})]


def test_changes_appear_in_the_editor_and_not_on_disk(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    more = {"file_path": "a.txt", "edits": [{"old_string": "2", "new_string": "II"}]}
    write = {"file_path": "new/b.txt", "content": "b\n"}
    editor = Editor(place, calls([READ], [EDIT], [("MultiEdit", more)], [("Write", write)]))
    editor.open("a.txt", "one\ntwo\n")
    editor.offer(files=BOTH)
    _read, edited, again, written = editor.turn()
    assert "+2" in edited["output"]
    assert "+II" in again["output"]
    assert written["output"] == "Created new/b.txt (1 lines)"
    assert (editor.buffer("a.txt"), editor.buffer("new/b.txt")) == ("one\nII\n", "b\n")
    assert (place.workspace / "a.txt").read_text() == "saved\n"
    assert not (place.workspace / "new").exists()


def test_a_host_that_offers_nothing_is_asked_for_nothing(place: Place) -> None:
    (place.workspace / "a.txt").write_text("one\ntwo\n")
    editor = Editor(place, calls([READ], [EDIT], [WRITE], [("Bash", {"command": "echo ran"})]))
    editor.open("a.txt", "unsaved\n")
    editor.offer(tools=[])
    assert editor.turn()[-1]["output"].startswith("Exit code: 0")
    assert editor.asked == []
    assert (place.workspace / "a.txt").read_text() == "new\n"


def test_the_setting_turns_it_off(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls([READ]), toml='[client]\nfiles = "off"\n')
    editor.open("a.txt", "unsaved\n")
    editor.offer(files=BOTH)
    assert (editor.outputs(), editor.asked) == (["     1\tsaved"], [])


def test_a_host_that_only_reads_is_never_asked_to_write(place: Place) -> None:
    (place.workspace / "a.txt").write_text("one\ntwo\n")
    editor = Editor(place, calls([READ], [EDIT], [READ]))
    editor.open("a.txt", "one\ntwo\nunsaved\n")
    editor.offer(files={"read": True})
    editor.turn()
    assert editor.methods() == ["read_text_file", "read_text_file"]
    assert (place.workspace / "a.txt").read_text() == "one\n2\n"


def test_a_host_that_only_writes_is_not_used_because_it_might_lose_what_is_not_saved(place: Place) -> None:
    editor = Editor(place, calls([WRITE]))
    editor.offer(files={"write": True})
    assert (editor.outputs(), editor.asked) == (["Created a.txt (1 lines)"], [])
    assert (place.workspace / "a.txt").read_text() == "new\n"


def test_what_the_editor_does_not_have_is_read_from_disk_and_written_by_the_editor(place: Place) -> None:
    (place.workspace / "a.txt").write_text("one\ntwo\n")
    editor = Editor(place, calls([READ], [EDIT]))
    editor.offer(files=BOTH)
    read, edited = editor.turn()
    assert read["output"] == "     1\tone\n     2\ttwo"
    assert "+2" in edited["output"]
    assert editor.buffer("a.txt") == "one\n2\n"


def test_a_buffer_that_changed_since_it_was_read_has_to_be_read_again(place: Place) -> None:
    editor = Editor(place, calls([READ], [EDIT], [WRITE], [READ], [WRITE]))
    texts = iter(["one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nthree\n", "four\n", "four\n"])
    editor.answers["read_text_file"] = lambda params: {"result": {"content": next(texts)}}
    editor.offer(files=BOTH)
    changed = "a.txt has changed since it was read. Read it again before changing it."
    assert [frame["output"] for frame in editor.turn()][1:] == [
        changed,
        changed,
        "     1\tfour",
        "Updated a.txt (1 lines)",
    ]


def test_line_endings_and_the_mark_of_the_file_stay_though_the_editor_hides_them(place: Place) -> None:
    path = place.workspace / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    editor = Editor(place, calls([READ], [EDIT], [edit("one", "1")]))
    editor.open("a.txt", "one\ntwo\n")
    editor.offer(files=BOTH)
    assert [frame.get("outcome", "ok") for frame in editor.turn()] == ["ok", "ok", "ok"]
    assert editor.buffer("a.txt") == "\ufeff1\r\n2\r\n"


def test_pictures_notebooks_and_files_outside_are_not_asked_for(place: Place) -> None:
    (place.workspace / "a.gif").write_bytes(b"GIF89a\1\0\1\0\0\0\0;")
    cells = {"cells": [{"cell_type": "code", "source": "x", "metadata": {}, "outputs": []}], "nbformat": 4}
    (place.workspace / "a.ipynb").write_text(json.dumps(cells))
    outside = place.folder / "outside.txt"
    outside.write_text("outside\n")
    paths = ["a.gif", "a.ipynb", str(outside)]
    editor = Editor(place, calls([("Read", {"file_path": path}) for path in paths]))
    editor.offer(files=BOTH)
    picture, _, other = sorted(editor.turn(), key=lambda frame: str(frame["call"]))
    assert (picture["form"], other["output"], editor.asked) == ("image", "     1\toutside", [])


def test_rules_hold_and_the_host_is_not_asked_for_what_they_deny(place: Place) -> None:
    editor = Editor(place, calls([READ, WRITE]), toml='[tools]\ndeny = ["Read(a.txt)", "Edit(a.txt)"]\n')
    editor.open("a.txt", "secret\n")
    editor.offer(files=BOTH)
    assert [frame["outcome"] for frame in editor.turn()] == ["denied", "denied"]
    assert editor.asked == []


def test_a_link_is_followed_before_the_path_is_judged(place: Place) -> None:
    outside = place.folder / "secret.txt"
    outside.write_text("secret\n")
    (place.workspace / "a.txt").symlink_to(outside)
    editor = Editor(place, calls([READ, WRITE]), "--approval-mode", "dont_ask")
    editor.offer(files=BOTH)
    assert [frame["outcome"] for frame in editor.turn()] == ["denied", "denied"]
    assert (editor.asked, outside.read_text()) == ([], "secret\n")


# Hosts that do not do what they should.

SILENT: Reply = None
LIES: dict[str, Reply] = {
    "silence": SILENT,
    "a number": {"result": {"content": 5}},
    "nothing": {"result": None},
    "a list": {"result": ["text"]},
    "too much": {"result": {"content": "x" * (33 * 1024 * 1024)}},
    "a line that is too long": {"result": {"content": "x" * (70 * 1024 * 1024)}},
}


@pytest.mark.parametrize("lie", LIES)
def test_where_the_host_gives_no_answer_the_saved_file_is_shown_and_nothing_is_changed(place: Place, lie: str) -> None:
    (place.workspace / "a.txt").write_text("one\ntwo\n")
    editor = Editor(place, calls([READ], [EDIT], [WRITE]), toml=QUICK)
    editor.answers["read_text_file"] = lambda params: LIES[lie]
    editor.offer(files=BOTH)
    read, edited, written = (frame["output"] for frame in editor.turn())
    assert read.startswith("     1\tone\n     2\ttwo\n(The host")
    assert "as it was saved" in read
    assert edited.startswith("a.txt was not changed. The host")
    assert written.startswith("a.txt was not changed. The host")
    assert "write_text_file" not in editor.methods()
    assert (place.workspace / "a.txt").read_text() == "one\ntwo\n"


def test_a_silent_host_is_not_waited_for_again_and_again(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls(*[[READ]] * 5), toml=QUICK)
    editor.answers["read_text_file"] = lambda params: SILENT
    editor.offer(files=BOTH)
    assert len(editor.turn()) == 5
    assert editor.methods() == ["read_text_file"]
    assert [frame["type"] for frame in editor.frames].count("host_call_ended") == 1


def test_a_refusal_of_the_host_is_told_and_not_gone_around(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls([READ], [WRITE]))
    editor.answers["read_text_file"] = lambda params: {"error": "this file is private"}
    editor.offer(files=BOTH)
    path = place.workspace / "a.txt"
    refused = f"The host refuses to read {path}: this file is private"
    assert editor.outputs() == [refused, f"a.txt was not changed. {refused}."]


def test_a_write_that_the_host_refuses_or_does_not_answer_is_an_error(place: Place) -> None:
    editor = Editor(place, calls([WRITE], [WRITE]), toml=QUICK)
    replies: list[Reply] = [{"error": "read-only"}, SILENT]
    editor.answers["write_text_file"] = lambda params: replies.pop(0)
    editor.offer(files=BOTH)
    refused, silent = editor.outputs()
    assert refused.endswith("a.txt: read-only")
    assert "it is not known whether" in silent
    assert not (place.workspace / "a.txt").exists()


def test_an_empty_text_for_a_file_that_is_nowhere_counts_as_missing(place: Place) -> None:
    editor = Editor(place, calls([READ], [WRITE]))
    editor.answers["read_text_file"] = lambda params: {"result": {"content": ""}}
    editor.offer(files=BOTH)
    read, written = editor.outputs()
    assert "there is none" in read
    assert written == "Created a.txt (1 lines)"


def test_a_file_that_is_no_utf8_is_not_damaged_by_a_host_that_guesses(place: Place) -> None:
    (place.workspace / "a.txt").write_bytes(b"caf\xe9 two\n")
    editor = Editor(place, calls([READ], [EDIT]))
    editor.open("a.txt", "caf\ufffd two\n")
    editor.offer(files=BOTH)
    assert "is not UTF-8 text" in editor.outputs()[1]
    assert "write_text_file" not in editor.methods()


def test_a_host_that_goes_away_leaves_the_disk(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls([READ], [WRITE]))
    editor.answers["read_text_file"] = lambda params: SILENT
    editor.offer(files=BOTH)
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    editor.until_asked("read_text_file")
    frames, code = editor.engine.finish()
    outputs = [frame["output"] for frame in frames if frame["type"] == "tool_finished"]
    assert outputs[0].startswith("     1\tsaved\n(The host was asked")
    assert (code, outputs[1], (place.workspace / "a.txt").read_text()) == (0, "Updated a.txt (1 lines)", "new\n")


def test_a_cancel_does_not_wait_for_the_host(place: Place) -> None:
    editor = Editor(place, calls([READ]))
    editor.answers["read_text_file"] = lambda params: SILENT
    editor.offer(files=BOTH)
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    call = editor.until_asked("read_text_file")
    editor.engine.send({"type": "cancel"})
    assert editor.until("turn_ended")["reason"] == "cancelled"
    assert [frame["call"] for frame in editor.frames if frame["type"] == "host_call_ended"] == [call["call"]]


def test_an_offer_can_be_taken_back_and_a_wrong_one_is_refused(place: Place) -> None:
    (place.workspace / "a.txt").write_text("saved\n")
    editor = Editor(place, calls([READ]))
    editor.offer(files=BOTH)
    editor.offer(files=None, terminal=None)
    reply = editor.ask(type="hello", offers={"files": {"read": "yes"}})
    assert reply["failure"]["code"] == "bad_offer"
    assert (editor.outputs(), editor.asked) == (["     1\tsaved"], [])


# Checkpoints.


def test_a_rewind_restores_what_the_editor_had_not_saved(place: Place) -> None:
    path = place.workspace / "a.txt"
    path.write_text("saved\n")
    new: dict[str, Any] = {"file_path": "b.txt", "content": "b\n"}
    editor = Editor(place, calls([READ], [WRITE, ("Write", new)]), toml="[session]\ncheckpoints = true\n")
    editor.open("a.txt", "unsaved\n")
    editor.answers["write_text_file"] = lambda params: _save(editor, params)
    editor.offer(files=BOTH)
    editor.turn()
    assert (path.read_text(), (place.workspace / "b.txt").read_text()) == ("new\n", "b\n")
    reply = editor.ask(type="rewind", to="t1")
    assert sorted(Path(path).name for path in reply["data"]["files"]) == ["a.txt", "b.txt"]
    assert (path.read_text(), editor.buffer("a.txt")) == ("unsaved\n", "unsaved\n")
    assert not (place.workspace / "b.txt").exists()


def test_a_rewind_works_though_the_host_is_silent(place: Place) -> None:
    path = place.workspace / "a.txt"
    path.write_text("saved\n")
    editor = Editor(place, calls([READ], [WRITE]), toml=f"{QUICK}[session]\ncheckpoints = true\n")
    editor.answers["write_text_file"] = lambda params: _save(editor, params)
    editor.offer(files=BOTH)
    editor.turn()
    assert path.read_text() == "new\n"
    editor.answers = {"read_text_file": lambda params: SILENT, "write_text_file": lambda params: SILENT}
    assert "failure" not in editor.ask(type="rewind", to="t1")
    assert path.read_text() == "saved\n"


def _save(editor: Editor, params: dict[str, Any]) -> Reply:
    """What editors do that save at once."""
    Path(params["path"]).write_text(params["content"])
    editor.buffers[params["path"]] = params["content"]
    return {"result": {}}
