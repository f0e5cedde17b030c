"""An engine as a child process: its pipes, its last words, its certain end."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

_LAST_WORDS = 4096
_LAST_BREATH = 0.5
_GRACE = 2.0
"""How long each step of ending an engine may take: its input closed, then TERM, then KILL."""


class EngineProcess:
    """Made by `start`. Lines of any length pass; a flood on stderr is read and forgotten but for its end."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None  # noqa: PT018
        self._child = child
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        self._transport: asyncio.SubprocessTransport = child._transport  # type: ignore[attr-defined]  # there is no other way
        self._words = bytearray()
        self._heard = 0
        self._listening = asyncio.create_task(self._listen())
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> "EngineProcess":
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        return cls(child)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def code(self) -> int | None:
        """How it exited; None while it runs. Minus a signal's number if that ended it."""
        return self._child.returncode

    @property
    def gone(self) -> bool:
        """It has exited, though nobody may have noticed yet."""
        if self._child.returncode is not None or not hasattr(os, "waitid"):
            return self._child.returncode is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._words.decode(errors="replace").strip()

    async def read(self) -> bytes:
        """What it has said; empty once it will say no more."""
        data = await self._stdout.read(1 << 18)
        self._heard += len(data)
        return data

    def write(self, data: bytes) -> None:
        if data and not self._stdin.is_closing():
            self._stdin.write(data)

    async def drain(self) -> None:
        with suppress(ConnectionError):
            await self._stdin.drain()

    async def last_breath(self) -> None:
        """After its last word: wait a moment for its exit code and the end of its stderr."""
        dying = asyncio.create_task(self._child.wait())
        await asyncio.wait([dying, self._listening], timeout=_LAST_BREATH)
        dying.cancel()

    async def close(self) -> int:
        """End it politely, then less so. Whatever it started goes with it. Returns its exit code."""
        self._stdin.close()
        family = _descendants(self._child.pid)
        for step in (None, signal.SIGTERM, signal.SIGKILL):
            if step is not None:
                self._signal(step)
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._child.wait()
                    break
        self._signal(signal.SIGKILL)  # what it left behind in its own session
        for pid in family:  # and what had gone away from there
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.wait([self._listening], timeout=_GRACE)
        self._listening.cancel()
        self._watching.cancel()
        self._transport.close()  # somebody else may still hold the other ends
        return -signal.SIGKILL if self._child.returncode is None else self._child.returncode

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    async def _watch(self) -> None:
        """An engine that is gone says no more, whoever else still holds its stdout open."""
        await self._exited()
        heard = -1
        while heard != self._heard:
            heard = self._heard
            await asyncio.sleep(_LAST_BREATH)
        if (pipe := self._transport.get_pipe_transport(1)) is not None:
            pipe.close()

    async def _exited(self) -> None:
        """Not by its pipes: some versions of asyncio wait for those as well."""
        try:
            watch = os.pidfd_open(self._child.pid)
        except ProcessLookupError:
            return
        except (OSError, AttributeError):
            await self._child.wait()
            return
        gone, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(watch, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watch)
            os.close(watch)

    async def _listen(self) -> None:
        while data := await self._stderr.read(1 << 16):
            self._words += data
            del self._words[:-_LAST_WORDS]


def _descendants(pid: int) -> list[int]:
    """All processes below this one, where the system shows them."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            parents.setdefault(parent, []).append(int(name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found[1:]
