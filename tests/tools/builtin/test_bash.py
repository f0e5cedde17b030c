"""Bash: what ran, how it ended, what it said."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use
from machine import PATIENCE, slowness, within
from polylect.tools.builtin.bash import MOST, PROGRESS_LINES, PROGRESS_MOST
from polylect.tools.process import output_spool
from polylect.tools.standard import standard_tools


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


def test_exit_code_and_both_streams_are_shown(context: FolderContext, tmp_path: Path) -> None:
    result = use(context, "Bash", command="pwd; echo oops >&2", description="look around")
    assert (result.ok, result.output) == (True, f"Exit code: 0\nSTDOUT:\n{tmp_path}\n\nSTDERR:\noops\n")


def test_a_failing_command_is_an_error(context: FolderContext) -> None:
    result = use(context, "Bash", command="exit 7")
    assert (result.ok, result.output) == (False, "Exit code: 7\nSTDOUT:\n\nSTDERR:\n")
    assert use(context, "Bash", command="kill -9 $$").output.startswith("Exit code: 137\n")


def test_I4_a_command_that_reads_gets_nothing_and_ends_at_once(context: FolderContext) -> None:
    with within(5):
        assert use(context, "Bash", command="cat").ok


def test_only_the_environment_that_was_given_is_there(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    context.env = {"PATH": context.env["PATH"], "ONLY": "this"}
    output = use(context, "Bash", command="env; tr '\\0' '\\n' </proc/$PPID/environ").output
    assert "ONLY=this" in output
    assert "sk-secret" not in output


def test_a_timeout_keeps_what_was_printed(context: FolderContext) -> None:
    most = 200 * round(slowness())  # within which it prints
    result = use(context, "Bash", command="echo early; sleep 60", timeout=most)
    assert (result.ok, result.output) == (False, f"Command timed out after {most}ms\nSTDOUT:\nearly\n\nSTDERR:\n")


def test_output_is_shown_while_it_comes_in_whole_lines(context: FolderContext, tmp_path: Path) -> None:
    """The command waits for a file that appears only once its first line was shown."""

    class Eager(FolderContext):
        def progress(self, text: str) -> None:
            super().progress(text)
            (tmp_path / "heard").touch()

    eager = Eager(tmp_path)
    command = "echo first; until [ -e heard ]; do read -t 0.01 </dev/zero; done; printf 'sec'; printf 'ond\\nrest'"
    assert use(eager, "Bash", command=command, timeout=60_000).ok
    assert eager.shown[0] == "first\n"
    assert "".join(eager.shown) == "first\nsecond\nrest"


def test_long_output_is_cut_in_the_middle_and_kept_whole_beside(context: FolderContext) -> None:
    result = use(context, "Bash", command="echo BEGIN; seq 20000; echo END; echo failed >&2; exit 1")
    assert not result.ok
    assert len(result.output) < MOST + 300
    assert result.output.startswith("Exit code: 1\nSTDOUT:\nBEGIN\n1\n")
    assert result.output.endswith("20000\nEND\n\nSTDERR:\nfailed\n")
    (whole,) = context.spilled
    assert whole.read_text() == "\n".join(["BEGIN", *map(str, range(1, 20001)), "END", ""])
    left_out = whole.stat().st_size - (MOST - len("failed\n")) // 2 * 2
    assert f"\n\n... [truncated {left_out} bytes; all of it is in {whole}] ...\n\n" in result.output
    *lines, note, _ = "".join(context.shown).split("\n")
    assert lines == ["BEGIN", *map(str, range(1, PROGRESS_LINES))]
    assert note == "(more than can be shown while it runs)"


def test_long_lines_are_shown_while_it_runs_up_to_a_size(context: FolderContext) -> None:
    assert use(context, "Bash", command="seq -f '%0100.0f' 1000").ok
    *lines, note, _ = "".join(context.shown).split("\n")
    assert PROGRESS_MOST - 101 < len("\n".join(lines)) <= PROGRESS_MOST
    assert lines == [f"{number:0100}" for number in range(1, len(lines) + 1)], "whole lines only"
    assert note == "(more than can be shown while it runs)"


def test_two_long_streams_share_the_room(context: FolderContext) -> None:
    result = use(context, "Bash", command="seq 1 10000; seq 50001 60000 >&2")
    out, err = result.output.split("\nSTDERR:\n")
    assert out.endswith("\n10000\n")
    assert err.startswith("50001\n")
    assert err.endswith("\n60000\n")
    assert len(result.output) < MOST + 600
    assert sorted(path.stat().st_size for path in context.spilled) == [48894, 60000]


FLOOD = r"""
import resource, sys
from pathlib import Path
from doubles_tools import FolderContext, use

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before, context = peak(), FolderContext(Path(sys.argv[1]))
result = use(context, "Bash", command="yes z | head -c 100000000; echo END")
assert result.output.endswith("z\nEND\n\nSTDERR:\n"), result.output[-100:]
(whole,) = context.spilled
print(whole.stat().st_size, peak() - before)
whole.unlink()
"""


def test_100_MB_of_output_are_whole_in_their_file_and_never_in_memory(tmp_path: Path) -> None:
    """In a process of its own, whose memory can be looked at."""
    argv = [sys.executable, "-c", FLOOD, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    size, grown = map(int, done.stdout.split())
    assert size == 100_000_004
    assert grown < 10_000, f"{grown} KiB"


def test_what_does_not_fit_on_the_disk_is_said(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_spool, "MOST_ON_DISK", 1_000_000)
    output = use(context, "Bash", command="head -c 2000000 /dev/zero | tr '\\0' 'z'").output
    assert f"; the first 1000000 bytes of it are in {context.spilled[0]}]" in output
    assert context.spilled[0].stat().st_size == 1_000_000


def test_a_full_disk_is_said_and_the_command_goes_on(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "spill", lambda text: "/dev/full")
    result = use(context, "Bash", command="seq 20000; echo END")
    assert result.ok
    assert "; it could not be kept: No space left on device]" in result.output
    assert result.output.endswith("END\n\nSTDERR:\n")


def test_a_cancelled_command_is_gone(context: FolderContext, tmp_path: Path) -> None:
    async def main() -> None:
        started = asyncio.Event()
        context.progress = lambda text: started.set()  # type: ignore[method-assign]
        bash = standard_tools()["Bash"]
        call = asyncio.ensure_future(bash.run({"command": "echo go; sleep 60; touch survived"}, context))
        await asyncio.wait_for(started.wait(), PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await context.processes.close()

    asyncio.run(main())
    assert not (tmp_path / "survived").exists()


def test_a_nul_in_a_command_is_refused(context: FolderContext) -> None:
    assert not use(context, "Bash", command="echo \0").ok
