"""The terminal conversation, as a person at a terminal has it: keys in, a screen out."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine_process import Place, eventually
from machine import PATIENCE

SCRIPT = """
[[reply]]
when.prompt = "write"
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "new line" } }]

[[reply]]
when.prompt = "wait"
say = [{ call = "Bash", id = "c2", args = { command = "touch began; sleep 60" } }]

[[reply]]
when.prompt = "both"
say = [
    { call = "Write", id = "c3", args = { file_path = "one.txt", content = "first" } },
    { call = "Write", id = "c4", args = { file_path = "two.txt", content = "second" } },
]

[[reply]]
when.prompt = "add"
when.step = 1
say = [{ call = "Add", id = "c5", args = {} }]

[[reply]]
text = "**Bold** answer to {prompt}"
"""
EXTENSION = """
def extend(polylect):
    @polylect.tool("Add", "Adds.", {}, category="info")
    async def add(args):
        return "the sum is 2" if await polylect.confirm("Add?") else "no"
"""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?|\x1b\][^\x07]*\x07")


class Terminal:
    """A person at a terminal: types, and looks for words on the screen."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = b""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def sees(self, words: str) -> str:
        """Looks until they are there, and returns what came before them; all of that is forgotten."""
        deadline = time.monotonic() + PATIENCE
        while words not in (screen := self._screen()):
            left = deadline - time.monotonic()
            assert left > 0, f"{words!r} is not on the screen: {screen[-2000:]!r}"
            if select.select([self._descriptor], [], [], left)[0]:
                self._seen += os.read(self._descriptor, 65536)
        before, _, after = screen.partition(words)
        self._seen = after.encode(errors="surrogateescape")
        return before

    def _screen(self) -> str:
        """Read anew each time: a piece may end within a code, or within a character."""
        return _CODES.sub("", self._seen.decode(errors="surrogateescape"))


@contextmanager
def chat(place: Place, *words: str) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    file = place.workspace.parent / "script.toml"
    file.write_text(SCRIPT)
    argv = [sys.executable, "-m", "polylect", "chat", "--provider", "scripted", "--script", str(file)]
    ours, theirs = pty.openpty()
    env = {**place.env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "100", "LINES": "40"}
    child = subprocess.Popen(
        [*argv, "--cwd", str(place.workspace), *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(ours), child
    finally:
        child.kill()
        child.wait()
        os.close(ours)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_prompt_is_answered_in_words_a_call_is_allowed_by_a_key_and_ctrl_d_ends_it(place: Place) -> None:
    with chat(place) as (terminal, child):
        terminal.sees("/help for help")
        terminal.sees("›")
        terminal.type("hello\r")
        terminal.sees("Bold answer to hello")
        terminal.sees("tokens in")
        terminal.sees("›")
        terminal.type("write\r")
        terminal.sees("+new line")
        terminal.sees("allow it?")
        terminal.type("y")
        terminal.sees("answer to write")
        assert (place.workspace / "made.txt").read_text() == "new line"
        terminal.sees("›")
        terminal.type("\x04")
        assert child.wait(PATIENCE) == 0


def test_no_is_one_key_too_and_commands_are_the_terminals_own(place: Place) -> None:
    with chat(place) as (terminal, child):
        terminal.sees("›")
        terminal.type("write\r")
        terminal.sees("allow it?")
        terminal.type("n")
        terminal.sees("denied")
        terminal.sees("›")
        terminal.type("/mode force\r")
        terminal.sees("mode: force")
        terminal.sees("›")
        terminal.type("/compact\r")
        terminal.sees("nothing to compact")  # which is the engine's to say
        terminal.sees("›")
        terminal.type("/shell ls\r")
        terminal.sees("[0]")
        terminal.sees("›")
        terminal.type("/quit\r")
        assert child.wait(PATIENCE) == 0
        assert not (place.workspace / "made.txt").exists()


def test_ctrl_c_stops_the_turn_and_not_the_chat(place: Place) -> None:
    with chat(place, "--mode", "force") as (terminal, child):
        terminal.sees("›")
        terminal.type("wait\r")
        eventually((place.workspace / "began").exists)
        os.killpg(child.pid, signal.SIGINT)
        terminal.sees("cancelled")
        terminal.sees("›")
        terminal.type("hello\r")
        terminal.sees("answer to hello")


def test_quitting_a_turn_closes_all_that_it_asks_and_shows_its_end(place: Place) -> None:
    with chat(place) as (terminal, _):
        terminal.sees("›")
        terminal.type("both\r")
        terminal.sees("allow it?")
        terminal.type("q")
        end = terminal.sees("tokens in")
        assert "cancelled" in end
        assert "+second" not in end  # the second question
        assert "no ask" not in terminal.sees("›")
        terminal.type("hello\r")
        terminal.sees("answer to hello")
        assert not list(place.workspace.glob("*.txt"))


def test_ctrl_c_twice_at_the_prompt_ends_the_chat_and_once_does_not(place: Place) -> None:
    with chat(place) as (terminal, child):
        terminal.sees("›")
        terminal.type("\x03")
        terminal.sees("Ctrl-C again ends the chat")
        terminal.sees("›")
        terminal.type("hello\r")
        terminal.sees("answer to hello")
        terminal.sees("›")
        terminal.type("\x03")
        terminal.sees("Ctrl-C again ends the chat")
        terminal.sees("›")
        terminal.type("some words")
        terminal.sees("some words")
        terminal.type("\x03")  # which empties the line
        terminal.sees("Ctrl-C again ends the chat")
        terminal.sees("›")
        terminal.type("\x03")
        assert child.wait(PATIENCE) == 128 + signal.SIGINT


def test_ctrl_c_twice_in_a_turn_ends_the_chat(place: Place) -> None:
    with chat(place, "--mode", "force") as (terminal, child):
        terminal.sees("›")
        terminal.type("wait\r")
        eventually((place.workspace / "began").exists)
        os.killpg(child.pid, signal.SIGINT)
        terminal.sees("Ctrl-C again ends the chat")
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(PATIENCE) == 128 + signal.SIGINT


def test_help_lists_what_the_engine_has(place: Place) -> None:
    with chat(place, "--engine", "polylect-jsonstream") as (terminal, _):
        terminal.sees("›")
        terminal.type("/help\r")
        text = terminal.sees("Ctrl-C stops")
        assert "default, auto_edit, force, plan, dont_ask" in text
        assert "/shell" not in text
        terminal.sees("›")
        terminal.type("/mode plan\r")
        terminal.sees("mode: plan")
    with chat(place, "--engine", "polylect-omp") as (terminal, _):
        terminal.sees("›")
        terminal.type("/help\r")
        text = terminal.sees("Ctrl-C stops")
        assert "/shell CMD" in text
        assert "/mode" not in text.partition("/model NAME")[2]


def test_one_goes_to_another_session_and_comes_back_if_there_is_none(place: Place) -> None:
    with chat(place) as (terminal, _):
        terminal.sees("›")
        terminal.type("hello\r")
        terminal.sees("answer to hello")
        terminal.sees("›")
        [session] = [folder.name for folder in place.sessions.iterdir() if folder.is_dir()]
        terminal.type("/new\r")
        terminal.sees("session ")
        terminal.sees("›")
        terminal.type("/sessions\r")
        terminal.sees(f"{session}  2 messages  hello")
        terminal.sees("›")
        terminal.type(f"/resume {session}\r")
        terminal.sees(f"session {session}")
        terminal.sees("›")
        terminal.type("/resume nowhere\r")
        terminal.sees("'nowhere' not found")
        assert "/help for help" not in terminal.sees("›")  # the engine was not started again
        terminal.type("/sessions\r")
        terminal.sees(f"{session}  2 messages  hello")


def test_a_command_that_is_typed_at_a_question_is_no_answer_to_it(place: Place) -> None:
    with chat(place) as (terminal, _):
        terminal.sees("›")
        terminal.type("write\r")
        terminal.sees("allow it?")
        terminal.type("/compact\r")
        terminal.sees("/compact is no answer: press y, n, a or q")
        terminal.sees("allow it?")
        assert not (place.workspace / "made.txt").exists()
        terminal.type("n")
        terminal.sees("denied")


@pytest.mark.parametrize("keys", ["\x04", "/quit\r"])
def test_ctrl_d_and_quit_at_a_question_end_the_chat(place: Place, keys: str) -> None:
    with chat(place) as (terminal, child):
        terminal.sees("›")
        terminal.type("write\r")
        terminal.sees("allow it?")
        terminal.type(keys)
        terminal.sees("cancelled")
        assert child.wait(PATIENCE) == 0
        assert not (place.workspace / "made.txt").exists()


def test_a_confirmation_says_which_keys_answer_it(place: Place) -> None:
    extensions = place.settings.parent / "extensions"
    extensions.mkdir(parents=True)
    (extensions / "ask.py").write_text(EXTENSION)
    with chat(place, "--engine", "polylect-omp") as (terminal, _):
        terminal.sees("›")
        terminal.type("add\r")
        terminal.sees("allow it?")
        terminal.type("y")
        terminal.sees("Add?")
        terminal.sees("[y]es  [n]o  [q]uit the turn")
        terminal.type("y")
        terminal.sees("the sum is 2")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(place: Place, number: signal.Signals) -> None:
    with chat(place) as (terminal, child):
        terminal.sees("›")
        terminal.type("write\r")
        terminal.sees("allow it?")
        child.send_signal(number)
        assert child.wait(PATIENCE) == 128 + number


@pytest.mark.parametrize(("words", "code"), [(("--engine", "codex"), 2), (("--resume", "nowhere"), 78)])
def test_what_keeps_it_from_beginning_is_told_by_its_exit_code(place: Place, words: tuple[str, ...], code: int) -> None:
    with chat(place, *words) as (terminal, child):
        terminal.sees("polylect chat: ")
        assert child.wait(PATIENCE) == code


def test_without_a_terminal_it_says_what_to_use_instead(place: Place) -> None:
    argv = [sys.executable, "-m", "polylect", "chat"]
    ran = subprocess.run(argv, env=place.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "polylect run" in ran.stderr
