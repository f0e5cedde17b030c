"""Text of strangers on somebody's terminal: nothing in it is obeyed, whichever command prints it."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.vocab.escape import escape_controls, escape_json, escape_line

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\u202eevil\u200b\u2066\x7f"
HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
SCRIPT = f"[[reply]]\ntext = {json.dumps('said ' + EVIL)}\n"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A workspace whose name, settings and session are hostile."""
    with Place(tmp_path) as place:
        place.workspace = tmp_path / f"work{EVIL.replace('/', '')}\n ✓ forged"
        settings = place.workspace / ".polylect"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text(f"[default]\n{json.dumps(EVIL + chr(10) + 'x')} = 1\n")
        yield place


def clean(*texts: str) -> None:
    for text in texts:
        assert not HOSTILE.search(text), text


def test_sessions_and_what_was_said_in_them(place: Place) -> None:
    (place.workspace / ".polylect" / "config.toml").unlink()
    message = {"type": "message", "msg_id": "m1", "content": f"prompt {EVIL}"}
    argv = ("--json-stream", "--session-id", "s1", *place.script(SCRIPT))
    assert place.run(*argv, given=json.dumps(message).encode() + b"\n").code == 0
    assert place.run("sessions", "name", "s1", f"title {EVIL}\nforged").code == 0
    listed = place.run("sessions")
    assert "title \\x1b]52" in listed.out.decode()
    assert len(listed.out.splitlines()) == 2
    shown = place.run("sessions", "show", "s1").out.decode()
    assert "said \\x1b]52" in shown
    points = place.run("sessions", "show", "s1", "--points").out.decode()
    as_json = place.run("sessions", "--json").out.decode()
    named = place.run("--list-sessions").out.decode()
    clean(listed.out.decode(), listed.errors, shown, points, as_json, named)
    (row,) = json.loads(as_json)
    assert row["name"] == f"title {EVIL}\nforged"
    page = place.run("sessions", "export", "s1", "--to", "html").out.decode()
    assert page.count("said \\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x9b31m") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
    assert place.run("sessions", "export", "s1", "--to", "json").out.decode().count("evil") > 0


def test_a_session_of_a_hostile_folder_that_goes_on_elsewhere(place: Place, tmp_path: Path) -> None:
    message = {"type": "message", "msg_id": "m1", "content": "hi"}
    argv = ("--json-stream", "--session-id", "s1", *place.script(SCRIPT))
    assert place.run(*argv, given=json.dumps(message).encode() + b"\n").code == 0
    for moved in (place.sessions / "s1" / "workspace", place.sessions / "s1" / "log.jsonl"):
        moved.write_text(moved.read_text().replace("/work", f"/{EVIL}" if moved.name == "workspace" else "/elsewhere"))
        done = place.run("sessions", "name", "s1", "title")
        assert "was about" in done.errors
        clean(done.errors)


@pytest.mark.parametrize(
    "words",
    [
        *(["doctor"], ["doctor", "--json"], ["models"], ["models", "--json"], ["engines"], ["sessions"]),
        *(
            ["sessions", "show", EVIL],
            ["sessions", "repair"],
            ["run", "hello", "--engine", EVIL],
            [EVIL],
            [f"--{EVIL}"],
        ),
        *(["--json-stream", "--resume", EVIL], ["--json-stream", "--model", EVIL, "--provider", EVIL]),
        *(["--mode", "rpc", f"--{EVIL}"], ["--output-format", EVIL], ["--json-stream", "--log-level", "debug"]),
        *(["doctor", "--workspace", EVIL], ["--json-stream", "--workspace", EVIL], ["link", EVIL, "x"]),
    ],
    ids=lambda words: escape_line(" ".join(words)).replace(escape_line(EVIL), "EVIL"),
)
def test_no_command_prints_what_a_terminal_obeys(place: Place, words: list[str]) -> None:
    place.workspace.joinpath("AGENTS.md").write_text("x")
    done = place.run(*words)
    frames = done.out if b'"type":"ready"' not in done.out else b""
    clean(frames.decode(), done.errors)
    assert "Traceback" not in done.errors
    assert " ✓ forged" not in done.out.decode().splitlines()


def test_an_engine_that_starts_in_a_hostile_folder_says_so_in_one_line(place: Place) -> None:
    done = place.run("--json-stream", "--provider", "scripted")
    clean(done.errors)
    assert len(done.errors.splitlines()) == 1
    assert "default.\\x1b]52" in done.errors


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_of_a_run_holds_no_raw_control_character(place: Place, form: str) -> None:
    done = place.run("run", "hello", "--output", form, *place.script(SCRIPT))
    clean(done.out.decode())
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert f"said {EVIL}" in [row.get("text") for row in rows]


def test_a_run_at_a_terminal_shows_the_answer_escaped(place: Place) -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "polylect", "run", "hello", *place.script(SCRIPT)]
    child = subprocess.Popen(
        argv, cwd=place.workspace, env=place.env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + PATIENCE
    while b"\n" not in seen:
        assert select.select([ours], [], [], deadline - time.monotonic())[0]
        seen += os.read(ours, 65536)
    assert child.wait(PATIENCE) == 0
    os.close(ours)
    clean(seen.decode().replace("\r\n", "\n"))
    assert b"said \\x1b]52" in seen


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain ünï 漢字 🙂\ttab\nline", "plain ünï 漢字 🙂\ttab\nline"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("\x00\x1b\x7f\x80\x9b\x9f", "\\x00\\x1b\\x7f\\x80\\x9b\\x9f"),
        ("\u202e\u2066\u061c\u200f", "\\u202e\\u2066\\u061c\\u200f"),
        ("\u200b\u2060\ufeff\xad\u2028", "\\u200b\\u2060\\ufeff\\xad\\u2028"),
        ("\U000e0041\udcff", "\\U000e0041\\udcff"),
        ("a\u200db \u200c", "a\\u200db \\u200c"),
        ("👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"),
    ],
)
def test_what_is_escaped(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped
    line = escape_line(text)
    assert "\n" not in line
    assert "\t" not in line
    whole = json.dumps(text.replace("\udcff", ""), ensure_ascii=False)
    assert json.loads(escape_json(whole)) == text.replace("\udcff", "")
    assert not HOSTILE.search(escape_json(whole))
