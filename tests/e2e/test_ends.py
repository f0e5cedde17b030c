"""How an engine ends: at the end of its input, by a signal, without its host (I5, L7, exit codes)."""

import os
import signal
import subprocess

import pytest

from engine_process import PATIENCE, Place, Sleepers, message

OLD = ("--protocol", "0.1.0")
TWO = b'{"type":"message","msg_id":"m1","input":"Hello"}\n{"type":"message","msg_id":"m2","input":"Hello"}\n'
ANSWERED = ["ready"] + ["stream_start", "text_delta", "text_delta", "stream_end"] * 2
IN_FULL = ["ready"] + ["stream_start", "text_delta", "text_delta", "session_cost", "stream_end"] * 2
"""The same in 0.2.0, where what it cost is told."""
ASKS = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "t1", args = { file_path = "x", content = "x" } }]

[[reply]]
when.result.outcome = "denied"
text = "Nobody was there."
"""


def sleeping(sleepers: Sleepers) -> str:
    return f"""
    [[reply]]
    when.step = 1
    say = [{{ call = "Bash", id = "t1", args.command = "{sleepers.command()}" }}]

    [[reply]]
    text = "Done."
    """


def run(argv: list[str], place: Place) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv, input=TWO, capture_output=True, cwd=place.workspace, env=place.env, timeout=PATIENCE, check=False
    )


def kinds(frames: list[dict[str, object]]) -> list[object]:
    return [frame["type"] for frame in frames]


# The end of input.


def test_two_commands_through_a_pipe_are_answered_in_full(place: Place) -> None:
    """I5."""
    done = place.run("--json-stream", "--provider", "scripted", given=TWO)
    assert (done.code, kinds(done.frames), done.errors) == (0, IN_FULL, "")


def test_a_last_line_without_its_newline_is_a_line(place: Place) -> None:
    done = place.run("--json-stream", given=TWO.rstrip(b"\n"))
    assert (done.code, kinds(done.frames)) == (0, IN_FULL)


def test_a_turn_is_finished_after_the_end_of_input(place: Place) -> None:
    """I5, L7: and then the engine exits within two seconds."""
    engine = place.started(*OLD, script='[[reply]]\nsay = ["one", { wait = 0.3 }, "two"]')
    engine.send(message("go"))
    engine.until("text_delta")
    engine.close_input()
    assert engine.until("stream_end")[0]["text"] == "two"
    assert engine.wait(within=2.0) == 0


def test_on_eof_stop_cancels_instead(place: Place) -> None:
    """I5."""
    engine = place.started(*OLD, "--on-eof", "stop", script='[[reply]]\nsay = ["one", { hang = true }]')
    engine.send(message("go"))
    engine.until("text_delta")
    engine.close_input()
    assert kinds(engine.rest()) == ["stream_end"]
    assert engine.wait(within=2.0) == 0


def test_an_ask_that_waits_is_denied_at_the_end_of_input(place: Place) -> None:
    """A2, I5."""
    engine = place.started(*OLD, script=ASKS)
    engine.send(message("write"))
    engine.until("tool_request")
    engine.close_input()
    cancelled, text, end = engine.rest()
    assert (cancelled["type"], cancelled["call_id"], end["type"]) == ("tool_cancelled", "t1", "stream_end")
    assert "nobody is there to ask" in cancelled["reason"]
    assert text["text"] == "Nobody was there."
    assert engine.wait(within=2.0) == 0


def test_an_ask_after_the_end_of_input_is_denied_at_once(place: Place) -> None:
    """A2, I5."""
    done = place.run("--json-stream", *place.script(ASKS), given=TWO[: TWO.index(b"\n") + 1])
    assert "tool_cancelled" in kinds(done.frames)
    assert done.code == 0
    assert not (place.workspace / "x").exists()


@pytest.mark.parametrize("protocol", ["0.1.0", "0.2.0"])
def test_an_empty_input_is_a_conversation_without_words(place: Place, protocol: str) -> None:
    done = place.run("--json-stream", "--protocol", protocol)
    assert (done.code, kinds(done.frames), done.errors) == (0, ["ready"], "")


def test_stdin_may_be_dev_null(place: Place) -> None:
    engine = place.start(*OLD, stdin=subprocess.DEVNULL)
    assert kinds(engine.rest()) == ["ready"]
    assert engine.wait() == 0


def test_stdin_may_be_a_file(place: Place) -> None:
    path = place.folder / "commands.jsonl"
    path.write_bytes(TWO)
    with open(path, "rb") as file:
        engine = place.start(*OLD, stdin=file)
        assert kinds(engine.rest()) == ANSWERED
    assert engine.wait() == 0


def test_whoever_cannot_read_says_so_and_fails(place: Place) -> None:
    with open(place.folder / "only-for-writing", "wb") as file:
        engine = place.start(*OLD, stdin=file)
    assert kinds(engine.rest()) == ["ready"]
    assert engine.wait() == 1
    assert engine.errors.startswith("polylect: reading has failed: OSError")


def test_stdout_may_be_a_file(place: Place) -> None:
    path = place.folder / "events.jsonl"
    with open(path, "wb") as file:
        engine = place.start(*OLD, stdout=file)
        engine.send(TWO)
        engine.close_input()
        assert engine.wait() == 0
    assert path.read_bytes().count(b"\n") == len(ANSWERED)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_stream_may_be_closed_from_the_start(place: Place, closed: str) -> None:
    """I3: and none of our own files ends up in its place."""
    command = f'exec "$0" "$@" {closed}'
    argv = ["sh", "-c", command, *place.argv("--session-id", "closed")]
    done = run(argv, place)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(lines) == (1 if "<" in closed else len(IN_FULL))
    assert lines[0].startswith(b'{"type":"ready"')


def test_without_stdout_there_is_nothing_to_do(place: Place) -> None:
    argv = ["sh", "-c", 'exec "$0" "$@" >&-', *place.argv("--session-id", "closed")]
    done = run(argv, place)
    assert done.returncode != 143
    assert b"Traceback" not in done.stderr


# Signals.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_during_a_tool_ends_the_turn_the_tool_and_the_engine(
    place: Place, number: signal.Signals, code: int
) -> None:
    """L1, P1."""
    sleepers = Sleepers(place)
    engine = place.started(*OLD, "--force", script=sleeping(sleepers))
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    engine.signal(number)
    assert kinds(engine.rest()) == ["tool_cancelled", "stream_end"]
    assert engine.wait(within=3.0) == code
    sleepers.wait_until_gone()
    assert "Traceback" not in engine.errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_an_idle_engine_at_once(place: Place, number: signal.Signals, code: int) -> None:
    engine = place.started(*OLD)
    engine.send({"type": "ping"})
    engine.until("pong")
    engine.signal(number)
    assert engine.rest() == []
    assert engine.wait(within=2.0) == code
    assert engine.errors == ""


def test_a_signal_right_after_ready_leaves_no_traceback(place: Place) -> None:
    engine = place.started(*OLD)
    engine.signal(signal.SIGINT)
    assert engine.wait(within=2.0) in (130, -signal.SIGINT)
    assert "Traceback" not in engine.errors


# What is left.


@pytest.mark.parametrize("words", [("run", "go", "--mode", "force"), ("doctor",)])
def test_a_sandbox_leaves_nothing_in_an_empty_home(place: Place, words: tuple[str, ...]) -> None:
    """Folders for the caches of npm, cargo and others are there while commands run, and removed if nothing is in
    them."""
    home, programs = place.folder / "home", place.folder / "programs"
    for folder in (home, programs):
        folder.mkdir()
    for name in ("npm", "cargo", "java"):
        (programs / name).write_text("")
        (programs / name).chmod(0o755)
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Bash", args.command = "ls -A ~" }]

    [[reply]]
    text = "{result}"
    """
    env = {"HOME": str(home), "PATH": f"{programs}:{place.env['PATH']}"}
    outcome = place.run(*words, *(place.script(script) if words[0] == "run" else ()), env=env)
    assert outcome.code == 0, outcome
    assert words[0] != "run" or {".cache", ".cargo", ".m2"} <= set(outcome.out.decode().split())
    assert list(home.rglob("*")) == []


# Without a host.


def test_a_host_that_goes_away_during_a_tool_ends_everything_at_once(place: Place) -> None:
    """I5: even though nothing was to be said, and input is still open."""
    sleepers = Sleepers(place)
    engine = place.started(*OLD, "--force", script=sleeping(sleepers))
    engine.send(message("run"))
    engine.until("tool_running")
    sleepers.wait_until_started()
    engine.close_output()
    engine.wait(within=3.0)
    sleepers.wait_until_gone()


def test_a_host_that_goes_away_during_a_flood_ends_it(place: Place) -> None:
    """I5."""
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "word ", repeat = 10000000 }]')
    engine.send(message("flood"))
    engine.until("text_delta")
    engine.close_output()
    engine.wait(within=3.0)
    assert "Traceback" not in engine.errors


def test_a_host_that_goes_away_before_ready_is_no_crash(place: Place) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        engine = place.start(*OLD, stdout=pipe)
    engine.wait()
    assert "Traceback" not in engine.errors
