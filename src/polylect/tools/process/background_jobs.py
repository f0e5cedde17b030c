"""Commands that run beside the conversation: until they end, are ended, or the session is over."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from polylect.tools.arguments import Arguments, TypedTool
from polylect.tools.process.output_spool import Spill, Spool
from polylect.tools.text.truncate import joined_ends
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit, ToolContext

MOST_RUNNING = 16
MOST_KNOWN = 64
"""Commands whose output can be asked for; of those that have ended, the oldest are forgotten first."""
_FOR_EVER = 365 * 86400.0


def exit_code(end: Exit) -> int:
    """As shells count: a signal is 128 and its number."""
    return end.code if end.code >= 0 else 128 - end.code


class News:
    """A stream that is read bit by bit: what has come since the last look."""

    def __init__(self, spill: Spill) -> None:
        self.spool = Spool(spill)
        self.seen = 0

    @property
    def total(self) -> int:
        return self.spool.kept - self.seen

    def text(self, most: int) -> str:
        start, stop = self.pass_over()
        if stop - start <= most:
            return self.spool.read(start, stop).decode(errors="replace")
        half = most // 2
        head, tail = self.spool.read(start, start + half), self.spool.read(stop - half, stop)
        return joined_ends(head, tail, stop - start, self.spool.place())

    def pass_over(self) -> tuple[int, int]:
        """Where the news are in the file. The next look begins after them."""
        start, self.seen = self.seen, self.spool.kept
        return start, self.seen


class Job:
    """One command in the background."""

    def __init__(self, id: str, command: str, spill: Spill) -> None:
        self.id = id
        self.command = command
        self.out = News(spill)
        self.err = News(spill)
        self.pid = 0
        self.end = ""
        """How it ended; empty while it runs."""
        self.started = asyncio.Event()
        self.task: asyncio.Task[None]
        self._since = time.monotonic()
        self._changed = asyncio.Event()

    async def run(self, argv: Sequence[str], context: ToolContext) -> None:
        try:
            end = await context.processes.run(
                argv,
                cwd=context.workspace,
                env=context.env,
                timeout=_FOR_EVER,
                on_output=self._take,
                on_start=self._start,
            )
            self.end = f"exit code {exit_code(end)}"
        except ToolError as fault:
            self.end = str(fault)
        except asyncio.CancelledError:
            self.end = "ended by KillBash or with the session"
            raise
        finally:
            self.out.spool.close()
            self.err.spool.close()
            self.started.set()
            self._changed.set()

    async def news(self, seconds: float) -> None:
        """Until there is something to say, or the time is up."""
        if not self.end and not self.out.total and not self.err.total:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))

    def state(self) -> str:
        line = " ".join(self.command.split())[:200]
        state = self.end or f"running for {time.monotonic() - self._since:.0f} s, pid {self.pid}"
        return f"{self.id} ({state}): {line}"

    def _start(self, pid: int) -> None:
        self.pid = pid
        self.started.set()

    def _take(self, stream: str, data: bytes) -> None:
        (self.out if stream == "out" else self.err).spool.add(data)
        self._changed.set()


class Background:
    """The jobs of one session, shared by Bash, BashOutput and KillBash."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._count = 0

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    async def start(self, command: str, argv: Sequence[str], context: ToolContext) -> Job:
        """Returns once it runs; raises ToolError if it cannot."""
        self._make_room()
        self._count += 1
        job = Job(f"bash_{self._count}", command, context.spill)
        job.task = asyncio.create_task(job.run(argv, context))
        self._jobs[job.id] = job
        try:
            await job.started.wait()
        except asyncio.CancelledError:
            job.task.cancel()
            raise
        if not job.pid:
            del self._jobs[job.id]
            raise ToolError(job.end)
        return job

    def find(self, id: str) -> Job:
        if id not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(f"There is no background command {id!r}. Known ones: {known}.")
        return self._jobs[id]

    async def close(self) -> None:
        """End them all, and forget them: another session knows nothing of them."""
        jobs, self._jobs = self.jobs, {}
        for job in jobs:
            job.task.cancel()
        if jobs:
            await asyncio.wait([job.task for job in jobs])

    def _make_room(self) -> None:
        running = [job for job in self.jobs if not job.end]
        if len(running) >= MOST_RUNNING:
            states = "\n".join(job.state() for job in running)
            raise ToolError(f"{MOST_RUNNING} commands run in the background already. End one with KillBash:\n{states}")
        while len(self._jobs) >= MOST_KNOWN:
            del self._jobs[next(job.id for job in self.jobs if job.end)]


class BackgroundTool(TypedTool[Arguments]):
    """A tool that is about commands in the background."""

    category: Category = "info"

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
