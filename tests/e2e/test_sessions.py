"""Sessions on disk: S1 to S5 and P6 with real processes."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine_process import Place, Sleepers, message, say_once

COUNTS = '[[reply]]\ntext = "Turn {turn}."'


def prompt(place: Place, *flags: str, script: str = COUNTS) -> str:
    """One prompt, one answer, and the end."""
    engine = place.started(*flags, script=script)
    engine.send(message("next"))
    said = "".join(frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta")
    assert engine.finish() == ([], 0)
    return said


def logged(place: Place, session: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (place.sessions / session / "log.jsonl").read_bytes().splitlines()]


def test_resume_goes_on_where_it_was(place: Place) -> None:
    """S2."""
    assert prompt(place, "--session-id", "one") == "Turn 1."
    assert prompt(place, "--resume", "one") == "Turn 2."
    assert prompt(place, "--continue") == "Turn 3."


def test_latest_is_the_most_recently_active_of_this_workspace(place: Place) -> None:
    """S2."""
    other = place.folder / "other"
    other.mkdir()
    prompt(place, "--session-id", "first")
    prompt(place, "--session-id", "second")
    prompt(place, "--session-id", "elsewhere", "--workspace", str(other))
    prompt(place, "--resume", "first")
    assert place.started("--resume", "latest").ready["session_id"] == "first"


@pytest.mark.parametrize("protocol", ["0.1.0", "0.2.0"])
def test_resume_of_a_missing_session_leaves_stdout_empty_and_its_id_free(place: Place, protocol: str) -> None:
    """S2: hosts then start again with --session-id and the same id."""
    done = place.run("--json-stream", "--protocol", protocol, "--resume", "conv-1")
    assert (done.code, done.out) == (1, b"")
    assert "conv-1" in done.errors
    assert place.started("--protocol", protocol, "--session-id", "conv-1").ready["session_id"] == "conv-1"


def test_resume_latest_without_any_says_so(place: Place) -> None:
    done = place.run("--json-stream", "--resume", "latest")
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)


def test_a_session_id_that_exists_is_refused(place: Place) -> None:
    """S2."""
    prompt(place, "--session-id", "one")
    done = place.run("--json-stream", "--session-id", "one")
    assert (done.code, done.out) == (1, b"")
    assert "--resume one" in done.errors


def test_a_session_in_which_nothing_was_said_leaves_no_trace(place: Place) -> None:
    assert place.started("--session-id", "silent").finish() == ([], 0)
    assert not (place.sessions / "silent").exists()


def test_without_sessions_nothing_is_written(place: Place) -> None:
    assert prompt(place, "--no-session") == "Turn 1."
    assert not place.sessions.exists()


def test_two_processes_cannot_have_one_session(place: Place) -> None:
    """S3."""
    first = place.started("--session-id", "one", script=COUNTS)
    first.send(message("next"))
    first.until("stream_end")
    for flag in ("--resume", "--session-id"):
        done = place.run("--json-stream", flag, "one")
        assert (done.code, done.out) == (1, b"")
        assert f"in use by process {first.pid}" in done.errors
    first.send(message("next", "m2"))
    assert first.until("stream_end")[1]["text"] == "Turn 2."


def test_a_session_is_free_again_when_its_process_was_killed(place: Place) -> None:
    """S3."""
    first = place.started("--session-id", "one", script=COUNTS)
    first.send(message("next"))
    first.until("stream_end")
    first.end()
    assert prompt(place, "--resume", "one") == "Turn 2."


@pytest.mark.parametrize(
    "bad", ["../evil", "a/b", "/etc/passwd", "..", ".hidden", "", "a b", "a\nb", "x" * 129, "ü", "latest/../x"]
)
@pytest.mark.parametrize("flag", ["--session-id", "--resume"])
def test_ids_from_outside_cannot_leave_the_session_folder(tmp_path: Path, bad: str, flag: str) -> None:
    """P6."""
    with Place(tmp_path) as place:
        before = sorted(path for path in tmp_path.rglob("*"))
        done = place.run("--json-stream", f"{flag}={bad}")
        assert (done.code, done.out) == (1, b"")
        assert sorted(path for path in tmp_path.rglob("*")) == before


def test_the_prompt_is_on_disk_before_it_is_acknowledged(place: Place) -> None:
    """T1."""
    engine = place.started("--session-id", "one", script="[[reply]]\nsay = [{ hang = true }]")
    engine.send(message("remember me"))
    engine.until("stream_start")
    assert "remember me" in (place.sessions / "one" / "log.jsonl").read_text()


def test_a_torn_last_line_is_repaired(place: Place) -> None:
    """S1."""
    prompt(place, "--session-id", "one")
    path = place.sessions / "one" / "log.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id":"torn","parent":"x","at":1,"bo')
    assert prompt(place, "--resume", "one") == "Turn 2."
    assert all(logged(place, "one"))


def test_a_damaged_line_costs_no_more_than_itself(place: Place) -> None:
    """S1."""
    prompt(place, "--session-id", "one")
    path = place.sessions / "one" / "log.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\xfe garbage\n")
    assert prompt(place, "--resume", "one") == "Turn 2."
    assert b"garbage" in path.read_bytes()


def test_a_log_that_nobody_can_read_is_not_thrown_away(place: Place) -> None:
    """S1."""
    prompt(place, "--session-id", "one")
    path = place.sessions / "one" / "log.jsonl"
    path.write_bytes(b'{"written":"by a later version"}\n')
    engine = place.start("--resume", "one")
    engine.close_input()
    engine.rest()
    engine.wait()
    assert path.read_bytes() == b'{"written":"by a later version"}\n'


def test_kill_in_the_middle_of_a_tool_leaves_a_session_that_resumes(place: Place) -> None:
    """S1, T4: the cut-off call has a result, so that every vendor takes the history."""
    sleepers = Sleepers(place)
    script = f"""
    [[reply]]
    when = {{ prompt = "run", step = 1 }}
    say = [{{ text = "I run it." }}, {{ call = "Bash", id = "t1", args.command = "{sleepers.command()}" }}]

    [[reply]]
    when.history = "I run it."
    text = "Turn {{turn}}, and I remember."
    """
    engine = place.started("--session-id", "one", "--force", script=script)
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    engine.end()
    sleepers.wait_until_gone()
    assert prompt(place, "--resume", "one", script=script) == "Turn 2, and I remember."
    results = [entry for entry in logged(place, "one") if "cut off" in json.dumps(entry)]
    assert len(results) == 1


def test_twenty_engines_at_once_disturb_nobody(place: Place) -> None:
    """S5."""
    script = place.script('[[reply]]\ntext = "{prompt}"')

    def one(number: int) -> tuple[int, list[str], bytes]:
        argv = [*place.argv(*script), "--session-id", f"s{number}"] if number % 2 else place.argv(*script)
        return say_once(place, argv, f"I am {number}")

    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(one, range(20)))
    assert outcomes == [(0, [f"I am {number}"], b"") for number in range(20)]
    sessions = list(place.sessions.iterdir())
    assert len(sessions) == 20
    assert all(logged(place, session.name) for session in sessions)


def test_a_folder_that_cannot_be_written_is_one_line_that_says_what_to_do(place: Place) -> None:
    home = place.folder / "file"
    home.write_text("in the way")
    done = place.run("--json-stream", env={"POLYLECT_HOME": str(home)})
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)
    assert "POLYLECT_HOME" in done.errors
