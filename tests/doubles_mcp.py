"""A place for MCP servers in tests: real processes, ears for what is reported, and calls."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from doubles_worker import DirectWorker
from machine import PATIENCE
from mcp_servers.published_schema import Wire
from polylect.mcp.servers import Servers
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.commands import Answer
from polylect.vocab.content import Message, PlanItem, Server
from polylect.vocab.events import Ask, Event, ServerChanged
from polylect.vocab.ports import Processes, Tool, ToolReturn, Worker

FOLDER = Path(__file__).parent / "mcp_servers"
RECORDING = (str(FOLDER / "plain.py"), str(FOLDER / "hostile.py"))


class CallContext:
    """What one call is handed. `answers` are given to its questions, in turn."""

    def __init__(self, workspace: Path, answers: Sequence[Answer] = ()) -> None:
        self.call = "call-1"
        self.turn = "turn-1"
        self.workspace = os.path.realpath(workspace)
        self.roots: Sequence[str] = (self.workspace,)
        self.seen: dict[str, tuple[int, int]] = {}
        self.env: Mapping[str, str] = {}
        self.processes: Processes = Custody()
        self.worker: Worker = DirectWorker()
        self.touched: Sequence[str] = ()
        self.shown: list[str] = []
        self.showing = asyncio.Event()
        self.questions: list[Ask] = []
        self.spilled: list[str] = []
        self._answers = list(answers)

    def progress(self, text: str) -> None:
        self.shown.append(text)
        self.showing.set()

    async def ask(self, question: Ask) -> Answer:
        self.questions.append(question)
        return self._answers.pop(0)

    async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
        raise AssertionError("the model was asked")

    def plan(self, items: Sequence[PlanItem]) -> None:
        raise AssertionError("a server has no plan to show")

    def spill(self, text: str) -> str:
        self.spilled.append(text)
        return "/spilled/1.txt"


class _RecordedServers(Servers):
    """Has the servers of plain.py write down what the client sends them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.records = tempfile.TemporaryDirectory(prefix="mcp-lines-")

    def add(self, server: Server) -> None:
        if server.args and server.args[0] in RECORDING:
            server = replace(server, env={**server.env, "RECORD": self.records.name})
        super().add(server)

    def check_records(self) -> None:
        """Raises if a line that the client wrote is not as the schema of its revision says."""
        for path in sorted(Path(self.records.name).iterdir()):
            wire = Wire()
            for line in path.read_text("utf-8").splitlines():
                side, message = json.loads(line)
                (wire.check if side == "client" else wire.note)(message, side)


class Stage:
    """Servers at work."""

    def __init__(self, workspace: Path, tools: dict[str, Tool] | None = None, **options: Any) -> None:
        self.workspace = workspace
        self.custody = Custody()
        self.tools: dict[str, Tool] = tools if tools is not None else {}
        self.events: list[Event] = []
        self._received = asyncio.Event()
        self.commands_changed = asyncio.Event()
        options = {"on_commands": self.commands_changed.set, "trusted": True, **options}
        options = {"env": dict(os.environ), "workspace": os.path.realpath(workspace), **options}
        names = {name: options.pop(name) for name in ("long_names", "withheld", "shared") if name in options}
        setup = ServerSetup(children=self.custody, report=self._report, **options)
        self.servers = _RecordedServers(self.tools, setup, **names)

    def _report(self, event: Event) -> None:
        self.events.append(event)
        self._received.set()

    def about(self, name: str) -> list[ServerChanged]:
        return [event for event in self.events if isinstance(event, ServerChanged) and event.name == name]

    async def received(self, name: str, number: int = 1) -> ServerChanged:
        """The so-manieth report about a server, once it is there."""
        async with asyncio.timeout(PATIENCE):
            while len(self.about(name)) < number:
                self._received.clear()
                await self._received.wait()
        return self.about(name)[number - 1]

    async def call(
        self, tool: str, args: dict[str, Any] | None = None, context: CallContext | None = None
    ) -> ToolReturn:
        context = context or CallContext(self.workspace)
        return await self.tools[tool].run(args or {}, context)


def on_stage(workspace: Path, work: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        stage = Stage(workspace, **options)
        with stage.servers.records:
            try:
                await asyncio.wait_for(work(stage), 2 * PATIENCE)
            finally:
                await stage.servers.close()
                await stage.custody.close()
            stage.servers.check_records()

    asyncio.run(main())


def script(name: str, *args: str, server: str = "", **more: Any) -> Server:
    """A server of tests/mcp_servers over stdio."""
    return Server(server or name, command=sys.executable, args=(str(FOLDER / f"{name}.py"), *args), **more)
