"""How late deltas are when one `polylect acp --listen` serves many clients at once.

    python -m bench.websocket [--connections 100] [--rate 1000] [--seconds 5]

Three processes: a model server that puts the time into each delta, the agent, and all clients. The time of a delta is
from the model server's write to the client's read. The goal is 100 connections with 1000 deltas a second each, and a
99th percentile below 50 ms on two cores that do nothing else.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from bench.model_server import HEAD, Connection, Server, frame, tail
from bench.model_wires import WIRES, Json
from websockets.client import ClientProtocol
from websockets.http11 import Response
from websockets.uri import parse_uri

PATH = "/v1/messages"
TOKEN = "a-token-of-the-benchmark"
TICK = 0.005
"""Seconds between two writes of the model server to each stream."""
_STAMP = re.compile(rb'"text":"(\d+) "')


class Model(Connection):
    """Streams `count` deltas to whoever asks, `at_once` every TICK; each says when it was written."""

    streams: ClassVar[dict["Model", int]] = {}
    at_once = count = 0

    def answer(self, path: str, asked: Json, entry: Json) -> None:
        first = list(WIRES[PATH].reply("end", []))[:2]
        self.transport.write(HEAD + b"".join(map(frame, first)))
        self.streams[self] = 0

    @classmethod
    async def write_all(cls) -> None:
        end = b"".join(map(frame, list(WIRES[PATH].reply("end", []))[2:])) + tail(WIRES[PATH])
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + TICK, loop.time())
            await asyncio.sleep(due - loop.time())
            for stream, written in list(cls.streams.items()):
                stamp = time.monotonic_ns() // 1000
                stream.transport.write(frame(WIRES[PATH].text(f"{stamp} ")) * cls.at_once)
                cls.streams[stream] = written + cls.at_once
                if written + cls.at_once >= cls.count:
                    del cls.streams[stream]
                    stream.transport.write(end)


async def serve_model(at_once: int, count: int) -> None:
    Model.at_once, Model.count = at_once, count
    server = Server("")
    listener = await asyncio.get_running_loop().create_server(lambda: Model(server), "127.0.0.1", 0)
    print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
    await Model.write_all()


class Client(asyncio.Protocol):
    """One client. Messages are read by the library until the prompt is sent; from then on only times are counted."""

    def __init__(self, url: str) -> None:
        self.delays: list[float] = []
        self.finished = asyncio.get_running_loop().create_future()
        self._protocol = ClientProtocol(parse_uri(url), max_size=None)
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._counting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        request = self._protocol.connect()
        request.headers["Authorization"] = f"Bearer {TOKEN}"
        self._protocol.send_request(request)
        transport.writelines(self._protocol.data_to_send())

    def data_received(self, data: bytes) -> None:
        if self._counting:
            return self._count(data)
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            message = None if isinstance(event, Response) else json.loads(getattr(event, "data", b"null"))
            if message is None or "method" not in message:
                self._answer.set_result(message)

    def _count(self, data: bytes) -> None:
        now, data = time.monotonic_ns() // 1000, self._rest + data
        end = 0
        for match in _STAMP.finditer(data):
            self.delays.append((now - int(match[1])) / 1000)
            end = match.end()
        self._rest = data[end:][-400:]
        if b'"stopReason"' in self._rest and not self.finished.done():
            self.finished.set_result(None)

    async def opened(self) -> None:
        await self._answer

    async def call(self, method: str, **params: object) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        self._send(method, params)
        return (await self._answer)["result"]

    def prompt(self, session: str) -> None:
        self._counting = True
        self._send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})

    def _send(self, method: str, params: object) -> None:
        self._protocol.send_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        self._transport.writelines(self._protocol.data_to_send())


async def talk(
    announced: Json, connections: int, home: str, patience: float, agent: int
) -> tuple[list[float], float, float]:
    """The delays of all deltas in milliseconds, how long it took, and the CPU time of the agent."""
    loop, clients = asyncio.get_running_loop(), []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: Client(announced["url"]), announced["host"], announced["port"])
        await client.opened()
        await client.call("initialize", protocolVersion=1)
        clients.append((client, (await client.call("session/new", cwd=home, mcpServers=[]))["sessionId"]))
    used, began = _cpu_seconds(agent), time.monotonic()
    for client, session in clients:
        client.prompt(session)
    await asyncio.wait_for(asyncio.gather(*(client.finished for client, _ in clients)), patience)
    delays = [delay for client, _ in clients for delay in client.delays]
    return delays, time.monotonic() - began, _cpu_seconds(agent) - used


def measure(connections: int, rate: int, seconds: float, home: str) -> None:
    at_once = max(1, round(rate * TICK))
    command = [sys.executable, "-m", "bench.websocket", "--model", str(at_once), str(round(rate * seconds))]
    env = {"PATH": os.environ["PATH"], "HOME": home, "POLYLECT_ACP_TOKEN": TOKEN}
    model = subprocess.Popen(command, stdout=subprocess.PIPE)
    port = _first_line(model)["port"]
    flags = f"--provider anthropic --base-url http://127.0.0.1:{port} --model bench --api-key bench-key".split()
    agent = subprocess.Popen(
        [sys.executable, "-m", "polylect", "acp", "--listen", "127.0.0.1:0", *flags], stdout=subprocess.PIPE, env=env
    )
    try:
        announced = _first_line(agent)
        delays, took, used = asyncio.run(talk(announced, connections, home, 60 + 20 * seconds, agent.pid))
    finally:
        for process in (agent, model):
            process.terminate()
            process.wait()
    delays.sort()
    quantiles = ", ".join(f"{100 * q:g}% {delays[int(len(delays) * q)]:.1f} ms" for q in (0.5, 0.99, 0.999))
    print(f"{len(delays)} deltas in {took:.1f} s to {connections} clients: {quantiles}")
    print(f"agent: {used / took:.2f} cores, {1e6 * used / len(delays):.1f} us of CPU a delta")


def _first_line(process: subprocess.Popen[bytes]) -> Json:
    assert process.stdout is not None
    line: Json = json.loads(process.stdout.readline())
    return line


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--rate", type=int, default=1000, help="deltas a second for each")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--model", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        asyncio.run(serve_model(*options.model))
        return
    with tempfile.TemporaryDirectory() as home:
        measure(options.connections, options.rate, options.seconds, home)


if __name__ == "__main__":
    main()
