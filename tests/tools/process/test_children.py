"""P1 for processes that stay: they are talked to over pipes, and end with whoever opened them."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from doubles_tools import processes_with, watched
from machine import PATIENCE, within
from polylect.tools.process.custody import Custody
from polylect.tools.process.open_child import OpenChild
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Child, Children, Exit

_numbers = count(os.getpid() * 1000 + 500)

# Each of these starts sleepers of length {n}, says so, and does not leave when its input ends.
STAYERS = {
    "it ignores the end of its input": "echo GO; exec sleep {n}",
    "it ignores signals": "trap '' INT TERM HUP; echo GO; while :; do sleep {n}; done",
    "it has children in other sessions": "setsid sleep {n} & (setsid sleep {n} >/dev/null 2>&1 &); echo GO; sleep {n}",
    "it is stuck in writing": "setsid sleep {n} & echo GO; cat /dev/zero",
}


def fresh_length() -> str:
    """A length of sleep that no other process on the machine uses."""
    return f"{next(_numbers)}.5"


class Opener:
    """A custody in use."""

    def __init__(self, custody: Custody) -> None:
        self.custody: Children = custody
        self.errors = b""

    async def bash(self, command: str, *, cwd: str = "/") -> Child:
        return await self.custody.open(
            ("bash", "-c", command), cwd=cwd, env=dict(os.environ), on_error_output=self._take
        )

    def _take(self, data: bytes) -> None:
        self.errors += data


def with_custody(work: Callable[[Opener], Awaitable[None]]) -> None:
    async def main() -> None:
        custody = Custody()
        try:
            await asyncio.wait_for(work(Opener(custody)), 2 * PATIENCE)
        finally:
            await custody.close()

    asyncio.run(main())


async def everything(child: Child) -> bytes:
    output = b""
    while data := await child.read():
        output += data
    return output


async def line(child: Child) -> bytes:
    output = b""
    while not output.endswith(b"\n"):
        data = await child.read()
        assert data, "it ended within a line"
        output += data
    return output


def test_a_child_is_written_to_and_read_from_for_as_long_as_it_stays() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash('pwd; while read -r word; do echo "<$word>"; done', cwd="/usr")
        assert child.pid > 0
        assert await line(child) == b"/usr\n"
        for word in (b"one", b"two"):
            await child.write(word + b"\n")
            assert await line(child) == b"<" + word + b">\n"
        await child.close()
        assert await child.read() == b""

    with_custody(work)


def test_what_it_says_on_stderr_goes_elsewhere() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash("echo problem >&2; echo out; echo more >&2")
        assert await everything(child) == b"out\n"
        await child.close()
        assert opener.errors == b"problem\nmore\n"

    with_custody(work)


def test_a_line_may_be_of_any_length_in_both_directions() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash("exec cat")
        sent = b"x" * 5_000_000 + b"\n"
        writing = asyncio.ensure_future(child.write(sent))
        assert await line(child) == sent
        await writing
        await child.close()

    with_custody(work)


def test_what_is_not_read_is_not_kept_in_memory() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash("echo $$ >&2; exec cat /dev/zero")
        await child.read()
        assert isinstance(child, OpenChild)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(child._buffer) <= 65536
        await child.close()

    with_custody(work)


def test_a_child_that_leaves_when_its_input_ends_is_not_hurried() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash("trap 'echo hurried >&2' INT TERM; echo GO; cat; echo bye >&2")
        assert await child.read() == b"GO\n"
        with within(0.45):
            await child.close()
        assert opener.errors == b"bye\n"

    with_custody(work)


def test_L4_a_child_that_never_stops_writing_leaves_the_loop_free() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash("exec cat /dev/zero")
        assert isinstance(child, OpenChild)
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.ensure_future(turn())
        for read in range(1, 11):
            assert select.select((child._process.pipes["out"],), (), (), 5)[0]  # so that there is nothing to wait for
            assert await child.read()
            assert turns >= read
        turning.cancel()
        await child.close()

    with_custody(work)


@pytest.mark.parametrize("stayer", STAYERS)
def test_P1_closing_a_child_leaves_nobody(stayer: str) -> None:
    async def work(opener: Opener) -> None:
        length = fresh_length()
        child = await opener.bash(STAYERS[stayer].format(n=length))
        assert (await child.read()).startswith(b"GO\n")
        with within(3):
            await child.close()
        assert processes_with(f"sleep {length}") == []
        await child.close()

    with_custody(work)


@pytest.mark.parametrize("stayer", STAYERS)
def test_P1_closing_the_custody_leaves_nobody_and_is_told_to_readers_and_writers(stayer: str) -> None:
    async def work(opener: Opener) -> None:
        length = fresh_length()
        child = await opener.bash(STAYERS[stayer].format(n=length))
        assert (await child.read()).startswith(b"GO\n")
        reading = asyncio.ensure_future(everything(child))
        writing = asyncio.ensure_future(child.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        assert isinstance(opener.custody, Custody)
        await opener.custody.close()
        assert processes_with(f"sleep {length}") == []
        await reading
        with pytest.raises(BrokenPipeError):
            await writing
        await child.close()

    with_custody(work)


ENGINE = """
import asyncio, os, sys
from polylect.tools.process.custody import Custody

async def main():
    custody = Custody()
    child = await custody.open(
        ("bash", "-c", sys.argv[1]), cwd="/", env=dict(os.environ), on_error_output=lambda data: None
    )
    os.write(1, (await child.read())[:3])
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("stayer", STAYERS)
def test_P1_the_death_of_the_engine_is_the_death_of_its_children(stayer: str, number: signal.Signals) -> None:
    length = fresh_length()
    command = STAYERS[stayer].format(n=length)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen((sys.executable, "-c", ENGINE, command), stdout=subprocess.PIPE, env=environment) as engine:
        assert engine.stdout
        try:
            assert select.select((engine.stdout,), (), (), PATIENCE)[0]
            assert engine.stdout.readline() == b"GO\n"
            guardians = processes_with("tools.process.guardian import main")
            (guardian,) = [pid for pid in guardians if _parent(pid) == engine.pid]
            with watched((engine.pid, guardian)) as all_end_within:
                engine.send_signal(number)
                assert all_end_within(5)
        finally:
            engine.kill()
    assert processes_with(length) == []


def test_a_child_that_ends_by_itself_is_the_end_of_reading_and_a_fault_in_writing() -> None:
    async def work(opener: Opener) -> None:
        child = await opener.bash(f"setsid sleep {(length := fresh_length())} & echo last words; exit 3")
        assert await everything(child) == b"last words\n"
        with pytest.raises(BrokenPipeError):
            while True:
                await child.write(b"x" * 65536)
        await child.close()
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


def test_a_program_or_folder_that_is_not_there_is_a_clear_fault() -> None:
    async def work(opener: Opener) -> None:
        with pytest.raises(ToolError, match="no program 'no-such-thing'"):
            await opener.custody.open(("no-such-thing",), cwd="/", env={}, on_error_output=lambda data: None)
        with pytest.raises(ToolError, match="No such file or directory"):
            await opener.bash("true", cwd="/no/such/folder")

    with_custody(work)


def test_commands_and_children_live_side_by_side_and_only_children_have_an_input() -> None:
    async def work(opener: Opener) -> None:
        assert isinstance(opener.custody, Custody)
        child = await opener.bash("exec cat")
        end = await opener.custody.run(
            ("cat",), cwd="/", env=dict(os.environ), timeout=10, on_output=lambda stream, data: None
        )
        assert end == Exit(0)
        await child.write(b"still here\n")
        assert await line(child) == b"still here\n"
        await child.close()

    with_custody(work)


def test_opening_that_is_cancelled_leaves_nobody() -> None:
    async def work(opener: Opener) -> None:
        length = fresh_length()
        await (await opener.bash("true")).close()
        opening = asyncio.ensure_future(opener.bash(f"exec sleep {length}"))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert isinstance(opener.custody, Custody)
        await opener.custody.close()
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


def test_descriptors_are_given_back() -> None:
    async def work(opener: Opener) -> None:
        await (await opener.bash("true")).close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            child = await opener.bash("exec cat")
            await child.close()
        assert len(os.listdir("/proc/self/fd")) == before

    with_custody(work)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # someone else's, and it has just ended
        return 0
