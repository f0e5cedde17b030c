"""Flags, settings and names: what is wrong is said in one line on stderr, before `ready`."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from engine_process import PATIENCE, Place, launcher, message
from polylect import __version__
from polylect.dialects.acp.start import LISTEN_FLAGS

HELLO = b'{"type":"message","msg_id":"m1","input":"Hello"}\n'


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--json-stram"], "--json-stream"),
        (["--json-stream", "--modle", "x"], "--model"),
        (["--json-stream", "--resum=x"], "--resume"),
        (["--json-stream", "--zzzzzz"], "--help"),
        (["--json-stream", "--model"], "--model needs a value"),
        (["--json-stream", "--max-turns", "many"], "whole number"),
        (["--json-stream", "--stream-timeout", "soon"], "seconds"),
        (["--json-stream", "--force=yes"], "takes no value"),
        (["--json-stream", "do this"], "'do this'"),
        ([], "--json-stream"),
    ],
)
def test_a_bad_command_line_exits_2_and_says_what_would_be_right(place: Place, words: list[str], told: str) -> None:
    done = place.run(*words)
    assert (done.code, done.out, done.errors.count("\n")) == (2, b"", 1)
    assert told in done.errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--protocol", "9.9.9"], "0.2.0"),
        (["--provider", "antropic"], "anthropic"),
        (["--workspace", "/no/such/folder"], "/no/such/folder"),
        (["--approval-mode", "sometimes"], "auto_edit"),
        (["--on-eof", "panic"], "finish"),
        (["--log-level", "loud"], "debug"),
        (["--thinking", "hard"], "enabled"),
        (["--config", "/no/such/file"], "/no/such/file"),
        (["--script", "/no/such/script.toml"], "/no/such/script.toml"),
        (["--provider", "openai"], "OPENAI_API_KEY"),
        (["--provider", "openai", "--base-url", "localhost:80"], "http://"),
        (["--session-id", "a", "--resume", "b"], "--resume"),
        (["--session-id", "latest"], "that word is taken"),
        (["--add-dir", "/no/such/folder"], "/no/such/folder"),
        (["--effort", "high"], "levels are: none"),
        (["--effort", "max", "--provider", "openai", "--api-key", "x", "--model", "o3"], "low, medium, high"),
    ],
)
def test_a_bad_setting_exits_before_ready_and_names_the_choices(place: Place, words: list[str], told: str) -> None:
    done = place.run("--json-stream", *words)
    flags = ("--protocol", "--on-eof", "--log-level", "--thinking", "--add-dir", "--effort")
    usage = words[0] in flags or "latest" in words
    assert (done.code, done.out, done.errors.count("\n")) == (2 if usage else 1, b"", 1)
    assert told in done.errors


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--provider", "nosuch"], "there is no provider 'nosuch'; providers are scripted, anthropic", 1),
        (["--workspace", "/no/such/folder"], "--workspace /no/such/folder: there is no such folder", 1),
        (["--approval-mode", "sometimes"], "auto_edit", 1),
        (["--thinking", "hard"], "--thinking 'hard': choose one of disabled, enabled", 2),
        (["--allow", "Bash(("], "'Bash((' is not a rule", 1),
        (["--add-dir", "/no/such/folder"], "--add-dir /no/such/folder: there is no such folder", 2),
        (["--script", "/no/such/script"], "cannot read the script /no/such/script", 1),
        (["--config", "/no/such/file"], "--config /no/such/file: there is no such file", 1),
        (["--extension", "/no/such/file"], "--extension /no/such/file: there is no such file", 1),
        (["--api-key-file", "/no/such/file"], "--api-key-file /no/such/file", 2),
    ],
)
def test_bad_flags_of_acp_end_the_start_as_on_other_wires(place: Place, words: list[str], text: str, code: int) -> None:
    done, other = place.run("--acp", *words), place.run("--json-stream", *words)
    assert (done.code, done.out, done.errors) == (code, b"", other.errors)
    assert text in done.errors


def test_a_missing_key_does_not_end_the_start_of_acp(place: Place) -> None:
    """Clients log in over the wire."""
    hello = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    done = place.run("--acp", "--provider", "openai", given=hello)
    assert (done.code, [frame["id"] for frame in done.frames]) == (0, [0])


def test_a_model_that_nobody_knows_may_have_any_effort(place: Place) -> None:
    flags = ("--provider", "openai", "--api-key", "x", "--model", "somebody-elses", "--effort", "max")
    assert place.started(*flags).ready["type"] == "ready"


def test_a_script_that_cannot_be_read_names_the_place(place: Place) -> None:
    done = place.run("--json-stream", *place.script('[[reply]]\nsay = [{ text = "a", splitt = "word" }]'))
    assert (done.code, done.out) == (1, b"")
    assert "reply 1, part 1: there is no key 'splitt' here, did you mean 'split'?" in done.errors


def test_a_flag_without_meaning_is_accepted_and_noted(place: Place) -> None:
    done = place.run("--json-stream", "--toon", "--agent", "fast", given=HELLO)
    assert done.code == 0
    assert "--toon has no meaning here" in done.errors
    assert "--agent has no meaning here" in done.errors


@pytest.mark.parametrize("form", [["--session-id", "one"], ["--session-id=one"]])
def test_values_are_given_with_a_space_or_an_equals_sign(place: Place, form: list[str]) -> None:
    assert place.started(*form).ready["session_id"] == "one"


def test_version_and_help_are_for_people(place: Place) -> None:
    version = place.run("--version")
    assert (version.code, version.out.decode()) == (0, f"polylect {__version__}\n")
    requested = place.run("--help")
    assert (requested.code, requested.errors) == (0, "")
    assert b"--json-stream" in requested.out
    assert place.run("acp", "--help").out == requested.out
    assert [flag for flag in LISTEN_FLAGS if flag.encode() not in requested.out] == []


def test_the_workspace_is_where_tools_work(place: Place) -> None:
    other = place.folder / "other"
    other.mkdir()
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Bash", args.command = "pwd" }]
    [[reply]]
    text = "Done."
    """
    engine = place.started("--workspace", str(other), "--force", script=script)
    engine.send(message("where?"))
    (result,) = (frame for frame in engine.until("stream_end") if frame["type"] == "tool_result")
    assert str(other) in result["output"]


def test_max_turns_bounds_the_requests_of_a_turn(place: Place) -> None:
    engine = place.started("--max-turns", "2", script='[[reply]]\nsay = [{ call = "Glob", args.pattern = "*" }]')
    engine.send(message("go"))
    frames = engine.until("stream_end")
    assert sum(frame["type"] == "tool_result" for frame in frames) == 2
    assert frames[-1]["finish_reason"] == "max_turns"
    assert "--max-turns" in next(frame["message"] for frame in frames if frame["type"] == "info")


def test_the_environment_stands_in_for_flags(place: Place) -> None:
    script = place.folder / "said.toml"
    script.write_text('[[reply]]\ntext = "From the environment."')
    done = place.run(
        "--json-stream", given=HELLO, env={"POLYLECT_SCRIPT": str(script), "POLYLECT_PROVIDER": "scripted"}
    )
    assert "From the environment." in [frame.get("text") for frame in done.frames]


def test_a_projects_settings_cannot_widen_its_rights(place: Place) -> None:
    """P2: a repository may come from anybody."""
    folder = place.workspace / ".polylect"
    folder.mkdir()
    (folder / "config.toml").write_text("[tools]\nauto_approve = true\n")
    script = '[[reply]]\nwhen.step = 1\nsay = [{ call = "Bash", args.command = "touch x" }]\n[[reply]]\ntext = "."'
    engine = place.started(script=script)
    engine.send(message("go"))
    assert engine.until("tool_request")
    assert "--trust-workspace" in engine.errors
    trusted = place.started("--trust-workspace", script=script)
    trusted.send(message("go"))
    assert "tool_request" not in [frame["type"] for frame in trusted.until("stream_end")]


@pytest.mark.parametrize(("name", "version"), [("aionrs", "0.1.0"), ("wayland-core", "0.2.0")])
def test_a_link_makes_it_stand_in_for_another_engine(place: Place, name: str, version: str) -> None:
    program = place.folder / "bin with spaces" / "polylect"
    program.parent.mkdir()
    program.write_text(launcher())
    program.chmod(0o755)
    folder = place.folder / "links"
    result = subprocess.run([program, "link", name, folder], env=place.env, capture_output=True, text=True, check=True)
    assert str(folder / name) in result.stdout
    env = {**place.env, "PATH": f"{folder}{os.pathsep}{place.env['PATH']}"}
    linked = subprocess.run([name, "--json-stream"], input=HELLO, env=env, capture_output=True, check=True)
    assert f'{{"type":"ready","version":"{version}"'.encode() in linked.stdout
    requested = subprocess.run([name, "--version"], env=env, capture_output=True, text=True, check=True)
    assert requested.stdout == f"{name} {__version__}\n"


def test_a_link_by_an_unknown_name_is_refused(place: Place) -> None:
    done = place.run("link", "vim", str(place.folder))
    assert (done.code, done.out) == (2, b"")
    assert "aionrs" in done.errors


def test_a_workspace_that_was_deleted_is_no_traceback(place: Place) -> None:
    gone = shlex.quote(str(place.folder / "gone"))
    argv = ["sh", "-c", f'mkdir {gone} && cd {gone} && rmdir {gone} && exec "$0" "$@"', *place.argv()]
    done = subprocess.run(argv, env=place.env, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_secrets_do_not_reach_commands(place: Place) -> None:
    """P5."""
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Bash", args.command = "env; cat /proc/$PPID/environ | tr '\\\\0' '\\\\n'" }]
    [[reply]]
    text = "Done."
    """
    secrets = {"ANTHROPIC_API_KEY": "sk-secret-1", "OPENAI_API_KEY": "sk-secret-2", "AWS_SECRET_ACCESS_KEY": "secret-3"}
    engine = place.started("--force", script=script, env=secrets)
    engine.send(message("look"))
    (result,) = (frame for frame in engine.until("stream_end") if frame["type"] == "tool_result")
    assert "PATH=" in result["output"]
    assert "secret-" not in result["output"]


def test_logging_goes_to_stderr_and_only_when_asked_for(place: Place) -> None:
    quiet = place.run("--json-stream", given=HELLO)
    loud = place.run("--json-stream", "--log-level", "debug", given=HELLO)
    assert quiet.errors == ""
    assert [frame["type"] for frame in quiet.frames] == [frame["type"] for frame in loud.frames]


def test_a_pace_that_is_no_number_is_found_before_ready(place: Place) -> None:
    done = place.run("--json-stream", env={"POLYLECT_SCRIPT_PACE": "quick"}, given=HELLO)
    assert (done.code, done.out) == (1, b"")
    assert "POLYLECT_SCRIPT_PACE" in done.errors


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (["--json-stream"], ["ready", "error"]),
        (["--mode", "rpc"], ["ready", "extension_error"]),
        (["--output-format", "stream-json", "--input-format", "stream-json", "--verbose"], ["result"]),
    ],
)
def test_what_goes_wrong_after_ready_is_told_on_both_streams(place: Place, wire: list[str], said: list[str]) -> None:
    """With hardly any descriptors left there is a `ready`, and no loop."""
    argv = ["bash", "-c", 'ulimit -n 9; exec "$@"', "-", sys.executable, "-m", "polylect", *wire]
    env = {**place.env, "POLYLECT_PROVIDER": "scripted"}
    done = subprocess.run(argv, env=env, cwd=place.workspace, input=HELLO, capture_output=True, check=False)
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [frame["type"] for frame in frames]) == (1, said)
    assert "Too many open files" in json.dumps(frames[-1])
    assert b"Too many open files" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_right_after_ready_ends_it_in_order(place: Place, number: signal.Signals) -> None:
    engine = place.started()
    engine.signal(number)
    assert engine.wait() == 128 + number
