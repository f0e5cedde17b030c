"""An engine as a child process: its three pipes, the end of its stderr, and how it is ended.

`ProcessLink` (`host/link.py`) starts it by `spawn`, or by a function of the caller's. `close` ends the process and
everything that it has started in bounded time: end of input, then SIGTERM, then SIGKILL. If this process is killed, a
`Watcher` does so. An engine that dies by itself leaves commands behind that are below nobody: all of them are found by
a mark in their environment, which they have inherited. stderr is always read, so that an engine which writes much there
never blocks; only its last 4 kB are kept.
"""

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, Protocol

from polylect.host.supervision.watcher import Watcher
from polylect.system.repository import project
from polylect.system.search_paths import program_on
from polylect.system.threads import run_in_thread

MARK = "POLYLECT_ENGINE_MARKS"
"""The variable with the marks of the engine and of those that it runs below, if its host is itself such a command."""
_INSIDE = "found inside of the current project, whose programs are used only by their path"
_LAST_WORDS = 4096
_LAST_BREATH = 0.5
_GRACE = 2.0
"""How long each step of ending an engine may take: its input closed, then TERM, then KILL."""


class Child(Protocol):
    """What we need of a process that has just been started, as `subprocess.Popen` has it. It leads its own session."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """Minus a signal's number if that ended it."""

    def wait(self) -> int: ...


Spawn = Callable[[Sequence[str], str, Mapping[str, str]], Child]
"""Starts a command line in a folder, with an environment."""


def spawn(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> Child:
    """Starts an engine."""
    pipe, program = subprocess.PIPE, located(argv[0], env)
    return subprocess.Popen(
        [program, *argv[1:]],
        bufsize=0,
        cwd=cwd,
        env=env,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


def located(program: str, env: Mapping[str, str]) -> str:
    """A program's path. A bare name is looked for on PATH, but not in the project around the current folder.

    Raises FileNotFoundError, which says so if it is there.
    """
    if os.sep in program:
        return program
    search_path = env.get("PATH", os.defpath)
    if path := program_on(search_path, program, outside=project()):
        return path
    if inside := program_on(search_path, program):
        raise FileNotFoundError(errno.ENOENT, _INSIDE, inside)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)


def marked(env: Mapping[str, str], mark: str) -> dict[str, str]:
    """Returns an environment by which an engine, and all that it starts, can be recognised."""
    return {**env, MARK: ":".join(filter(None, (env.get(MARK), mark)))}


class EngineProcess:
    """Made by `around`. A flood on stderr is read and forgotten but for its end."""

    def __init__(
        self,
        child: Child,
        stdin: "_Writing",
        stdout: "_Reading",
        stderr: "_Reading",
        mark: str,
        watcher: Watcher | None,
    ) -> None:
        self._child, self._stdin, self._stdout, self._stderr = child, stdin, stdout, stderr
        self._mark = mark.encode()
        self._watcher = watcher
        self._words = bytearray()
        self._bytes_read = 0
        self._family: dict[int, int] = {}
        """Processes that were seen below it, with the time at which each started."""
        self._sessions = {child.pid}
        """Its own session, and those of processes that were seen below it."""
        self._listening = asyncio.create_task(self._listen())
        self._exiting = asyncio.create_task(_exit_of(child))
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def around(cls, child: Child, mark: str, *, watched: bool = False) -> "EngineProcess":
        """Takes over an engine that was started in an environment with this `mark`.

        With `watched` it is ended also if this process is killed.
        """
        stdin, stdout, stderr = _Writing(child.stdin), _Reading(child.stdout), _Reading(child.stderr)
        try:
            for pipe in (stdin, stdout, stderr):
                await pipe.connect()
        except BaseException:  # nobody else knows of it yet
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for pipe in (stdin, stdout, stderr):
                pipe.close()
            raise
        return cls(child, stdin, stdout, stderr, mark, _watcher(child.pid, mark) if watched else None)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def code(self) -> int | None:
        """How it exited; None while it runs. Minus a signal's number if that ended it."""
        return self._child.poll()

    @property
    def gone(self) -> bool:
        """It has exited, though nobody may have noticed yet."""
        return self._child.poll() is not None

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._words.decode(errors="replace").strip()

    async def read(self) -> bytes:
        """What it has said; empty once it will say no more."""
        data = await self._stdout.read(1 << 18)
        self._bytes_read += len(data)
        return data

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def drain(self) -> None:
        await self._stdin.drain()

    async def last_breath(self) -> None:
        """After its last word: wait a moment for its exit code and the end of its stderr."""
        await asyncio.wait([self._exiting, self._listening], timeout=_LAST_BREATH)

    async def close(self) -> int:
        """End it politely, then less so. Whatever it started goes with it. Returns its exit code."""
        self.note_family()
        self._stdin.close()
        try:
            for step in (None, signal.SIGTERM, signal.SIGKILL):
                if step is not None:
                    self._signal(step)
                if (await asyncio.wait([self._exiting], timeout=_GRACE))[0]:
                    break
            self._kill()
            await asyncio.wait([self._listening], timeout=_GRACE)
        except BaseException:  # nobody wants to wait for it
            self._kill()
            self._child.wait()
            raise
        finally:
            for task in (self._listening, self._watching, self._exiting):
                task.cancel()
            self._stdout.close()  # somebody else may still hold the other ends
            self._stderr.close()
            if self._watcher:
                self._watcher.stop()
        code = self._child.poll()
        return -signal.SIGKILL if code is None else code

    def note_family(self) -> None:
        """Notes what runs below the engine, before the engine is told to stop: what it then leaves behind belongs to
        no one, and is found no more."""
        processes = _processes()
        family = _below([self._child.pid], processes)
        self._family |= {pid: processes[pid].started for pid in family}
        self._sessions |= {pid for pid in family if processes[pid].session == pid}

    def kill(self) -> None:
        """End it and what it started at once."""
        self.note_family()
        self._kill()

    def _kill(self) -> None:
        """What there still is of it: its process group, its sessions, what was seen below it and what has its mark."""
        self._signal(signal.SIGKILL)
        processes = _processes()
        seen = [pid for pid, started in self._family.items() if pid in processes and processes[pid].started == started]
        left = [
            pid
            for pid, process in processes.items()
            if process.session in self._sessions or self._mark in _environment(pid)
        ]
        for pid in {*seen, *left, *_below([*seen, *left], processes)}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    async def _watch(self) -> None:
        """An engine that is gone says no more, whoever else still holds its stdout open. What it has left is ended."""
        await asyncio.wait([self._exiting])
        bytes_before = -1
        while bytes_before != self._bytes_read:
            bytes_before = self._bytes_read
            await asyncio.sleep(_LAST_BREATH)
        self._stdout.close()
        self._kill()

    async def _listen(self) -> None:
        while data := await self._stderr.read(1 << 16):
            self._words += data
            del self._words[:-_LAST_WORDS]


def _watcher(pid: int, mark: str) -> Watcher | None:
    try:
        return Watcher(pid, mark)
    except OSError:  # there is no shell here
        return None


class _Pipe:
    """Our end of a pipe: a file until it is connected."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._end: IO[bytes] | asyncio.BaseTransport | asyncio.StreamWriter | None = file

    def close(self) -> None:
        if self._end:
            self._end.close()


class _Reading(_Pipe):
    """The end of a pipe that we read."""

    async def connect(self) -> None:
        self._reader = asyncio.StreamReader()
        self.read = self._reader.read
        loop = asyncio.get_running_loop()
        self._end, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), self._file)


class _Writing(_Pipe):
    """The end of a pipe that we write."""

    async def connect(self) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._file)
        self._end = self._writer = asyncio.StreamWriter(transport, protocol, None, loop)

    def write(self, data: bytes) -> None:
        if data and not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()


async def _exit_of(child: Child) -> int:
    """Not by its pipes, which others may hold open."""
    try:
        watch = os.pidfd_open(child.pid)
    except (OSError, AttributeError):  # it is gone already, or the system cannot do this
        return await run_in_thread(child.wait)
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(watch, gone.set)
    try:
        await gone.wait()
        return child.wait()
    finally:
        loop.remove_reader(watch)
        os.close(watch)


class _Process(NamedTuple):
    """A process as /proc shows it. `started` tells it from a later one with the same number."""

    parent: int
    session: int
    started: int


def _processes() -> dict[int, _Process]:
    """All processes, where the system shows them."""
    processes: dict[int, _Process] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with suppress(OSError, ValueError, IndexError):
            pid = int(name)
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            processes[pid] = _Process(int(fields[1]), int(fields[3]), int(fields[19]))
    return processes


def _environment(pid: int) -> bytes:
    """The variables that a process was started with; nothing for one of another user."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()
    return b""


def _below(pids: Sequence[int], processes: Mapping[int, _Process]) -> list[int]:
    """All processes below these."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    family = list(pids)
    for pid in family:
        family += children.get(pid, [])
    return family[len(pids) :]
