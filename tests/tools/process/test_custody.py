"""P1: nothing that a command starts outlives its call, its engine, or its engine's crash."""

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
from engine_process import eventually
from machine import PATIENCE, within
from polylect.tools.process.custody import Custody
from polylect.tools.process.programs import own_program
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

_numbers = count(os.getpid() * 1000)

# Each of these starts sleepers of length {n} and then does not end by itself. {go} is what tells that they run.
ESCAPES = {
    "a plain child": "sleep {n} & {go}; wait",
    "a new session": "setsid sleep {n} & {go}; wait",
    "a double fork": "(setsid sleep {n} >/dev/null 2>&1 </dev/null &) ; {go}; exec sleep {n}",
    "deaf to signals": "trap '' INT TERM HUP; {go}; while :; do sleep {n}; done",
    "a deaf session that holds the pipe": "setsid bash -c \"trap '' INT TERM HUP; sleep {n}; sleep {n}\" & {go}; wait",
    "an empty environment": "env -i setsid /bin/sleep {n} & {go}; wait",
    "two hundred": "for i in $(seq 200); do setsid sleep {n} & done; {go}; wait",
}


def fresh_length() -> str:
    """A length of sleep that no other process on the machine uses."""
    return f"{next(_numbers)}.5"


def guardian_of(engine: int) -> int:
    """It ends after everything that it answers for."""
    (guardian,) = [pid for pid in processes_with("tools.process.guardian import main") if _parent(pid) == engine]
    return guardian


def _parent(pid: int) -> int:
    return int((_stat(pid) or ["", "0"])[1])


def _stat(pid: int) -> list[str]:
    """The state of a process, its parent and what follows them in /proc; nothing if it has just ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Runner:
    """A custody in use."""

    def __init__(self, custody: Custody) -> None:
        self.custody = custody
        self.output = b""
        self.errors = b""
        self.pid = 0
        self.going = asyncio.Event()

    async def bash(self, command: str, *, timeout: float = PATIENCE, cwd: str = "/") -> Exit:
        return await self.custody.run(
            ("bash", "-c", command),
            cwd=cwd,
            env=dict(os.environ),
            timeout=timeout,
            on_output=self._take,
            on_start=self._start,
        )

    def _take(self, stream: str, data: bytes) -> None:
        if stream == "out":
            self.output += data
        else:
            self.errors += data
        if b"GO" in self.output:
            self.going.set()

    def _start(self, pid: int) -> None:
        self.pid = pid


def with_custody(work: Callable[[Runner], Awaitable[None]], program: tuple[str, ...] = ()) -> None:
    async def main() -> None:
        runner = Runner(Custody(program))
        try:
            await asyncio.wait_for(work(runner), 2 * PATIENCE)
        finally:
            await runner.custody.close()

    asyncio.run(main())


def test_a_command_runs_to_its_end_with_both_streams_and_its_exit_code() -> None:
    async def work(run: Runner) -> None:
        end = await run.bash("pwd; echo problem >&2; exit 3", cwd="/usr")
        assert (end, run.output, run.errors) == (Exit(3), b"/usr\n", b"problem\n")
        assert run.pid > 0
        assert run.custody.reach == "tree"

    with_custody(work)


def test_a_signal_that_ended_a_command_is_a_negative_code() -> None:
    async def work(run: Runner) -> None:
        assert await run.bash("kill -SEGV $$") == Exit(-signal.SIGSEGV)

    with_custody(work)


def test_I4_standard_input_is_empty_and_there_is_no_terminal() -> None:
    async def work(run: Runner) -> None:
        assert await run.bash("cat; (: </dev/tty) 2>/dev/null && echo terminal; ps -o sid= $$; echo $$") == Exit(0)
        session, pid = run.output.split()
        assert session == pid

    with_custody(work)


def test_children_start_with_ordinary_signals_and_no_stray_descriptors() -> None:
    async def work(run: Runner) -> None:
        assert await run.bash("grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd; yes | head -1") == Exit(0)
        words = run.output.split()
        assert (words[0], words[2]) == (b"SigBlk:", b"SigIgn:")
        assert int(words[1], 16) & 0x7FFFFFFF == 0  # the C library keeps the two above to itself
        assert int(words[3], 16) & 0x7FFFFFFF == 0
        assert words[4:] == [b"0", b"1", b"2", b"3", b"y"]  # 3 is the folder that ls reads

    with_custody(work)


@pytest.mark.parametrize("escape", ESCAPES)
def test_P1_cancelling_a_call_leaves_nobody(escape: str) -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        call = asyncio.ensure_future(run.bash(ESCAPES[escape].format(n=length, go="echo GO")))
        await run.going.wait()
        call.cancel()
        with within(2.5), pytest.raises(asyncio.CancelledError):
            await call
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


@pytest.mark.parametrize("escape", ESCAPES)
def test_P1_the_end_of_a_command_is_the_end_of_what_it_left_behind(escape: str) -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        left = ESCAPES[escape].format(n=length, go="echo GO")
        end = await run.bash(f"read -r _ < <({left}); exit 5")
        assert end == Exit(5)
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


def test_P1_a_call_that_is_too_slow_is_ended_and_says_so() -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        await run.bash("true")  # all that is needed runs: what follows is early even if the machine is slow
        end = await run.bash(f"echo early; sleep {length}", timeout=0.5)
        assert end.timed_out
        assert run.output == b"early\n"
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


def test_P1_a_child_that_keeps_the_pipe_open_holds_nobody_up() -> None:
    async def work(run: Runner) -> None:
        with within(2):
            assert await run.bash(f"setsid sleep {fresh_length()} & echo done") == Exit(0)
        assert run.output == b"done\n"

    with_custody(work)


def test_P1_calls_side_by_side_end_only_their_own() -> None:
    async def work(run: Runner) -> None:
        mine, other = fresh_length(), fresh_length()
        neighbour = Runner(run.custody)
        call = asyncio.ensure_future(neighbour.bash(f"setsid sleep {other} & echo GO; wait"))
        await neighbour.going.wait()
        assert await run.bash(f"env -i setsid sleep {mine} & true") == Exit(0)
        assert processes_with(f"sleep {mine}") == []
        assert processes_with(f"sleep {other}")
        call.cancel()
        await asyncio.wait((call,))
        assert processes_with(f"sleep {other}") == []

    with_custody(work)


def test_P1_closing_is_bounded_and_ends_what_still_runs() -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        call = asyncio.ensure_future(run.bash(f"trap '' INT TERM; setsid sleep {length} & echo GO; sleep {length}"))
        await run.going.wait()
        with within(1.5):
            await run.custody.close()
        assert processes_with(f"sleep {length}") == []
        with pytest.raises(ToolError, match="killed"):
            await call

    with_custody(work)


def test_no_guardian_stays_a_zombie() -> None:
    """A process with many sessions has a guardian for each of them."""

    async def main() -> None:
        for _ in range(10):
            runner = Runner(Custody())
            await runner.bash("true")
            await runner.custody.close()
        await asyncio.to_thread(eventually, lambda: not _zombies(os.getpid()))

    asyncio.run(main())


def _zombies(parent: int) -> list[int]:
    stats = [(pid, _stat(pid)) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))]
    return [pid for pid, stat in stats if stat[:2] == ["Z", str(parent)]]


def test_P1_a_command_that_kills_its_warden_fails_and_is_ended_by_the_guardian() -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        call = asyncio.ensure_future(run.bash(f"setsid sleep {length} & echo GO; kill -9 $PPID; wait"))
        await run.going.wait()
        with pytest.raises(ToolError, match="killed"):
            await call
        assert await run.bash("true") == Exit(0)  # the guardian takes it up only after it has seen the warden's end
        with watched(processes_with(f"sleep {length}")) as all_end_within:
            assert await asyncio.to_thread(all_end_within, 3)

    with_custody(work)


def test_P1_a_command_that_kills_its_warden_and_the_guardian_ends_with_its_group() -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        with pytest.raises(ToolError, match="killed"):
            await run.bash(f"sleep {length} & kill -9 $(ps -o ppid= $PPID) $PPID; wait")
        with watched(processes_with(f"sleep {length}")) as all_end_within:
            assert await asyncio.to_thread(all_end_within, 3)
        assert await run.bash("true") == Exit(0)

    with_custody(work)


def test_P1_without_its_guardian_a_call_stays_in_custody_and_the_next_one_gets_a_new_guardian() -> None:
    async def work(run: Runner) -> None:
        length = fresh_length()
        call = asyncio.ensure_future(run.bash(f"setsid sleep {length} & echo GO; wait"))
        await run.going.wait()
        guardian = guardian_of(os.getpid())
        with watched((guardian,)) as all_end_within:
            os.kill(guardian, signal.SIGKILL)
            assert await asyncio.to_thread(all_end_within, 3)
        assert await Runner(run.custody).bash("true") == Exit(0)
        call.cancel()
        await asyncio.wait((call,))
        assert processes_with(f"sleep {length}") == []

    with_custody(work)


def test_P1_a_call_that_its_guardian_took_with_it_is_given_to_the_next(tmp_path: Path) -> None:
    """A guardian that is being killed can still be handed a call."""
    boot = own_program("process.guardian")
    first = f"os.path.exists({str(tmp_path / 'flag')!r}) or (os.mkdir({str(tmp_path / 'flag')!r}), die())"
    die = "die = lambda: (socket.recv_fds(socket.socket(fileno=0), 1, 4), os._exit(1))"
    boot[4] = f"import os, socket; {die}; {first}; {boot[4]}"

    async def work(run: Runner) -> None:
        assert await run.bash("echo here") == Exit(0)
        assert run.output == b"here\n"

    with_custody(work, tuple(boot))


def test_a_guardian_that_never_stays_is_given_up() -> None:
    async def work(run: Runner) -> None:
        with pytest.raises(ToolError, match="does not stay alive"):
            await run.bash("true")

    with_custody(work, (sys.executable, "-S", "-c", ""))


ENGINE = """
import asyncio, os, sys
from polylect.tools.process.custody import Custody

def show(stream, data):
    os.write(1, data)

command, env = ("bash", "-c", sys.argv[1]), dict(os.environ)
asyncio.run(Custody(adopt=True).run(command, cwd="/", env=env, timeout=60, on_output=show))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("escape", ESCAPES)
def test_P1_the_death_of_the_engine_is_the_death_of_all(escape: str, number: signal.Signals) -> None:
    length = fresh_length()
    command = ESCAPES[escape].format(n=length, go="echo GO")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen((sys.executable, "-c", ENGINE, command), stdout=subprocess.PIPE, env=environment) as engine:
        assert engine.stdout
        ready, _, _ = select.select((engine.stdout,), (), (), PATIENCE)
        assert ready
        assert engine.stdout.readline() == b"GO\n"
        with watched((engine.pid, guardian_of(engine.pid))) as all_end_within:
            engine.send_signal(number)
            assert all_end_within(5)
    assert processes_with(length) == []


def test_where_only_groups_can_be_ended_it_says_so_and_ends_the_group() -> None:
    boot = own_program("process.guardian")
    boot[4] = boot[4].replace(
        "import main;", "import main; import polylect.tools.process.process_tree as t; t.PROC = '/none';"
    )

    async def work(run: Runner) -> None:
        length = fresh_length()
        assert await run.bash(
            f"read -r _ < <(trap '' TERM; echo GO; sleep {length}; sleep {length}); echo done"
        ) == Exit(0)
        assert run.custody.reach == "group"
        assert run.output == b"done\n"
        with watched(processes_with(f"sleep {length}")) as all_end_within:
            assert await asyncio.to_thread(all_end_within, 2)

    with_custody(work, tuple(boot))


def test_a_program_or_folder_that_is_not_there_is_a_clear_fault() -> None:
    async def work(run: Runner) -> None:
        with pytest.raises(ToolError, match="no program 'no-such-thing'"):
            await run.custody.run(("no-such-thing",), cwd="/", env={}, timeout=1, on_output=lambda *_: None)
        with pytest.raises(ToolError, match="No such file or directory"):
            await run.bash("true", cwd="/no/such/folder")
        with pytest.raises(ToolError, match="NUL"):
            await run.bash("echo \0")
        with pytest.raises(ToolError, match="Argument list too long"):
            await run.bash("#" * 3_000_000)

    with_custody(work)


def test_a_flood_of_output_comes_whole_and_the_loop_stays_free() -> None:
    async def work(run: Runner) -> None:
        size = 0

        def measure(stream: str, data: bytes) -> None:
            nonlocal size
            size += len(data)

        call = asyncio.ensure_future(
            run.custody.run(
                ("bash", "-c", "head -c 20000000 /dev/zero"),
                cwd="/",
                env=dict(os.environ),
                timeout=20,
                on_output=measure,
            )
        )
        turns = 0
        while not call.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await call, size) == (Exit(0), 20_000_000)
        assert turns > 50

    with_custody(work)


def test_fifty_calls_at_once_each_get_their_own_output() -> None:
    async def work(run: Runner) -> None:
        runners = [Runner(run.custody) for _ in range(50)]
        ends = await asyncio.gather(*(one.bash(f"echo {number}") for number, one in enumerate(runners)))
        assert ends == [Exit(0)] * 50
        assert [int(one.output) for one in runners] == list(range(50))

    with_custody(work)
