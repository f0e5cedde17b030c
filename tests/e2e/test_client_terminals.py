"""Bash in a terminal of the host: same limits, every terminal is released, and no host can hold up a turn."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from native_editor import Editor, Reply, calls

AUTO = '[client]\nterminal = "auto"\ntimeout = 0.3\n'
ECHO = ("Bash", {"command": "echo hi"})
SILENT: Reply = None
EXIT: Reply = {"result": {"exit_code": 0, "signal": None}}


class Terminals(Editor):
    """An editor whose only terminal, `t1`, behaves as the test says."""

    def __init__(self, place: Place, script: str, toml: str = AUTO, **replies: Reply) -> None:
        super().__init__(place, script, toml=toml)
        usual: dict[str, Reply] = {
            "create_terminal": {"result": {"terminal": "t1"}},
            "wait_for_terminal_exit": EXIT,
            "terminal_output": {"result": {"output": "hi\n", "truncated": False, "exit_code": 0, "running": False}},
            "kill_terminal": {"result": {}},
            "release_terminal": {"result": {}},
        }
        for method, reply in {**usual, **replies}.items():
            self.answers[method] = lambda params, reply=reply: reply
        self.offer(terminal=True)


def test_a_command_runs_in_the_hosts_terminal(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]))
    (finished,) = editor.turn()
    assert finished["output"] == "Exit code: 0\nSTDOUT:\nhi\n\nSTDERR:\n"
    assert editor.methods() == ["create_terminal", "wait_for_terminal_exit", "terminal_output", "release_terminal"]
    params = editor.asked[0][1]
    assert params["args"] == ["-c", "exec </dev/null\necho hi"]
    assert (params["cwd"], params["command"][:1], params["limit"]) == (str(editor.workspace), "/", 1024 * 1024)
    assert all(params == {"terminal": "t1"} for _, params in editor.asked[1:])


@pytest.mark.parametrize(
    ("toml", "used"),
    [
        ("", False),
        ('[sandbox]\nmode = "off"\n', True),
        ('[sandbox]\nmode = "off"\n[client]\nterminal = "off"\n', False),
        ('[client]\nterminal = "auto"\n', True),
    ],
)
def test_it_is_off_by_default_unless_there_is_no_sandbox(place: Place, toml: str, used: bool) -> None:
    editor = Terminals(place, calls([ECHO]), toml)
    assert editor.turn()[0]["output"].startswith("Exit code: 0\nSTDOUT:\nhi\n")
    assert bool(editor.asked) is used


def test_commands_in_the_background_stay_in_our_custody(place: Place) -> None:
    editor = Terminals(place, calls([("Bash", {"command": "echo hi", "run_in_background": True})]))
    assert editor.turn()[0]["output"].startswith("Running in the background as bash_1.")
    assert editor.asked == []


def test_a_rule_that_denies_the_command_comes_first(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), AUTO + '[tools]\ndeny = ["Bash(echo:*)"]\n')
    assert editor.turn()[0]["outcome"] == "denied"
    assert editor.asked == []


def test_output_is_shown_while_it_comes_and_a_long_one_is_kept_in_a_file(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), wait_for_terminal_exit=SILENT)
    texts = ["begin\n", "begin\nmore\n", "begin\nmore\n" + "x" * 200_000 + "end\n"]
    editor.answers["terminal_output"] = lambda params: {
        "result": {"output": texts[min(len(polls), 2)], "truncated": False}
    }
    polls: list[Any] = []
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    call = editor.until_asked("wait_for_terminal_exit")
    for _ in range(2):
        editor.until_asked("terminal_output")
        polls.append(1)
    editor.until("tool_output")
    editor.reply(call, result={"exit_code": 3})
    finished = editor.until("tool_finished")
    shown = "".join(frame["text"] for frame in editor.frames if frame["type"] == "tool_output")
    assert shown.startswith("begin\nmore\n")
    assert finished["outcome"] == "error"
    assert finished["output"].startswith("Exit code: 3\nSTDOUT:\nbegin\nmore\nxxx")
    assert len(finished["output"]) < 60_000
    path = re.search(r"all of it is in (\S+)\]", finished["output"])
    assert path
    assert Path(path[1]).read_text() == texts[2]
    assert editor.methods()[-1] == "release_terminal"


def test_output_whose_beginning_is_missing_is_called_so(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), terminal_output={"result": {"output": "end\n", "truncated": True}})
    output = editor.outputs()[0]
    assert output == "Exit code: 0\nSTDOUT:\nend\n\nSTDERR:\n(The host has kept only the end of the output.)\n"


def test_a_screen_that_is_redrawn_is_shown_as_it_is_in_the_end(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), wait_for_terminal_exit=SILENT)
    texts = iter(["10%\n", "100%\n"])
    editor.answers["terminal_output"] = lambda params: {"result": {"output": next(texts)}}
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    call = editor.until_asked("wait_for_terminal_exit")
    editor.until("tool_output")
    editor.reply(call, result={"exit_code": 0})
    output = editor.until("tool_finished")["output"]
    assert output == "Exit code: 0\nSTDOUT:\n10%\n\n(In the end the terminal shows:)\n100%\n\nSTDERR:\n"


def test_a_command_that_a_signal_ended_has_failed(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), wait_for_terminal_exit={"result": {"signal": "SIGSEGV"}})
    (finished,) = editor.turn()
    assert (finished["outcome"], finished["output"][:18]) == ("error", "Exit code: 139\nSTD")


def test_a_command_that_takes_too_long_is_killed_and_its_output_shown(place: Place) -> None:
    slow = ("Bash", {"command": "sleep 9", "timeout": 100})
    editor = Terminals(place, calls([slow]), wait_for_terminal_exit=SILENT)
    (finished,) = editor.turn()
    assert finished["output"] == "Command timed out after 100ms\nSTDOUT:\nhi\n\nSTDERR:\n"
    assert editor.methods()[-3:] == ["kill_terminal", "terminal_output", "release_terminal"]


def test_a_cancel_releases_the_terminal_at_once(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), wait_for_terminal_exit=SILENT)
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    editor.until_asked("wait_for_terminal_exit")
    editor.engine.send({"type": "cancel"})
    assert editor.until("turn_ended")["reason"] == "cancelled"
    assert editor.methods()[-1] == "release_terminal"
    ended = [frame["type"] for frame in editor.frames]
    assert ended.index("host_call_ended") < ended.index("turn_ended")


def test_a_terminal_that_comes_after_the_cancel_is_released_too(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), AUTO.replace("0.3", "60"), create_terminal=SILENT)
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    call = editor.until_asked("create_terminal")
    editor.engine.send({"type": "cancel"})
    assert editor.until("turn_ended")["reason"] == "cancelled"
    editor.reply(call, result={"terminal": "late"})
    assert editor.until_asked("release_terminal")["params"] == {"terminal": "late"}


# Hosts that do not do what they should.


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ({"create_terminal": SILENT}, "The host did not run the command: the host did not answer within 0.3 s"),
        ({"create_terminal": {"error": "not now"}}, "The host did not run the command: not now"),
        ({"create_terminal": {"result": {"terminal": 5}}}, "its answer names no terminal"),
        ({"create_terminal": {"result": "t1"}}, "its answer names no terminal"),
        ({"wait_for_terminal_exit": {"error": "lost it"}}, "but then: lost it"),
        ({"terminal_output": SILENT}, "but then: the host did not answer within 0.3 s"),
        ({"terminal_output": {"result": {"output": 7}}}, "what the host says of its output is no text"),
        ({"terminal_output": {"result": {"output": "x" * (70 << 20)}}}, "but then: the host did not answer"),
        (
            {"wait_for_terminal_exit": {"result": [1]}},
            "Exit code: 1\nSTDOUT:\nhi\n\nSTDERR:\n(The host does not say how the command ended.)",
        ),
        (
            {"wait_for_terminal_exit": {"result": {"exit_code": "0"}}},
            "Exit code: 1\nSTDOUT:\nhi\n\nSTDERR:\n(The host does not say how the command ended.)",
        ),
        ({"release_terminal": SILENT}, "Exit code: 0"),
        ({"release_terminal": {"error": "no"}}, "Exit code: 0"),
    ],
)
def test_a_host_that_is_silent_or_lies_costs_a_sentence(place: Place, replies: dict[str, Reply], says: str) -> None:
    editor = Terminals(place, calls([ECHO]), **replies)
    (finished,) = editor.turn()
    assert says in finished["output"]
    assert ("release_terminal" in editor.methods()) is ("create_terminal" not in replies)


def test_a_host_that_is_silent_from_then_on_ends_with_the_commands_time(place: Place) -> None:
    silent = dict.fromkeys(("wait_for_terminal_exit", "terminal_output", "kill_terminal"), SILENT)
    editor = Terminals(place, calls([("Bash", {"command": "sleep 9", "timeout": 100})]), **silent)
    assert editor.outputs() == ["Command timed out after 100ms\nSTDOUT:\n\nSTDERR:\n"]
    assert editor.methods()[-1] == "release_terminal"


def test_more_output_than_was_asked_for_is_cut(place: Place) -> None:
    much = {"result": {"output": "a" * (2 << 20) + "end\n"}}
    output = Terminals(place, calls([ECHO]), terminal_output=much).outputs()[0]
    assert output.endswith("end\n\nSTDERR:\n(The host has kept only the end of the output.)\n")
    assert len(output) < 60_000


def test_a_host_that_goes_away_ends_the_turn(place: Place) -> None:
    editor = Terminals(place, calls([ECHO]), wait_for_terminal_exit=SILENT)
    editor.engine.send({"type": "prompt", "turn": "t1", "text": "go"})
    editor.until_asked("wait_for_terminal_exit")
    frames, code = editor.engine.finish()
    outputs = [frame["output"] for frame in frames if frame["type"] == "tool_finished"]
    assert (code, len(outputs)) == (0, 1)
    assert "but then: the host has closed its end" in outputs[0]
