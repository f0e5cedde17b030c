"""What a tool is handed in tests: a real folder, real processes, and ears for what it shows."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doubles_worker import DirectWorker
from machine import PATIENCE, within
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox import Sandbox
from polylect.tools.standard import standard_tools
from polylect.tools.worker.pool import WorkerPool
from polylect.vocab.commands import Answer
from polylect.vocab.content import PlanItem
from polylect.vocab.events import Ask
from polylect.vocab.ports import Processes, TextFiles, ToolReturn, Worker


class FolderContext:
    """A ToolContext over one folder."""

    def __init__(self, workspace: Path, processes: Processes | None = None, worker: Worker | None = None) -> None:
        self.call = "call-1"
        self.turn = "turn-1"
        self.workspace = os.path.realpath(workspace)
        self.roots: Sequence[str] = (self.workspace,)
        self.seen: dict[str, tuple[int, int]] = {}
        self.env: Mapping[str, str] = dict(os.environ)
        self.processes: Processes = processes or Custody()
        self.worker: Worker = worker or DirectWorker()
        self.touched: Sequence[str] = ()
        self.host_files: TextFiles | None = None
        self.terminals: Processes | None = None
        self.shown: list[str] = []
        self.spilled: list[Path] = []
        self.questions: list[Ask] = []
        self.answers: list[Answer] = []
        self.plans: list[list[PlanItem]] = []

    def progress(self, text: str) -> None:
        self.shown.append(text)

    async def ask(self, question: Ask) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else Answer("", "deny", reason="nobody is there")

    def reading_fault(self, path: str) -> str:
        return ""

    def plan(self, items: Sequence[PlanItem]) -> None:
        self.plans.append(list(items))

    def spill(self, text: str) -> str:
        """Beside the workspace, as a session's folder is."""
        folder = Path(self.workspace + ".spilled")
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(self.spilled) + 1}.txt"
        path.write_text(text)
        self.spilled.append(path)
        return str(path)


def with_worker(context: FolderContext, sandbox: Sandbox | None = None) -> FolderContext:
    """The same with a worker process, in this sandbox."""
    custody = Custody()
    context.processes, context.worker = custody, WorkerPool(custody, sandbox, [context.workspace])
    return context


def use(context: FolderContext, name: str, /, **args: Any) -> ToolReturn:
    """One call from start to end, in a loop of its own."""

    async def call() -> ToolReturn:
        tool = standard_tools()[name]
        own: dict[str, Any] = getattr(tool, "own_arguments", dict)(args)
        context.touched = tool.touches(own, context.workspace)
        try:
            return await tool.run(own, context)
        finally:
            await context.worker.close()
            await context.processes.close()

    return asyncio.run(asyncio.wait_for(call(), PATIENCE))


def processes_with(marker: str) -> list[int]:
    """Living processes whose command line holds this text."""
    return [pid for pid in _processes() if marker in _command_line(pid) and not _is_zombie(pid)]


@contextmanager
def watched(pids: Sequence[int]) -> Iterator[Any]:
    """A question to ask later: have all of these ended, within this many seconds?"""
    handles = [handle for pid in pids if (handle := _handle(pid)) >= 0]

    def all_end_within(seconds: float) -> bool:
        async def wait() -> None:
            loop = asyncio.get_running_loop()
            ended = [asyncio.Event() for _ in handles]
            for handle, event in zip(handles, ended, strict=True):
                loop.add_reader(handle, event.set)
            async with asyncio.timeout(PATIENCE):
                for event in ended:
                    await event.wait()

        try:
            with within(seconds):
                asyncio.run(wait())
        except TimeoutError:
            return False
        return True

    try:
        yield all_end_within
    finally:
        for handle in handles:
            os.close(handle)


def _handle(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1  # it has ended already


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True
