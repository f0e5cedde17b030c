"""Commands in the background: they outlive their call, and never the session."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from doubles_tools import FolderContext, processes_with, with_worker
from polylect.tools.builtin import bash_output
from polylect.tools.builtin.bash import Bash
from polylect.tools.builtin.bash_output import BashOutput
from polylect.tools.builtin.kill_bash import KillBash
from polylect.tools.process import background_jobs
from polylect.tools.process.background_jobs import Background
from polylect.vocab.ports import ToolReturn


class Session:
    """The three tools and what they share."""

    def __init__(self, context: FolderContext) -> None:
        self.jobs = Background()
        self._context = context
        self.bash, self._output, self._kill = Bash(self.jobs), BashOutput(self.jobs), KillBash(self.jobs)

    async def start(self, command: str) -> ToolReturn:
        return await self.bash.run({"command": command, "run_in_background": True}, self._context)

    async def look(self, id: str = "", **more: object) -> ToolReturn:
        return await self._output.run({"bash_id": id, **more}, self._context)

    async def kill(self, id: str) -> ToolReturn:
        return await self._kill.run({"bash_id": id}, self._context)

    async def until(self, id: str, words: str) -> str:
        """What was shown, taken together, once these words were in it."""
        shown = ""
        while words not in shown:
            shown += (await self.look(id, wait=10_000)).output
        return shown

    async def ended(self, id: str) -> None:
        """Without a look at its output."""
        await asyncio.wait([self.jobs.find(id).task])

    async def close(self) -> None:
        await self.bash.close()
        await self._context.processes.close()


def converse(context: FolderContext, talk: Callable[[Session], Awaitable[None]]) -> None:
    async def main() -> None:
        session = Session(context)
        try:
            await talk(session)
        finally:
            await session.close()
            await context.worker.close()

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


def test_it_answers_at_once_and_shows_only_what_is_new(context: FolderContext, tmp_path: Path) -> None:
    async def talk(session: Session) -> None:
        command = "echo one; echo oops >&2; until [ -e go ]; do sleep 0.01; done; echo two; exit 3"
        started = await session.start(command)
        assert started.ok
        assert started.output.startswith("Running in the background as bash_1.")
        assert started.metadata
        assert started.metadata["pid"] > 0
        assert "(running for " in await session.until("bash_1", "\noops\n")
        assert (await session.look("bash_1")).output.endswith("\nSTDOUT:\n\nSTDERR:\n")
        (tmp_path / "go").touch()
        last = await session.until("bash_1", "(exit code 3)")
        assert "two\n" in last
        assert "one\n" not in last

    converse(context, talk)


def test_it_outlives_its_call_but_not_the_session(context: FolderContext) -> None:
    marker = f"{os.getpid()}.25"

    async def talk(session: Session) -> None:
        await session.start(f"setsid sleep {marker} & sleep {marker} & echo up; wait")
        await session.until("bash_1", "\nup\n")
        assert processes_with(marker)
        await session.bash.leave_session()
        assert not processes_with(marker)
        assert (await session.look()).output == "No command was started in the background."

    converse(context, talk)


def test_the_end_of_all_processes_is_enough_to_end_it(context: FolderContext) -> None:
    """Whoever forgets to close the tool leaves nothing behind either."""
    marker = f"{os.getpid()}.5"

    async def main() -> None:
        session = Session(context)
        await session.start(f"echo up; exec sleep {marker}")
        await session.until("bash_1", "\nup\n")
        await context.processes.close()
        await session.ended("bash_1")

    asyncio.run(asyncio.wait_for(main(), 30))
    assert not processes_with(marker)


def test_killing_it_ends_what_it_started(context: FolderContext) -> None:
    marker = f"{os.getpid()}.75"

    async def talk(session: Session) -> None:
        await session.start(f"echo up; sleep {marker} & wait")
        await session.until("bash_1", "\nup\n")
        assert (await session.kill("bash_1")).output.startswith("bash_1 (ended by KillBash")
        assert not processes_with(marker)
        assert (await session.kill("bash_1")).ok
        assert (await session.look()).output.startswith("bash_1 (ended by KillBash")

    converse(context, talk)


def test_a_filter_shows_the_new_lines_that_match(context: FolderContext) -> None:
    async def talk(session: Session) -> None:
        await session.start("seq 30; echo warn 7 >&2; echo 7 no")
        await session.ended("bash_1")
        shown = (await session.look("bash_1", filter="7$")).output
        assert shown.endswith("STDOUT:\n7\n17\n27\n\nSTDERR:\nwarn 7\n")
        assert (await session.look("bash_1")).output.endswith("STDOUT:\n\nSTDERR:\n"), "the others count as seen"

    converse(context, talk)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "not a regular expression"),
        ("(" * 2000 + ")" * 2000, "not a regular expression: too deeply nested"),
        ("(a|aa)+$", "took too long"),
    ],
    ids=["wrong", "deep", "endless"],
)
def test_a_filter_that_is_wrong_or_never_ends_is_a_fault(
    context: FolderContext, monkeypatch: pytest.MonkeyPatch, pattern: str, words: str
) -> None:
    monkeypatch.setattr(bash_output, "FILTER_TIMEOUT", 0.5)
    with_worker(context)

    async def talk(session: Session) -> None:
        await session.start("printf 'a%.0s' $(seq 5000); echo '!'")
        await session.ended("bash_1")
        result = await session.look("bash_1", filter=pattern)
        assert not result.ok
        assert words in result.output

    converse(context, talk)


def test_a_lot_of_output_is_shown_in_part_and_whole_in_a_file(context: FolderContext) -> None:
    async def talk(session: Session) -> None:
        await session.start("seq 100000; echo END")
        await session.ended("bash_1")
        output = (await session.look("bash_1")).output
        assert len(output) < bash_output.MOST + 500
        assert "STDOUT:\n1\n2\n" in output
        assert "99999\n100000\nEND\n" in output
        assert f"all of it is in {context.spilled[0]}]" in output
        assert context.spilled[0].read_text().count("\n") == 100_001

    converse(context, talk)


def test_there_is_a_limit_and_it_names_what_runs(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jobs, "MOST_RUNNING", 2)
    monkeypatch.setattr(background_jobs, "MOST_KNOWN", 3)

    async def talk(session: Session) -> None:
        assert (await session.look()).output == "No command was started in the background."
        started = await asyncio.gather(*(session.start("sleep 60") for _ in range(3)))
        assert [result.ok for result in started] == [True, True, False]
        assert "bash_1 (running" in started[2].output
        assert "bash_2 (running" in started[2].output
        await asyncio.gather(session.kill("bash_1"), session.kill("bash_2"))
        assert all([(await session.start("sleep 60")).ok for _ in range(2)])
        assert not (await session.look("bash_1")).ok, "the oldest is forgotten"
        assert (await session.look("bash_2")).ok

    converse(context, talk)


def test_a_command_that_cannot_start_and_an_unknown_one_are_faults(context: FolderContext) -> None:
    async def talk(session: Session) -> None:
        assert not (await session.start("echo \0")).ok
        assert (await session.look()).output == "No command was started in the background."
        unknown = await session.look("bash_9")
        assert (unknown.ok, unknown.output) == (False, "There is no background command 'bash_9'. Known ones: none.")
        assert not (await session.kill("bash_9")).ok

    converse(context, talk)
