"""Every command says how it is used, and what was probably meant."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import Place, eventually
from machine import PATIENCE

COMMANDS = {
    "chat": "--resume ID",
    "demo": "--frames",
    "doctor": "--online",
    "engines": "--json",
    "link": "wayland-core",
    "mcp": "polylect mcp test NAME",
    "models": "--json",
    "run": "--session-id NAME",
    "sessions": "polylect sessions export ID --to md|html|json|omp|claude [FILE]",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_the_whole_usage(place: Place, command: str) -> None:
    requested = place.run(command, "--help")
    assert (requested.code, requested.errors) == (0, "")
    assert COMMANDS[command] in requested.out.decode()
    assert place.run(command, "x", "-h").out == requested.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["doctor", "--onlin"], "did you mean --online?"),
        (["doctor", "--qqqqq"], "see polylect doctor --help"),
        (["--json-stream", "--modle", "m"], "did you mean --model?"),
        (["demo", "--frame"], "polylect demo: unknown flag --frame"),
        (["models", "--jsn"], "polylect models: unknown flag --jsn"),
        (["engines", "--jsn"], "polylect engines: unknown flag --jsn"),
        (["sesions"], "did you mean sessions?"),
    ],
)
def test_the_nearest_word_is_offered(place: Place, words: list[str], told: str) -> None:
    ended = place.run(*words)
    assert (ended.code, ended.out) == (2, b"")
    assert told in ended.errors


def test_a_setting_of_the_wrong_kind_is_told_in_plain_words(place: Place) -> None:
    place.configure('[default]\nmax_turns = "ten"\n')
    assert "default.max_turns takes a whole number, not 'ten'\n" in place.run("--json-stream").errors


def test_help_lists_every_approval_mode(place: Place) -> None:
    assert "--approval-mode default|auto_edit|force|plan|dont_ask" in place.run("--help").out.decode()


def test_a_demo_whose_terminal_is_closed_leaves_nothing_behind(place: Place) -> None:
    scratch = place.folder / "scratch"
    scratch.mkdir()
    env = {**place.env, "TMPDIR": str(scratch)}
    words, quiet = [sys.executable, "-m", "polylect", "demo", "--yes"], subprocess.DEVNULL
    with subprocess.Popen(words, env=env, stdout=quiet, stderr=quiet) as demo:
        eventually(lambda: bool(list(scratch.glob("polylect-demo-*/sample-project/*"))))
        assert not list(scratch.glob("polylect-demo-*/sample-project/**/__pycache__"))
        eventually(lambda: bool(list(scratch.glob("polylect-demo-*/state/sessions/*"))))  # it hears signals now
        demo.send_signal(signal.SIGHUP)
        assert demo.wait(PATIENCE) == 128 + signal.SIGHUP
    assert list(scratch.glob("polylect-demo-*")) == []
