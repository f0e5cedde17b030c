"""What MCP servers cost: time until their tools are there, memory, calls, a hundred servers, a list of 50 000 tools.

    python -m bench.mcp [--rounds 5]

Every figure is the best of some rounds, beside its goal. Servers are tests/mcp_servers/plain.py, which are plain Python
without libraries. What a server costs by itself is measured with the same messages over the same pipes, without us.
"""

import argparse
import asyncio
import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polylect.mcp.connection import Connection, connected
from polylect.mcp.server_log import ServerLog
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server

PLAIN = str(Path(__file__).parents[1] / "tests" / "mcp_servers" / "plain.py")
CALLS = 1000
MANY = 100
Json = dict[str, Any]


def line(id: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


HELLO = line(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "b", "version": "1"})
LIST = line(2, "tools/list")


@contextmanager
def server_alone(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = (sys.executable, PLAIN, *(args or ("Works",)))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], *lines: bytes) -> None:
    assert process.stdin
    process.stdin.write(b"".join(lines))
    process.stdin.flush()


def frame(process: subprocess.Popen[bytes]) -> Json:
    assert process.stdout
    decoded: Json = json.loads(process.stdout.readline())
    return decoded


def until(process: subprocess.Popen[bytes], kind: str, count: int = 1) -> Json:
    while True:
        decoded = frame(process)
        count -= decoded["type"] == kind
        if not count:
            return decoded


@contextmanager
def engine(home: str, *servers: str) -> Iterator[subprocess.Popen[bytes]]:
    """An engine with a server for each of these words, which are the arguments of plain.py."""
    folder = Path(home, ".config", "polylect")
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"[mcp.servers.s{number}]\ncommand = '{sys.executable}'\nargs = {json.dumps([PLAIN, *words.split()])}\n"
        for number, words in enumerate(servers)
    ]
    (folder / "config.toml").write_text("".join(rows))
    env = {"PATH": os.environ["PATH"], "HOME": home}
    argv = (sys.executable, "-m", "polylect", "--json-stream", "--provider", "scripted")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=home) as process:
        try:
            yield process
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait()


def best(rounds: int, measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(rounds))


def server_start() -> float:
    """Seconds from the start of a server to its list of tools."""
    began = time.monotonic()
    with server_alone() as process:
        send(process, HELLO, LIST)
        frame(process)
        frame(process)
        return time.monotonic() - began


def first_answer(home: str) -> float:
    began = time.monotonic()
    with engine(home) as process:
        send(process, b'{"type":"ping"}\n')
        until(process, "pong")
        return time.monotonic() - began


def tools_there(home: str) -> float:
    began = time.monotonic()
    with engine(home, "Works") as process:
        until(process, "mcp_ready")
        return time.monotonic() - began


def ready(home: str, servers: int) -> float:
    began = time.monotonic()
    with engine(home, *["Works"] * servers) as process:
        until(process, "ready")
        return time.monotonic() - began


def memory(home: str) -> float:
    """MiB of the engine at rest, with one server."""
    with engine(home, "Works") as process:
        until(process, "mcp_ready")
        time.sleep(1)
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def many_alone() -> float:
    """Seconds until the last of a hundred servers that are started together has listed its tools."""
    began = time.monotonic()
    argv = (sys.executable, PLAIN, "Works")
    processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(MANY)]
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout
            send(process, HELLO, LIST)
            selector.register(process.stdout, selectors.EVENT_READ, process)
        waiting = set(processes)
        while waiting:
            for key, _ in selector.select():
                frame(key.data)
                frame(key.data)
                selector.unregister(key.fileobj)
                waiting.discard(key.data)
    took = time.monotonic() - began
    for process in processes:
        process.kill()
        process.communicate()
    return took


def many_reported(home: str) -> float:
    began = time.monotonic()
    with engine(home, *["Works"] * MANY) as process:
        until(process, "mcp_ready", MANY)
        return time.monotonic() - began


def slowest_ping(home: str) -> float:
    """The longest a host waits for a pong while a server lists 50 000 tools."""
    with engine(home, "Many 50000") as process:
        until(process, "ready")
        slowest = 0.0
        while True:
            sent = time.monotonic()
            send(process, b'{"type":"ping"}\n')
            kinds = []
            while "pong" not in kinds:
                kinds.append(frame(process)["type"])
            slowest = max(slowest, time.monotonic() - sent)
            if "mcp_ready" in kinds:
                return slowest
            time.sleep(0.02)


def calls_alone() -> float:
    """Seconds of a call over a pipe without us."""
    with server_alone() as process:
        send(process, HELLO)
        frame(process)
        began = time.monotonic()
        for number in range(CALLS):
            send(process, line(number, "tools/call", name="echo", arguments={"a": 1}))
            frame(process)
        return (time.monotonic() - began) / CALLS


def calls(home: str) -> tuple[float, float]:
    """Seconds of a call through our client, and how many of them are CPU time of our process."""

    async def work() -> tuple[float, float]:
        custody = Custody()
        setup = ServerSetup(custody, dict(os.environ), home, lambda event: None)
        server = Server("plain", command=sys.executable, args=(PLAIN, "Works"))
        async with connected(server, setup, ServerLog(server), never, lambda kind: None) as connection:
            took = await time_calls(connection)
        await custody.close()
        return took

    async def never(ask: Any) -> Any:
        raise AssertionError

    async def time_calls(connection: Connection) -> tuple[float, float]:
        began, used = time.monotonic(), time.process_time()
        for _ in range(CALLS):
            await connection.call("echo", {"a": 1}, lambda text: None)
        return (time.monotonic() - began) / CALLS, (time.process_time() - used) / CALLS

    return asyncio.run(work())


def row(what: str, value: float, unit: str, goal: float) -> None:
    print(f"{what:58} {value:9.2f} {unit:4} goal {goal:.2f}{'' if value <= goal else '  MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        first_answer(home)  # files are read once
        starts = [(server_start(), first_answer(home), tools_there(home)) for _ in range(rounds)]
        alone, answer, there = (1000 * min(column) for column in zip(*starts, strict=True))
        print(f"a server alone lists its tools after {alone:.1f} ms; our first answer {answer:.1f} ms")
        row("tools of one server", there, "ms", 1.15 * (alone + answer))
        ratio = statistics.median(there / (alone + answer) for alone, answer, there in starts)
        row("the same as a part of both, median of rounds", ratio, "", 1.15)
        row("memory at rest with one server", best(1, lambda: memory(home)), "MiB", 24)
        here, cpu = min(calls(home) for _ in range(rounds))
        alone = best(rounds, calls_alone)
        print(
            f"a call takes {1000 * here:.3f} ms, of it {1000 * cpu:.3f} of CPU of ours; {1000 * alone:.3f} without us"
        )
        row("a call, of our own", 1000 * (here - alone), "ms", 0.4)
        none = best(rounds, lambda: ready(home, 0))
        row(f"`ready` with {MANY} servers", 1000 * best(rounds, lambda: ready(home, MANY)), "ms", 1000 * none + 5)
        several = min(rounds, 3)
        alone = best(several, many_alone)
        reported = best(several, lambda: many_reported(home))
        row(f"{MANY} servers reported", 1000 * reported, "ms", 1000 * alone + 200)
        row("slowest ping with 50 000 tools", 1000 * best(several, lambda: slowest_ping(home)), "ms", 250)


if __name__ == "__main__":
    main()
