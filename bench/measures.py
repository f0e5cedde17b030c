"""What is measured. Each function starts a process of its own, measures it once and gives figures by name."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from bench import footprint
from bench.engines import Candidate, EngineFailed, Running
from bench.server import ModelServer

Figures = dict[str, float]
_WARM_PROMPTS = 10
_SLOW_MILLISECONDS, _SLOW_DELTAS = 10, 60
TOOL_TURNS = 50


class Bench(NamedTuple):
    """Where engines run: the model server, a folder to work in, and the environment they are given."""

    server: ModelServer
    folder: Path
    env: Mapping[str, str]

    def run(self, candidate: Candidate, model: str = "echo") -> Running:
        return Running(candidate, candidate.argv(base_url=self.server.base_url, model=model), self.folder, self.env)


def start(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to `ready`, and what it holds once nothing moves any more."""
    with bench.run(candidate) as engine:
        figures = {"ready ms": _ms(engine.wait_ready() - engine.spawned)}
        if footprint.KNOWN:
            footprint.settle(engine.pid)
            figures["idle RSS MiB"], figures["idle PSS MiB"] = footprint.resident(engine.pid)
        return figures


def ping(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to the answer of a request that was sent at once."""
    with bench.run(candidate) as engine:
        engine.say(candidate.dialect.ping)
        at = next(at for at, line in engine.lines() if candidate.dialect.is_pong(line))
        return {"pong ms": _ms(at - engine.spawned)}


def first_request(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to the model being asked, with a prompt that was sent at once."""
    bench.server.take_log()
    with bench.run(candidate) as engine:
        engine.prompt()
        engine.wait_end()
        return {"spawn to request ms": _ms(bench.server.take_log()[0].at - engine.spawned)}


def prompts(bench: Bench, candidate: Candidate) -> Figures:
    """Prompt to the model being asked, in an engine at rest: the first time, and once it is warm."""
    with bench.run(candidate) as engine:
        engine.wait_ready()
        footprint.settle(engine.pid)
        waits = []
        for _ in range(1 + _WARM_PROMPTS):
            bench.server.take_log()
            at = engine.prompt()
            engine.wait_end()
            waits.append(_ms(bench.server.take_log()[0].at - at))
        return {"prompt to request, cold ms": waits[0], "prompt to request, warm ms": median(waits[1:])}


def deltas(bench: Bench, candidate: Candidate) -> Figures:
    """From the model server writing a delta to its line being here, one hundred a second."""
    with bench.run(candidate, f"slow-{_SLOW_MILLISECONDS}-{_SLOW_DELTAS}") as engine:
        engine.wait_ready()
        footprint.settle(engine.pid)
        bench.server.take_log()
        engine.prompt()
        arrived = []
        for at, line in engine.lines():
            if candidate.dialect.text in line:
                arrived.append(at)
            elif candidate.dialect.is_end(line):
                break
        sent = bench.server.take_log()[0].sent
        if len(sent) != len(arrived):
            raise EngineFailed(f"{candidate.name} made {len(arrived)} lines of {len(sent)} deltas")
        waits = [_ms(there - here) for here, there in zip(sent, arrived, strict=True)]
        return {
            "delta to line, cold ms": waits[0],
            "delta to line, warm ms": median(waits[1:]),
            "delta to line, slowest ms": max(waits[1:]),
        }


def flood(count: int) -> "Measure":
    """As many deltas as the engine takes: from the server's write to the last line."""

    def measure(bench: Bench, candidate: Candidate) -> Figures:
        with bench.run(candidate, f"deltas-{count}") as engine:
            engine.wait_ready()
            footprint.settle(engine.pid)
            bench.server.take_log()
            before = footprint.cpu_seconds(engine.pid) if footprint.KNOWN else 0.0
            engine.prompt()
            ended, lines, written = _count(engine)
            seconds = (ended - bench.server.take_log()[0].sent[0]) / 1e9
            figures = {f"{count} deltas, per s": count / seconds, f"{count} deltas, lines": float(lines)}
            figures[f"{count} deltas, MB out"] = written / 1e6
            if footprint.KNOWN:
                figures[f"{count} deltas, CPU s"] = footprint.cpu_seconds(engine.pid) - before
                figures[f"{count} deltas, peak MiB"] = footprint.peak(engine.pid)
            return figures

    return measure


def _count(engine: Running) -> tuple[int, int, int]:
    """When the turn ended, the lines with text in it, and all bytes. Looks at no line, so as to be no brake."""
    lines, written, tail = 0, 0, b""
    mark, keep = engine.dialect.text, len(engine.dialect.text) - 1
    for piece in engine.pieces():
        now = time.monotonic_ns()
        written += len(piece)
        lines += (tail[-keep:] + piece).count(mark)
        tail = (tail + piece)[-4096:]
        if piece.endswith(b"\n") and engine.dialect.is_end(tail[:-1].rpartition(b"\n")[2]):
            return now, lines, written
    raise AssertionError("pieces never end by themselves")


def tool_turns(bench: Bench, candidate: Candidate) -> Figures:
    """From an answer that asks for Read to the request with its result: the engine's own time, mean of a turn."""
    with bench.run(candidate, f"tool-{TOOL_TURNS}") as engine:
        engine.wait_ready()
        footprint.settle(engine.pid)
        bench.server.take_log()
        engine.prompt()
        engine.wait_end()
        log = bench.server.take_log()
        if len(log) != TOOL_TURNS + 1:
            raise EngineFailed(f"{candidate.name} asked the model {len(log)} times, not {TOOL_TURNS + 1}")
        turns = [_ms(after.at - before.sent[-1]) for before, after in pairwise(log)]
        return {"tool turn ms": fmean(turns)}


Measure = Callable[[Bench, Candidate], Figures]
MEASURES: dict[str, Measure] = {
    "start": start,
    "ping": ping,
    "first_request": first_request,
    "prompts": prompts,
    "deltas": deltas,
    "flood_20000": flood(20_000),
    "flood_100000": flood(100_000),
    "tool_turns": tool_turns,
}

FLOORS = {"python -c pass": "pass", "import asyncio, msgspec": "import asyncio, msgspec"}
"""What nothing written in Python can go below."""


def floor(bench: Bench, imports: str) -> Figures:
    """Spawn to the end of a Python that only does this, and to a line written after it."""
    began = time.monotonic_ns()
    argv = [sys.executable, "-c", f"{imports}; import os; os.write(1, b'.')"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=bench.folder, env=dict(bench.env)) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        line = time.monotonic_ns()
        process.wait()
        return {"line ms": _ms(line - began), "exit ms": _ms(time.monotonic_ns() - began)}


def _ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6
