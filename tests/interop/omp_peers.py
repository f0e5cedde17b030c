"""Real omp and pi: installed outside the tree, pointed at a model of ours, and driven over their wire."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

from bench.model_server import frame, tail
from bench.model_wires import WIRES
from bench.model_wires import Event as MessageAdded
from bench.peers import program

from grammar_check import Grammar
from machine import PATIENCE
from polylect import plug
from polylect.host.link import ProcessLink
from polylect.vocab.commands import Command, Prompt
from polylect.vocab.events import Event, Ready, Reply, TurnEnded

_ANTHROPIC = WIRES["/v1/messages"]


class Peer(NamedTuple):
    """An engine: its dialect's version and how it is started."""

    version: str
    argv: tuple[str, ...]


def peer(version: str) -> Peer:
    """Installed once, outside the tree."""
    if version.startswith("pi"):
        return Peer("pi", program(version))
    return Peer(version.partition(".")[0], (*program(f"omp {version}"), "--no-title"))


# The model.


class Model:
    """Does what the last line of the user's last message says.

    `run: COMMAND` calls bash, `slow` talks for a minute, `fail` breaks off in the middle as often as `failures` says;
    anything else is repeated.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _service(self))
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, request: dict[str, Any]) -> Iterator[MessageAdded]:
        self.requests.append(request)
        expected = _last_line(request["messages"][-1]["content"])
        if expected.startswith("run: "):
            args = {"command": expected.removeprefix("run: ")}
            return _ANTHROPIC.reply("calls", _ANTHROPIC.call("bash", args))
        if expected == "slow":
            return _ANTHROPIC.reply("end", _slowly())
        if expected == "fail" and self.failures:
            self.failures -= 1
            return _broken()
        words = ("you said ", expected) if expected else ("done",)
        return _ANTHROPIC.reply("end", [_ANTHROPIC.text(word) for word in words])


def _last_line(content: Any) -> str:
    if isinstance(content, str):
        return content.splitlines()[-1]
    texts = [block["text"] for block in content if block["type"] == "text"]
    return str(texts[-1]).splitlines()[-1] if texts else ""


def _slowly() -> Iterator[MessageAdded]:
    for number in range(3000):
        time.sleep(0.02)
        yield _ANTHROPIC.text(f"{number} ")


def _broken() -> Iterator[MessageAdded]:
    said = _ANTHROPIC.reply("end", [_ANTHROPIC.text("par")])
    yield from (next(said) for _ in range(3))
    yield "error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def _service(model: Model) -> type[BaseHTTPRequestHandler]:
    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for said in model.reply(request):
                    self.wfile.write(frame(said))
                self.wfile.write(tail(_ANTHROPIC))
            except OSError:  # the engine was stopped
                self.close_connection = True

        def log_message(self, *args: object) -> None: ...

    return Service


# An engine that runs.


class Driven:
    """What it says, in order, all of it held to the grammar."""

    def __init__(self, link: ProcessLink) -> None:
        self.link = link
        self._grammar = Grammar()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._numbers = iter(range(1, 1000))
        self.received: list[Event] = []

    def receive(self, event: Event) -> None:
        self._grammar.check(event)
        if isinstance(event, Reply) and event.ref in self._replies:
            self._replies[event.ref].set_result(event)
        else:
            self._events.put_nowait(event)

    def gone(self, *_: object) -> None:
        self._events.put_nowait(None)

    async def send(self, command: Command) -> Reply:
        """Say it, and wait for its answer."""
        return await asyncio.wait_for(self.start(command), PATIENCE)

    def start(self, command: Command) -> asyncio.Future[Reply]:
        ref = f"r{next(self._numbers)}"
        self._replies[ref] = asyncio.get_running_loop().create_future()
        fields = {name: getattr(command, name) for name in command.__struct_fields__}
        for event in self.link.send(type(command)(**{**fields, "ref": ref})):
            self.receive(event)
        return self._replies[ref]

    async def until(self, kind: type[Event] | tuple[type[Event], ...], **fields: Any) -> Event:
        """The next event of this kind; what came before it is in `received`."""
        while (event := await asyncio.wait_for(self._events.get(), PATIENCE)) is not None:
            self.received.append(event)
            if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items()):
                return event
        raise AssertionError(f"the engine is gone: {self.link.death()}")

    async def turn(self, text: str) -> list[Event]:
        """All that is said from here to the end of this turn, less other turns: omp 18.3 runs a command on in the
        background when it is steered, and begins a turn of its own when the command has ended."""
        self.received.clear()
        turn = f"t{next(self._numbers)}"
        accepted = await self.send(Prompt(turn, text))
        assert accepted.failure is None
        await self.until(TurnEnded, turn=turn)
        return [event for event in self.received if event.turn in ("", turn)]


@asynccontextmanager
async def driven(peer: Peer, model: Model, folder: Path, *flags: str) -> AsyncIterator[Driven]:
    """The engine in a home and a workspace of its own."""
    (workspace := folder / "workspace").mkdir(parents=True)
    link = ProcessLink(
        [*peer.argv, "--mode", "rpc", "--model", "mock/one", *flags],
        plug.load("dialects", "omp").DIALECT,
        cwd=str(workspace),
        env={**_environment(peer, folder), "PATH": os.environ["PATH"]},
        version=peer.version,
    )
    configure(peer, model.url, folder)
    agent = Driven(link)
    try:
        await link.open(agent.receive, agent.gone)
        await agent.until(Ready)
        yield agent
    finally:
        await link.close()


def _environment(peer: Peer, folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PI_OFFLINE": "1", "PI_CODING_AGENT_DIR": str(folder / "agent")}


def configure(peer: Peer, url: str, folder: Path) -> None:
    """Tell it of a model at this address."""
    cost = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    about = {"reasoning": False, "input": ["text"], "cost": cost, "contextWindow": 200_000, "maxTokens": 4000}
    models = [{"id": name, "name": name, **about} for name in ("one", "two")]
    mock = {"baseUrl": url, "apiKey": "none", "api": "anthropic-messages", "models": models}
    (folder / "agent").mkdir()
    name = "models.json" if peer.version == "pi" else "models.yml"
    (folder / "agent" / name).write_text(json.dumps({"providers": {"mock": mock}}))


def of(events: Iterable[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
