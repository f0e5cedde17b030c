"""Shell commands that run in the background of a session, until they end, are killed or the session is over.

Bash starts one and gets a `Job`; BashOutput and KillBash find it by its id. Output goes to files, and `UnreadOutput`
marks how much of it the model has read. At most 16 run at a time; of those that ended, 64 are remembered.

All three tools share one `Background`, which `tools/standard.py` creates for each session.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from polylect.tools.arguments import Arguments, TypedTool
from polylect.tools.process.output_spool import Spill, Spool
from polylect.tools.text.truncate import joined_ends
from polylect.vocab.answers import TaskOutput
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit, ToolContext

MOST_RUNNING = 16
MOST_KNOWN = 64
"""Commands that can be found by their id. Of those that have ended, the oldest are forgotten first."""
MOST_SHOWN = 8192
"""Bytes of its output that a host is shown of a job."""
_FOR_EVER = 365 * 86400.0


def exit_code(end: Exit) -> int:
    """The exit code as a shell reports it: 128 and the number of the signal for a process that was killed."""
    return end.code if end.code >= 0 else 128 - end.code


class UnreadOutput:
    """One output stream of a job, and how much of it the model has read."""

    def __init__(self, spill: Spill) -> None:
        self.spool = Spool(spill)
        self.seen = 0

    @property
    def total(self) -> int:
        return self.spool.stored - self.seen

    def text(self, most: int) -> str:
        start, stop = self.mark_read()
        if stop - start <= most:
            return self.spool.read(start, stop).decode(errors="replace")
        half = most // 2
        head, tail = self.spool.read(start, start + half), self.spool.read(stop - half, stop)
        return joined_ends(head, tail, stop - start, self.spool.location())

    def mark_read(self) -> tuple[int, int]:
        """The range of the file that is unread. From now on it counts as read."""
        start, self.seen = self.seen, self.spool.stored
        return start, self.seen


class Job:
    """One command in the background."""

    def __init__(self, id: str, command: str, spill: Spill) -> None:
        self.id = id
        self.command = command
        self.out = UnreadOutput(spill)
        self.err = UnreadOutput(spill)
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
                on_output=self._on_output,
                on_start=self._on_start,
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

    async def wait_for_output(self, seconds: float) -> None:
        """Return when there is unread output, the command has ended, or the time is up."""
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

    def _on_start(self, pid: int) -> None:
        self.pid = pid
        self.started.set()

    def _on_output(self, stream: str, data: bytes) -> None:
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
        """Start a command. Returns once it runs. Raises ToolError if it cannot be started."""
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

    def stop(self, id: str) -> bool:
        """End a job without waiting for it. False if it does not run."""
        job = self._jobs.get(id)
        return job is not None and not job.end and job.task.cancel()

    def output_of(self, id: str) -> TaskOutput | None:
        """The end of what a job has printed, whether or not the model has read it; None if there is no such job."""
        if id not in self._jobs:
            return None
        spools = [stream.spool for stream in (self._jobs[id].out, self._jobs[id].err)]
        size = sum(spool.stored for spool in spools)
        ends = [spool.read(max(0, spool.stored - MOST_SHOWN), spool.stored) for spool in spools if spool.stored]
        output = b"".join(ends)[-MOST_SHOWN:]
        return TaskOutput(output.decode(errors="replace"), size, size > len(output))

    async def close(self) -> None:
        """End and forget all jobs, because they belong to one session."""
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
    """The base of BashOutput and KillBash."""

    category: Category = "info"
    other_parameters: Mapping[str, str] = {"shell_id": "bash_id", "task_id": "bash_id"}

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
