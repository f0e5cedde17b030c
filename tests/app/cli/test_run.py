"""`polylect run`: one task, an honest exit code."""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place, Sleepers, eventually
from peers.programs import path_with
from thoroughness import one_in

WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def argv(place: Place, script: str, *words: str) -> list[str]:
    file = place.workspace.parent / "script.toml"
    file.write_text(script)
    result = ["--provider", "scripted", "--script", str(file), "--cwd", str(place.workspace)]
    return [sys.executable, "-m", "polylect", "run", *words, *result]


def run(place: Place, script: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(place, script, *words),
        env=place.env,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_answer_is_on_stdout_and_nothing_else_is(place: Place) -> None:
    ran = run(place, '[[reply]]\ntext = "{prompt}!"\n', "hello")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello!\n", "")


def test_a_prompt_comes_from_stdin_only_when_asked_for(place: Place) -> None:
    script = '[[reply]]\ntext = "{prompt}!"\n'
    assert run(place, script, "-", text="from stdin").stdout == "from stdin!\n"
    assert run(place, script, "hello", text="not this").stdout == "hello!\n"


def test_what_nobody_allowed_is_denied_and_the_exit_code_says_so_a2(place: Place) -> None:
    ran = run(place, WRITES, "go")
    assert ran.returncode == 3
    assert "denied: Write" in ran.stderr
    assert not (place.workspace / "made.txt").exists()


@pytest.mark.parametrize(
    "words", [("--yes",), ("--allow", "Write"), ("--allow", "Edit(made.txt)"), ("--mode", "force")]
)
def test_what_a_rule_allows_is_done(place: Place, words: tuple[str, ...]) -> None:
    assert run(place, WRITES, "go", *words).returncode == 0
    assert (place.workspace / "made.txt").exists()


def test_a_deny_rule_wins_over_an_allow_rule(place: Place) -> None:
    ran = run(place, WRITES, "go", "--allow", "Write", "--deny", "Write(made.txt)")
    assert ran.returncode == 0
    assert "the rule" in ran.stderr
    assert not (place.workspace / "made.txt").exists()


TRACKER = Path(__file__).parents[2] / "mcp_servers" / "plain.py"
SERVERS = ("tracker", "shop")
CALLS_TRACKER = """
[[reply]]
when.step = 1
say = [{ call = "echo", args.word = "hello" }, { call = "mcp__tracker__echo", args.word = "hello" }]

[[reply]]
text = "done"
"""
CALLS_BOTH = CALLS_TRACKER.replace('{ call = "echo",', '{ call = "mcp__shop__echo",')


@pytest.mark.parametrize("engine", ["polylect", "polylect-omp", "polylect-claude"])
def test_a_rule_allows_a_tool_of_a_server_by_its_full_name(place: Place, engine: str) -> None:
    """One server's by the name of the tool, the other's by the name of the server."""
    both = [f"[mcp.servers.{name}]\ncommand = '{sys.executable}'\nargs = ['{TRACKER}', 'Works']" for name in SERVERS]
    place.configure("\n".join(both))
    ran = run(place, CALLS_BOTH, "go", "--allow", "mcp__tracker__echo", "--allow", "mcp__shop", "--engine", engine)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert "denied" not in ran.stderr
    if engine == "polylect":
        assert run(place, CALLS_BOTH, "go", "--allow", "mcp__other").returncode == 3


OTHER_ENGINE = f"{shlex.quote(sys.executable)} -m polylect --json-stream --provider scripted --script {{}}"


@pytest.mark.parametrize("engine", one_in(2, ["polylect", "polylect-omp", OTHER_ENGINE, "polylect-claude"]))
def test_a_short_name_does_not_allow_a_tool_of_a_server(place: Place, engine: str) -> None:
    place.configure(f"[mcp.servers.tracker]\ncommand = '{sys.executable}'\nargs = ['{TRACKER}', 'Works']")
    script = place.workspace.parent / "script.toml"
    script.write_text(CALLS_TRACKER)
    words = [sys.executable, "-m", "polylect", "run", "go", "--allow", "echo", "--cwd", str(place.workspace)]
    scripted = ["--provider", "scripted", "--script", str(script)] if engine != OTHER_ENGINE else []
    words += ["--engine", engine.format(shlex.quote(str(script))), *scripted]
    ran = subprocess.run(words, env=place.env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout) == (3, "done\n"), ran.stderr
    assert "denied: echo" in ran.stderr or "denied: mcp__tracker__echo" in ran.stderr


@pytest.mark.parametrize(("rule", "code"), [("Bash(touch:*)", 0), ("Bash(ls:*)", 3)])
def test_a_rule_for_commands_holds_for_the_tool_of_aionrs(place: Place, rule: str, code: int) -> None:
    words = [sys.executable, "-m", "polylect", "run", "run touch made.txt", "--engine", "aionrs", "--allow", rule]
    env = {**place.env, "PATH": path_with("aionrs", place.workspace.parent / "bin")}
    ran = subprocess.run(
        words, cwd=place.workspace, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ran.returncode, (place.workspace / "made.txt").exists()) == (code, code == 0), ran.stderr


def test_the_reason_of_a_denial_names_the_rule_that_wanted_a_question(place: Place) -> None:
    place.configure('[tools]\nask = ["Bash(echo:*)"]\n')
    script = (
        '[[reply]]\nwhen.step = 1\nsay = [{ call = "Bash", args = { command = "echo x" } }]\n[[reply]]\ntext = "done"'
    )
    for words in (("--mode", "force"), ("--allow", "Bash")):
        ran = run(place, script, "go", *words)
        assert ran.returncode == 3
        assert "the rule Bash(echo:*) wants it to be asked for" in ran.stderr


def test_a_failed_server_and_ignored_project_settings_are_named_on_stderr(place: Place) -> None:
    place.configure(f"[mcp.servers.tracker]\ncommand = '{sys.executable}'\nargs = ['{TRACKER}', 'Dies']")
    project = place.workspace / ".polylect" / "config.toml"
    project.parent.mkdir()
    project.write_text('[tools]\nallow = ["Bash"]\n')
    ran = run(place, '[[reply]]\ntext = "hi"\n', "go")
    assert (ran.returncode, ran.stdout) == (0, "hi\n")
    assert "MCP server tracker has failed: " in ran.stderr
    assert "tools.allow" in ran.stderr


def test_the_first_prompt_waits_until_the_prompts_of_a_server_are_known(place: Place) -> None:
    place.configure(f"[mcp.servers.shop]\ncommand = '{sys.executable}'\nargs = ['{TRACKER}', 'Greets']")
    ran = run(place, '[[reply]]\ntext = "{prompt}!"\n', "/mcp__shop__greet Ann")
    assert (ran.returncode, ran.stdout) == (0, "Say hello to Ann!\n"), ran.stderr
    unknown = run(place, '[[reply]]\ntext = "{prompt}!"\n', "/mcp__shop__other")
    assert unknown.stdout == "/mcp__shop__other: no MCP server has the prompt 'mcp__shop__other'\n"


READS = """
[[reply]]
when.step = 1
say = [{ call = "Read", id = "c1", args = { file_path = "secret.txt" } }]

[[reply]]
text = "{result}"
"""


@pytest.mark.parametrize("engine", ["polylect", "polylect-omp", "polylect-claude"])
def test_a_deny_rule_holds_for_what_is_done_unasked(place: Place, engine: str) -> None:
    (place.workspace / "secret.txt").write_text("hush")
    ran = run(place, READS, "go", "--deny", "Read(secret.txt)", "--engine", engine)
    assert ran.returncode == 0
    assert "hush" not in ran.stdout


def test_a_deny_rule_holds_though_everything_else_is_allowed(place: Place) -> None:
    ran = run(place, WRITES, "go", "--yes", "--deny", "Write")
    assert ran.returncode == 0
    assert not (place.workspace / "made.txt").exists()


def test_what_nobody_allowed_is_told_from_what_a_rule_denies(place: Place) -> None:
    assert run(place, WRITES, "go", "--deny", "Bash").returncode == 3


def test_what_the_mode_plan_denies_is_no_lack_of_approval(place: Place) -> None:
    ran = run(place, WRITES, "go", "--mode", "plan")
    assert ran.returncode == 0
    assert "the mode is plan" in ran.stderr


def test_an_edit_is_asked_for_as_an_edit_on_every_wire(place: Place) -> None:
    (place.workspace / "made.txt").write_text("old")
    edits = WRITES.replace('"Write"', '"Edit"')
    edits = edits.replace('content = "x"', 'old_string = "old", new_string = "new"')
    ran = run(place, edits, "go", "--engine", "polylect-omp")
    assert ran.returncode == 3
    assert "edit calls" in ran.stderr


def test_denials_are_those_of_all_attempts_to_fit_a_schema(place: Place, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    ran = run(place, WRITES, "go", "--schema", str(schema), "--output", "json")
    result = json.loads(ran.stdout)
    assert ran.returncode == 5
    assert len(result["denials"]) == ran.stderr.count("denied: Write") > 1
    assert result["error"] == "no answer that fits the schema after 5 attempts; the last was 'done'"


def test_a_result_can_be_json_and_every_event_a_line(place: Place) -> None:
    result = json.loads(run(place, WRITES, "go", "--output", "json").stdout)
    assert result["text"] == "done"
    assert [denial["name"] for denial in result["denials"]] == ["Write"]
    lines = [json.loads(line) for line in run(place, WRITES, "go", "--output", "jsonl").stdout.splitlines()]
    assert lines[-1]["type"] in ("turn_ended", "settled")
    assert "tool_called" in [line["type"] for line in lines]


def test_an_answer_fits_its_schema_or_the_exit_code_says_so(place: Place, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["total"]}')
    good = run(place, "[[reply]]\ntext = '{\"total\": 3}'\n", "how many?", "--schema", str(schema))
    assert (good.returncode, json.loads(good.stdout)) == (0, {"total": 3})
    assert run(place, '[[reply]]\ntext = "many"\n', "how many?", "--schema", str(schema)).returncode == 5


def test_a_turn_that_takes_too_long_ends_with_the_code_for_limits(place: Place) -> None:
    script = '[[reply]]\nsay = [{ call = "Bash", id = "c1", args = { command = "sleep 60" } }]\n'
    ran = run(place, script, "go", "--yes", "--timeout", "1")
    assert ran.returncode == 4
    assert "took longer than 1 s" in ran.stderr


@pytest.mark.parametrize(("error", "code"), [("auth", 1), ("overloaded", 75)])
def test_an_error_that_passes_by_itself_is_told_from_one_that_does_not(place: Place, error: str, code: int) -> None:
    script = f'[[reply]]\nsay = [{{ error = "{error}", message = "no", retry_after = 0.0 }}]\n'
    ran = run(place, script, "go")
    assert ran.returncode == code, ran.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("",), "empty"),
        (("go", "--engine", "codex"), "known are"),
        (("go", "--allow", "Bash("), "not a rule"),
        (("go", "--schema", "no-such-file"), "--schema"),
        (("go", "--engine", "claude", "--provider", "x"), "cannot be told 'provider'"),
        (("go", "--max-turns", "many"), "whole number"),
        (("go", "--budget", "much"), "takes an amount above zero, not 'much'"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(place: Place, words: tuple[str, ...], why: str) -> None:
    ran = run(place, WRITES, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert why in ran.stderr


def test_an_engine_that_is_not_there_is_a_matter_of_configuration(place: Place) -> None:
    words = [sys.executable, "-m", "polylect", "run", "go", "--engine", "aionrs"]
    ran = subprocess.run(
        words, env={**place.env, "PATH": ""}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 78
    assert "aionrs" in ran.stderr


def test_an_interrupt_ends_it_and_the_engine_with_it_p1(place: Place) -> None:
    mark = place.workspace / "running"
    script = '[[reply]]\nsay = [{ call = "Bash", id = "c1", args = { command = "touch running; sleep 60" } }]\n'
    with subprocess.Popen(argv(place, script, "go", "--yes"), env=place.env, stderr=subprocess.PIPE) as child:
        eventually(mark.exists)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 143


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_an_object_with_what_was_said_so_far(place: Place, number: signal.Signals) -> None:
    mark = place.workspace / "running"
    script = """
[[reply]]
say = ["I begin.", { call = "Bash", id = "c1", args = { command = "touch running; sleep 60" } }]
"""
    words = argv(place, script, "go", "--yes", "--output", "json")
    with subprocess.Popen(words, env=place.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        eventually(mark.exists)
        child.send_signal(number)
        out, errors = child.communicate(timeout=PATIENCE)
    result = json.loads(out)
    assert child.returncode == 128 + number
    assert (result["text"], result["reason"], result["ok"]) == ("I begin.", "cancelled", False)
    assert (result["error"], result["exit_code"]) == (f"stopped by {number.name}", 128 + number)
    assert result["usage"]["output"] > 0
    assert "cost" in result
    assert f"stopped by {number.name}" in errors.decode()


def test_the_session_can_be_named_and_gone_on_with(place: Place) -> None:
    script = '[[reply]]\ntext = "turn {turn}"\n'
    assert run(place, script, "go", "--session-id", "mine").returncode == 0
    assert (place.sessions / "mine" / "log.jsonl").exists()
    assert run(place, script, "on", "--resume", "mine").stdout == "turn 2\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--sesion-id", "x"), "unknown flag --sesion-id; did you mean --session-id?"),
        (("--qqqqqq",), "unknown flag --qqqqqq; see polylect run --help"),
        (("--schema", "nosuch.json"), "--schema nosuch.json: there is no such file"),
        (("--schema", "."), "--schema .: it cannot be read: Is a directory"),
    ],
)
def test_a_mistake_is_a_sentence(place: Place, words: tuple[str, ...], told: str) -> None:
    ran = run(place, "", "go", *words)
    assert (ran.returncode, ran.stderr) == (2, f"polylect run: {told}\n")


def test_what_a_run_has_started_ends_with_it_even_if_it_is_killed_p1(place: Place) -> None:
    sleepers = Sleepers(place)
    args = json.dumps(sleepers.command())
    script = f'[[reply]]\nsay = [{{ call = "Bash", id = "c1", args = {{ command = {args} }} }}]\n'
    place.configure('[sandbox]\nmode = "off"\n')  # or the fifo would be out of reach
    with subprocess.Popen(argv(place, script, "go", "--yes"), env=place.env, stderr=subprocess.DEVNULL) as host:
        sleepers.wait_until_started()
        assert sleepers.pids()
        host.kill()
        sleepers.wait_until_gone()


def test_what_an_extension_prints_is_not_taken_for_the_answer(place: Place, tmp_path: Path) -> None:
    folder = place.settings.parent / "extensions"
    folder.mkdir(parents=True)
    (folder / "chatty.py").write_text("def extend(polylect):\n    print('I am an extension')\n")
    ran = run(place, '[[reply]]\ntext = "{prompt}!"\n', "hello")
    assert (ran.returncode, ran.stdout) == (0, "hello!\n")
    assert "I am an extension" in ran.stderr


@pytest.mark.parametrize("act", ["polylect.notify('two')", "return 'two'"])
@pytest.mark.parametrize("engine", ["polylect", "polylect-omp"])
def test_notices_that_answer_a_command_are_the_answer_and_others_are_on_stderr(
    place: Place, engine: str, act: str
) -> None:
    folder = place.settings.parent / "extensions"
    folder.mkdir(parents=True)
    (folder / "todo.py").write_text(
        f"def extend(polylect):\n    @polylect.command('todo')\n    def todo(words):\n        {act}\n"
    )
    (folder / "broken.py").write_text("def extend(:\n")
    ran = run(place, WRITES, "/todo", "--engine", engine)
    assert (ran.returncode, ran.stdout) == (0, "two\n")
    assert "broken.py is not used as it should be: SyntaxError" in ran.stderr
    ran = run(place, WRITES, "/todo", "--engine", engine, "--output", "json")
    assert json.loads(ran.stdout)["text"] == "two"


def test_a_run_can_trust_its_workspace_and_name_settings_and_extensions(place: Place, tmp_path: Path) -> None:
    project = place.workspace / ".polylect" / "config.toml"
    project.parent.mkdir()
    project.write_text('[tools]\nallow = ["Write"]\n')
    assert run(place, WRITES, "go", "--trust-workspace").returncode == 0
    assert (place.workspace / "made.txt").exists()
    (tmp_path / "more.toml").write_text('[tools]\ndeny = ["Write"]\n')
    (tmp_path / "more.py").write_text("def extend(polylect):\n    print('I am an extension')\n")
    words = ("--trust-workspace", "--config", str(tmp_path / "more.toml"), "--extension", str(tmp_path / "more.py"))
    ran = run(place, WRITES, "go", *words)
    assert ran.returncode == 0
    assert "denied: Write made.txt: the rule Write denies it" in ran.stderr
    assert "I am an extension" in ran.stderr


def test_a_run_that_cannot_start_its_engine_says_why(place: Place) -> None:
    ran = run(place, WRITES, "go", "--resume", "no-such-session")
    assert ran.returncode == 78
    assert "no-such-session" in ran.stderr


def test_streams_that_are_closed_are_no_reason_to_break_down(place: Place) -> None:
    for closed, words in (("<&-", "-"), (">&-", "hello"), ("<&- >&- 2>&-", "hello")):
        line = f"{shlex.join(argv(place, WRITES, words, '--yes'))} {closed}"
        ran = subprocess.run(["sh", "-c", line], env=place.env, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (2 if words == "-" else 0, "")
        assert "Traceback" not in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(place: Place) -> None:
    with open("/dev/full", "w") as full:
        words = argv(place, WRITES, "go", "--yes")
        ran = subprocess.run(words, env=place.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)


def test_a_reader_that_goes_away_ends_the_work(place: Place) -> None:
    script = '[[reply]]\nsay = ["some words", { wait = 600 }]\n'
    words = argv(place, script, "go", "--output", "jsonl")
    child = subprocess.Popen(words, env=place.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child:
        assert child.stdout
        assert child.stderr
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == ""


def test_progress_on_a_terminal_that_has_no_width_leaves_nothing_behind(place: Place) -> None:
    ours, theirs = os.openpty()
    words = argv(place, '[[reply]]\ntext = "{prompt}!"\n', "hello")
    child = subprocess.run(words, env=place.env, stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    drawn = b""
    with suppress(OSError), open(ours, "rb", buffering=0) as terminal:  # EIO where nobody has the other end any more
        while data := terminal.read(65536):
            drawn += data
    assert child.stdout == b"hello!\n"
    assert drawn.endswith(b"\r\x1b[2K")
