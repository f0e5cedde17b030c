"""`polylect sessions` as people use it, in a real process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from engine_process import Place, message
from sessions.formats.test_exchange import CLAUDE, OMP
from thoroughness import one_in

REPLY = '[[reply]]\ntext = "Turn {turn}: {prompt}"'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def emit(place: Place, *prompts: str, flags: tuple[str, ...] = ("--session-id", "one")) -> list[str]:
    """One process, all prompts; what it answered."""
    engine = place.started(*flags, script=REPLY)
    engine.send(*(message(prompt, f"m{number}") for number, prompt in enumerate(prompts)))
    frames, code = engine.finish()
    assert code == 0
    return [frame["text"] for frame in frames if frame["type"] == "text_delta"]


def sessions(place: Place, *words: str) -> str:
    """What it prints; it must not complain."""
    done = place.run("sessions", *words)
    assert (done.code, done.errors) == (0, "")
    return done.out.decode()


def refused(place: Place, *words: str, code: int = 1) -> str:
    done = place.run("sessions", *words)
    assert (done.code, done.out) == (code, b"")
    assert "Traceback" not in done.errors
    return done.errors


def test_the_list_says_what_there_is_the_most_recent_first(place: Place) -> None:
    emit(place, "first words\nof a session", "more")
    emit(place, "other words", flags=("--session-id", "two", "--workspace", str(place.folder)))
    os.utime(place.sessions / "one" / "log.jsonl", (0, 0))
    head, two, one = sessions(place).splitlines()
    assert head.split() == ["ID", "LAST", "ACTIVE", "MESSAGES", "WORKSPACE", "ABOUT"]
    assert re.fullmatch(rf"two  \d{{4}}-\d\d-\d\d \d\d:\d\d  2         {place.folder} +other words", two)
    assert one == f"one  1970-01-01 00:00  4         {place.workspace}  first words of a session"
    [listed] = json.loads(sessions(place, "--here", "--json"))
    assert listed == {
        "session": "one",
        "workspace": str(place.workspace),
        "active": 0,
        "messages": 4,
        "size": (place.sessions / "one" / "log.jsonl").stat().st_size,
        "words": "first words of a session",
    }


def test_with_no_sessions_the_list_is_empty_and_nothing_is_made(place: Place) -> None:
    assert json.loads(sessions(place, "--json")) == []
    assert sessions(place, "repair") == ""
    assert not place.sessions.exists()


def test_a_session_is_shown_and_exported_also_while_it_is_in_use(place: Place) -> None:
    engine = place.started("--session-id", "one", script=REPLY)
    engine.send(message("hello"))
    engine.until("stream_end")
    shown = sessions(place, "show", "latest")
    assert shown.startswith("# Session one\n")
    assert "## You\n\nhello\n\n## Agent\n\nTurn 1: hello\n" in shown
    assert sessions(place, "export", "one") == shown
    for form, start in (("html", "<!doctype html>"), ("json", "{\n"), ("omp", '{"type":"session","version":3')):
        assert sessions(place, "export", "one", "--to", form).startswith(start)


def test_a_page_shows_tables_quotes_and_links(place: Place) -> None:
    prose = "| col a |\n|---|\n| 1 |\n\n> a quote\n\n[link](https://example.org/)"
    engine = place.started("--session-id", "one", script=f"[[reply]]\ntext = {json.dumps(prose)}\n")
    engine.send(message("hello"))
    assert engine.finish()[1] == 0
    page = sessions(place, "export", "one", "--to", "html")
    assert "<th>col a</th>" in page
    assert "<blockquote><p>a quote</p></blockquote>" in page
    assert '<a href="https://example.org/"' in page


def test_an_export_never_takes_the_place_of_what_belongs_to_a_session(place: Place) -> None:
    emit(place, "hello")
    path = place.sessions / "one" / "log.jsonl"
    before = path.read_bytes()
    (place.folder / "link.md").symlink_to(path)
    for target in (path, place.sessions / "one" / "new.md", place.folder / "link.md"):
        assert "what is there belongs to a session" in refused(place, "export", "one", str(target))
    assert path.read_bytes() == before
    os.mkfifo(place.folder / "pipe")
    assert "no file that can be written anew" in refused(place, "export", "one", str(place.folder / "pipe"))
    nowhere = place.folder / "nowhere" / "a.md"
    assert refused(place, "export", "one", str(nowhere)) == f"polylect: {nowhere}: No such file or directory\n"


def test_a_log_that_is_larger_than_any_session_is_refused_at_once(place: Place) -> None:
    """A sparse file: it has no room on any disk, and takes a minute to read."""
    emit(place, "hello")
    log = place.sessions / "large" / "log.jsonl"
    log.parent.mkdir()
    log.touch()
    os.truncate(log, 1 << 36)
    reason = "is larger than 1073741824 bytes"
    done = place.run("sessions")
    assert [line.split()[0] for line in done.out.decode().splitlines()] == ["ID", "one"]
    assert done.errors == f"polylect: {log} {reason}: skipped\n"
    assert reason in refused(place, "show", "large")
    assert reason in refused(place, "repair", "large")
    for flag in ("--session-id", "--resume"):
        done = place.run("--json-stream", flag, "large")
        assert (done.code, reason in done.errors) == (1, True)
    assert log.stat().st_size == 1 << 36


def test_what_is_no_log_is_named_and_hides_no_session(place: Place) -> None:
    emit(place, "hello")
    for name in ("folder", "pipe"):
        (place.sessions / name).mkdir()
    (place.sessions / "folder" / "log.jsonl").mkdir()
    os.mkfifo(place.sessions / "pipe" / "log.jsonl")
    done = place.run("sessions")
    assert [line.split()[0] for line in done.out.decode().splitlines()] == ["ID", "one"]
    skipped = [place.sessions / name / "log.jsonl" for name in ("folder", "pipe")]
    assert done.errors.splitlines() == [f"polylect: {path} is no file: skipped" for path in skipped]
    assert "one: in order" in sessions(place, "repair")
    for path in skipped:
        assert "is no file" in refused(place, "show", path.parent.name)
        for flag in ("--session-id", "--resume"):
            done = place.run("--json-stream", flag, path.parent.name)
            assert (done.code, "is no file" in done.errors) == (1, True)
        assert path.exists()


def test_an_export_to_a_file_says_what_to_do_with_it(place: Place) -> None:
    emit(place, "hello")
    path = place.workspace / "out.jsonl"
    done = place.run("sessions", "export", "one", "--to=claude", str(path))
    assert (done.code, done.out) == (0, b"")
    id = json.loads(path.read_text().splitlines()[0])["sessionId"]
    encoded = re.sub("[^A-Za-z0-9]", "-", str(place.workspace))
    assert done.errors == f"Put it at ~/.claude/projects/{encoded}/{id}.jsonl, then: claude --resume {id}\n"


@pytest.mark.parametrize("lines", [OMP, CLAUDE], ids=["omp", "claude"])
def test_a_session_of_another_program_is_taken_over_and_goes_on(place: Place, lines: list[bytes]) -> None:
    path = place.folder / "foreign.jsonl"
    path.write_bytes(b"\n".join(lines).replace(b'"/w"', json.dumps(str(place.workspace)).encode()))
    session = sessions(place, "import", str(path)).splitlines()[0]
    assert emit(place, "and now?", flags=("--resume", session)) == ["Turn 2: and now?"]
    assert emit(place, "again", flags=("--resume", "latest")) == ["Turn 3: again"]
    assert sessions(place, "import", str(path), "--as", "mine").splitlines()[0] == "mine"
    assert "already exists" in refused(place, "import", str(path), "--as", "mine")


def test_a_session_from_a_folder_that_is_not_here_is_about_this_one(place: Place) -> None:
    path = place.folder / "foreign.jsonl"
    path.write_bytes(b"\n".join(OMP).replace(b'"/w"', b'"/nowhere/at/all"'))
    done = place.run("sessions", "import", str(path))
    assert done.code == 0
    assert "/nowhere/at/all is not on this machine" in done.errors
    assert json.loads(sessions(place, "--here", "--json"))[0]["words"] == "please go"


@pytest.mark.parametrize(
    "content", [b"", b"# Notes\n", bytes([255, 254, 0]), b'{"type":"session","version":9,"id":"x"}\n']
)
def test_what_is_no_session_file_is_refused_with_a_reason_and_nothing_is_made(place: Place, content: bytes) -> None:
    path = place.folder / "notes"
    path.write_bytes(content)
    assert "is not a session file that can be taken over" in refused(place, "import", str(path))
    assert "No such file" in refused(place, "import", str(place.folder / "missing"))
    assert not place.sessions.exists()


def test_a_fork_goes_its_own_way_and_what_it_needs_cannot_be_deleted(place: Place) -> None:
    emit(place, "hello", "again")
    [_, second] = sessions(place, "show", "one", "--points").splitlines()
    entry, words = second.split()
    assert words == "again"
    assert sessions(place, "fork", "one", "--at", entry, "--as", "two").startswith("two\n")
    assert emit(place, "otherwise", flags=("--resume", "two")) == ["Turn 2: otherwise"]
    assert emit(place, "on", flags=("--resume", "one")) == ["Turn 3: on"]
    assert "again" not in sessions(place, "show", "two")
    assert "(forked from one)" in sessions(place)
    forks = {row["session"]: (row["messages"], row["words"]) for row in json.loads(sessions(place, "--json"))}
    assert forks == {"one": (6, "hello"), "two": (4, "hello")}
    assert "holds the beginning of two" in refused(place, "delete", "one")
    assert "'nowhere' is not a message" in refused(place, "fork", "one", "--at", "nowhere")
    sessions(place, "delete", "one", "two")
    assert list(place.sessions.iterdir()) == []


def test_a_session_of_another_workspace_goes_on_here_if_it_is_named(place: Place) -> None:
    emit(place, "hello", flags=("--session-id", "one", "--workspace", str(place.folder)))
    assert emit(place, "again", flags=("--resume", "one")) == ["Turn 2: again"]
    done = place.run("--json-stream", "--resume", "latest")
    assert "No sessions found for" in done.errors


def test_a_session_has_the_name_it_was_given_last(place: Place) -> None:
    emit(place, "hello")
    sessions(place, "name", "one", "first name")
    sessions(place, "name", "one", "the", "last", "name")
    assert sessions(place).splitlines()[1].endswith("  the last name")
    assert sessions(place, "show", "one").startswith("# the last name\n")


def test_a_session_in_use_is_neither_deleted_nor_repaired_nor_named(place: Place) -> None:
    engine = place.started("--session-id", "one", script=REPLY)
    engine.send(message("hello"))
    engine.until("stream_end")
    for words in (["delete", "one"], ["repair", "one"], ["name", "one", "x"]):
        assert f"in use by process {engine.pid}" in refused(place, *words)
    assert "in use" in sessions(place, "repair")
    engine.send(message("hello", "m2"))
    engine.until("stream_end")


def test_repair_mends_all_that_need_it_and_clears_away_what_was_never_used(place: Place) -> None:
    emit(place, "hello")
    with open(place.sessions / "one" / "log.jsonl", "ab") as file:
        file.write(b"garbage\n")
    place.started("--session-id", "silent").end()
    assert (place.sessions / "silent").exists(), "killed before anything was said"
    report = sessions(place, "repair")
    assert "line 6 was damaged: nothing could be saved" in report
    assert "silent: nothing was ever said in it: removed" in report
    assert sessions(place, "repair", "one") == "one: in order\n"
    assert [path.name for path in place.sessions.iterdir()] == ["one"]


def test_a_log_of_a_later_version_can_be_read_but_not_gone_on_with(place: Place) -> None:
    emit(place, "hello")
    path = place.sessions / "one" / "log.jsonl"
    later = path.read_bytes().replace(b'"session":"one"', b'"session":"one","version":7', 1)
    path.write_bytes(later)
    done = place.run("--json-stream", "--resume", "one")
    assert (done.code, done.out) == (1, b"")  # S2
    assert "its log has version 7" in done.errors
    for words in (["fork", "one"], ["repair", "one"], ["name", "one", "x"]):
        assert "version 7" in refused(place, *words)
    assert path.read_bytes() == later
    assert "hello" in sessions(place, "show", "one")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--json-stream", "--resume", "one"), 0),
        (("--json-stream", "--protocol", "0.1.0", "--resume", "one"), 0),
        (("--mode", "rpc", "--resume", "one"), 0),
        (("--mode", "rpc", "--session", "../state/sessions/one/log.jsonl"), 0),
        (("--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--resume", "one"), 1),
    ],
    ids=["json-stream", "aionrs", "omp", "omp, a file", "claude"],
)
def test_S2_a_log_of_which_nothing_can_be_read_is_refused_before_ready_on_every_wire(
    place: Place, flags: tuple[str, ...], said: int
) -> None:
    log = place.sessions / "one" / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"garbage\n")
    done = place.run(*flags, "--provider", "scripted")
    assert (done.code, len(done.frames)) == (1, said)
    assert "none of the 1 lines of its log can be read. Nothing was changed: polylect sessions repair" in done.errors
    assert [frame["subtype"] for frame in done.frames] == ["error_during_execution"] * said
    assert log.read_bytes() == b"garbage\n"


USELESS = ("wat", "--wat", "show", "show a b", "export", "export a --to", "import", "fork", "name a", "repair a b",
           "delete", "fork a --wat b")  # fmt: skip


@pytest.mark.parametrize("words", USELESS)
def test_words_that_make_no_sense_are_answered_with_the_usage(place: Place, words: str) -> None:
    assert refused(place, *words.split(), code=2).startswith("usage: polylect sessions")


def test_P6_a_session_that_is_not_there_is_refused_by_every_command(place: Place) -> None:
    sessions = ("missing", "../../etc", ".deleted-x", "")
    for session, word in one_in(3, [*product(sessions, ("show", "export", "fork", "repair", "delete"))]):
        result = refused(place, word, session)
        assert result.startswith("polylect: ")
        assert result.count("\n") == 1
        assert session != "missing" or "Session 'missing' not found" in result
    assert not place.sessions.exists()


def test_a_format_that_does_not_exist_is_refused(place: Place) -> None:
    emit(place, "hello")
    assert "formats are md, html, json, omp, claude" in refused(place, "export", "one", "--to", "pdf")


def test_a_reader_that_has_seen_enough_is_no_error(place: Place) -> None:
    emit(place, "hello")
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "polylect", "sessions"]
    with open(writer, "wb") as out:
        done = subprocess.run(argv, cwd=place.workspace, env=place.env, stdout=out, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
