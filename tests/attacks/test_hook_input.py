"""What a hook judges is what the engine wrote. No command can change it on its way, and nothing of it stays behind.

`POLYLECT_ATTACK_TRIES` says how many calls are judged while a command tries to rewrite what the hook reads.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from attacks.test_deafness import call, step
from attacks.tries import tries
from doubles_tools import watched
from engine_process import Place, message
from machine import PATIENCE
from polylect.extensions.shell_hooks import MOST_RUNNING

COMMAND = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "echo forbidden" } }]

[[reply]]
text = "done"
"""

TRIES = tries(20)
AT_ONCE = 100
"""Calls of one reply: fewer than are refused for being too many."""
REWRITE = (
    'echo begun > begun; while :; do for file in "$TMPDIR"/polylect-*; do echo {} > "$file"; done; done 2>/dev/null'
)
MODULES = ("guard.py", "bin/guard.py")
ANSWER = '[[reply]]\ntext = "done"\n'


class HookedPlace(Place):
    """A place whose engines have one hook, and a folder for temporary files that commands can write."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "TMPDIR": str(self.temporary)}

    def hook(self, event: str, command: str, mode: str = "auto") -> None:
        self.configure(f"[sandbox]\nmode = {mode!r}\n[[hooks.{event}]]\ncommand = {json.dumps(command)}\n")


def race() -> str:
    """A script: a command that rewrites whatever is put where commands can write, and calls that a hook denies."""
    attack = {"command": REWRITE, "run_in_background": True}
    steps = [call("Bash", **attack), call("Bash", command="cat begun")]
    sizes = [min(AT_ONCE, TRIES - start) for start in range(0, TRIES, AT_ONCE)]
    steps += [call("Bash", size, command="echo forbidden") for size in sizes]
    return "".join(step(number, one) for number, one in enumerate(steps, 1)) + ANSWER


def test_no_command_changes_what_a_hook_is_about_to_judge(tmp_path: Path) -> None:
    with HookedPlace(tmp_path) as place:
        os.mkfifo(place.workspace / "begun")
        place.hook("PreToolUse", "grep -q forbidden && echo no >&2 && exit 2")
        engine = place.started("--force", script=race())
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert [frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"] == ["no"] * TRIES
    assert not [frame for frame in frames if frame.get("output") == "forbidden\n"]


def test_a_hooks_input_has_no_name_by_which_a_command_could_open_it(tmp_path: Path) -> None:
    with HookedPlace(tmp_path) as place:
        place.hook("PreToolUse", 'ls -A "$TMPDIR" > listing; grep -q forbidden && echo no >&2 && exit 2')
        engine = place.started("--force", script=COMMAND)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert (place.workspace / "listing").read_text() == ""
    assert [frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"] == ["no"]


@pytest.mark.parametrize("attempt", ["echo x >&0", "echo x > /dev/stdin", "truncate -s 0 /proc/self/fd/0"])
def test_a_hooks_input_cannot_be_changed_even_by_who_has_it(tmp_path: Path, attempt: str) -> None:
    with HookedPlace(tmp_path) as place:
        place.hook("PreToolUse", f"({attempt}) 2> failure; cat > told.json")
        engine = place.started("--force", script=COMMAND)
        engine.send(message("go"))
        engine.until("stream_end")
    assert json.loads((place.workspace / "told.json").read_text())["tool_input"] == {"command": "echo forbidden"}
    assert (place.workspace / "failure").read_text()


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_ten_megabytes_reach_a_hook_whole(tmp_path: Path, mode: str) -> None:
    with HookedPlace(tmp_path) as place:
        place.hook("UserPromptSubmit", "cat > told.json", mode)
        engine = place.started(script=ANSWER)
        engine.send(message("x" * 10_000_000))
        engine.until("stream_end")
    assert json.loads((place.workspace / "told.json").read_text())["prompt"] == "x" * 10_000_000


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize(
    "hook", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?", f": {'x' * 200_000}"], ids=lambda hook: hook[:8]
)
def test_a_call_whose_guard_was_killed_or_could_not_be_started_is_not_run(tmp_path: Path, hook: str, mode: str) -> None:
    """A command can use up all memory or processes. 200 000 bytes are more than one argument of a program may have."""
    with HookedPlace(tmp_path) as place:
        place.hook("PreToolUse", hook, mode)
        engine = place.started("--force", script=step(1, call("Write", file_path="made", content="x")) + ANSWER)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert [frame["type"] for frame in frames if frame["type"].startswith("tool_")] == ["tool_cancelled"]
    assert not (place.workspace / "made").exists()


@pytest.mark.parametrize("hook", ["guard", "python3 -c 'import guard'", "python3 -m guard"])
def test_no_program_or_module_of_the_workspace_is_taken_for_a_hook(tmp_path: Path, hook: str) -> None:
    class TrapPlace(HookedPlace):
        @property
        def env(self) -> dict[str, str]:
            folder, env = str(self.workspace / "bin"), super().env
            return {**env, "PATH": f"{folder}:{env['PATH']}", "PYTHONPATH": f"{folder}:{env['PYTHONPATH']}"}

    with TrapPlace(tmp_path) as place:
        (place.workspace / "bin").mkdir()
        for name, text in (("bin/guard", "#!/bin/sh\n: > sprung\n"), *((n, "open('sprung', 'w')\n") for n in MODULES)):
            (place.workspace / name).write_text(text)
        (place.workspace / "bin" / "guard").chmod(0o755)
        place.hook("UserPromptSubmit", f"{hook}; : > ran")
        engine = place.started(script=ANSWER)
        engine.send(message("go"))
        engine.until("stream_end")
    assert (place.workspace / "ran").exists()
    assert not (place.workspace / "sprung").exists()


def test_a_hook_that_does_not_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    with HookedPlace(tmp_path) as place:
        place.hook("UserPromptSubmit", "echo seen > seen")
        engine = place.started(script=ANSWER)
        engine.send(message("x" * 1_000_000))
        assert engine.until("stream_end")
    assert (place.workspace / "seen").exists()


def test_nothing_stays_behind_when_the_engine_is_killed_during_a_hook(tmp_path: Path) -> None:
    with HookedPlace(tmp_path) as place:
        started = place.workspace / "started"
        os.mkfifo(started)
        place.hook("UserPromptSubmit", "echo $$ > started; sleep 600")
        engine = place.started(script=ANSWER)
        engine.send(message("go"))
        started.read_text()  # until the hook runs
        os.kill(engine.pid, signal.SIGKILL)
        with watched([engine.pid]) as all_end_within:
            assert all_end_within(PATIENCE)
    assert list(place.temporary.iterdir()) == []


def test_forty_calls_do_not_start_forty_hooks_at_once(tmp_path: Path) -> None:
    """Each hook leaves its mark while it runs, and counts those that are there. All of them judge in the end."""
    with HookedPlace(tmp_path) as place:
        (place.workspace / "running").mkdir()
        count = "f=$(mktemp running/XXXX); sleep 0.2; ls running | wc -l >> counts; rm $f; grep -q forbidden && exit 2"
        place.hook("PreToolUse", count)
        engine = place.started("--force", script=step(1, call("Bash", 40, command="echo forbidden")) + ANSWER)
        engine.send(message("go"))
        frames = engine.until("stream_end")
        counts = [int(line) for line in (place.workspace / "counts").read_text().split()]
    assert len([frame for frame in frames if frame["type"] == "tool_cancelled"]) == len(counts) == 40
    assert max(counts) <= MOST_RUNNING
