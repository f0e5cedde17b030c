"""What is measured. Each function starts processes of its own, measures them once and gives figures by name."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import NamedTuple

from bench import footprint
from bench.engines import Candidate, EngineFailed, Place, Running
from bench.model_server import word
from bench.server import ModelServer, Request

Figures = dict[str, float]
_WARM_PROMPTS = 10
_SLOW = "slow-10-200"
_NUMBER = re.compile(rb"\b(\d{5}) ")
"""What its deltas say."""
TOOL_TURNS = 50
FEW, MANY = 20_000, 100_000
_ONCE_SECONDS = 60


class Bench(NamedTuple):
    """Where engines run: the model server, and a folder for their homes and for what they work on."""

    server: ModelServer
    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def place(self, candidate: Candidate, model: str, number: int = 0) -> Place:
        """Engines that run at the same time have homes of their own: some lock what is in there."""
        home = self.folder / f"{candidate.name.replace(' ', '-')}-{number}"
        return Place(self.server.base_url, model, home, self.workspace)

    def run(self, candidate: Candidate, model: str = "echo", *, ruled: bool = False, number: int = 0) -> Running:
        return Running(candidate, self.place(candidate, model, number), ruled=ruled)

    def take_log(self, model: str) -> list[Request]:
        """What was asked since the last time, but for what engines ask another model on the side."""
        if not (found := [request for request in self.server.take_log() if request.model == model]):
            raise EngineFailed("never asked the model")
        return found


def start(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to `ready`, and what it holds once nothing moves any more."""
    with bench.run(candidate) as engine:
        figures = {"ready ms": _ms(engine.wait_ready() - engine.spawned)}
        if footprint.KNOWN:
            footprint.wait_until_idle(engine.pid)
            figures["idle RSS MiB"], figures["idle PSS MiB"] = footprint.resident(engine.pid)
        return figures


def ping(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to the answer of a request that was sent at once."""
    with bench.run(candidate) as engine:
        engine.say(engine.talk.ping)
        return {"first answer ms": _ms(engine.wait_for(engine.talk.pong) - engine.spawned)}


def first_request(bench: Bench, candidate: Candidate) -> Figures:
    """Spawn to the model being asked, with a prompt that was sent as soon as the wire allows it."""
    bench.server.take_log()
    with bench.run(candidate) as engine:
        if not engine.talk.at_once:
            engine.wait_ready()
        engine.prompt()
        engine.wait_end()
        return {"spawn to request ms": _ms(bench.take_log("echo")[0].at - engine.spawned)}


def prompts(bench: Bench, candidate: Candidate) -> Figures:
    """Prompt to the model being asked, in an engine at rest: the first time, and once it is warm."""
    with bench.run(candidate) as engine:
        engine.wait_ready()
        footprint.wait_until_idle(engine.pid)
        waits = []
        for _ in range(1 + _WARM_PROMPTS):
            bench.server.take_log()
            at = engine.prompt()
            engine.wait_end()
            waits.append(_ms(bench.take_log("echo")[0].at - at))
        return {"prompt to request, cold ms": waits[0], "prompt to request, warm ms": median(waits[1:])}


def deltas(bench: Bench, candidate: Candidate) -> Figures:
    """From the model server writing a delta to its line being here, one hundred a second."""
    with bench.run(candidate, _SLOW) as engine:
        engine.wait_ready()
        footprint.wait_until_idle(engine.pid)
        bench.server.take_log()
        engine.prompt()
        arrived: list[int] = []
        for at, line in engine.lines():
            if engine.talk.text in line and (numbers := _NUMBER.findall(line)):
                arrived += [at] * (int(numbers[-1]) + 1 - len(arrived))  # some engines put several into one line
            elif engine.talk.end in line:
                break
        sent = bench.take_log(_SLOW)[0].sent
        if len(sent) != len(arrived):
            raise EngineFailed(f"told of {len(arrived)} deltas of {len(sent)}")
        first, *waits = (_ms(there - here) for here, there in zip(sent, arrived, strict=True))
        return {
            "delta to line, cold ms": first,
            "delta to line, warm ms": median(waits),
            "delta to line, p99 ms": quantiles(waits, n=100)[-1],
        }


def flood(count: int) -> "Measure":
    """As many deltas as the engine takes: from the server's write to the last line."""

    def measure(bench: Bench, candidate: Candidate) -> Figures:
        model = f"deltas-{count}"
        with bench.run(candidate, model) as engine:
            engine.wait_ready()
            footprint.wait_until_idle(engine.pid)
            bench.server.take_log()
            before = footprint.cpu_seconds(engine.pid) if footprint.KNOWN else 0.0
            engine.prompt()
            ended, lines, written = _count(engine, word(count - 1).encode())
            seconds = (ended - bench.take_log(model)[0].sent[0]) / 1e9
            each = "" if lines >= count else ", merged"  # fewer lines than deltas are less work
            figures = {f"{count} deltas{each}, per s": count / seconds, f"{count} deltas, lines": float(lines)}
            figures[f"{count} deltas, MB out"] = written / 1e6
            if footprint.KNOWN:
                figures[f"{count} deltas, CPU s"] = footprint.cpu_seconds(engine.pid) - before
                figures[f"{count} deltas, peak MiB"] = footprint.peak(engine.pid)
            return figures

    return measure


def _count(engine: Running, last: bytes) -> tuple[int, int, int]:
    """When the turn ended, the lines with text in it, and all bytes. Looks at no line, so as to be no brake."""
    lines, written, tail, whole, ended = 0, 0, b"", False, False
    text, end = engine.talk.text, engine.talk.end
    for piece in engine.pieces():
        now = time.monotonic_ns()
        written += len(piece)
        lines += (tail[-len(text) + 1 :] + piece).count(text)
        whole = whole or last in tail + piece
        ended = ended or end in tail + piece
        tail = (tail + piece)[-64:]
        if ended and piece.endswith(b"\n"):
            if not whole:
                raise EngineFailed("the turn ended before the last delta was told")
            return now, lines, written
    raise AssertionError("pieces never end by themselves")


def tool_turns(bench: Bench, candidate: Candidate) -> Figures:
    """From an answer that asks for a file to the request with its text: the engine's own time, mean of a turn."""
    model = f"tool-{TOOL_TURNS}"
    with bench.run(candidate, model, ruled=True) as engine:
        engine.wait_ready()
        footprint.wait_until_idle(engine.pid)
        bench.server.take_log()
        engine.prompt()
        engine.wait_end()
        log = {request.results: request for request in reversed(bench.take_log(model))}  # of two alike the first
        if len(log) != TOOL_TURNS + 1:
            raise EngineFailed(f"answered {len(log) - 1} calls, not {TOOL_TURNS}")
        turns = [_ms(log[number + 1].at - log[number].sent[-1]) for number in range(TOOL_TURNS)]
        return {"tool turn ms": fmean(turns)}


def one_shot(bench: Bench, candidate: Candidate) -> Figures:
    """A whole run for one prompt: spawn to the model being asked, and to the exit."""
    if not candidate.once:
        return {}
    place = bench.place(candidate, "echo")
    candidate.furnish(place)
    bench.server.take_log()
    argv, env = candidate.once_argv(place), candidate.environment(place)
    began = time.monotonic_ns()
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=place.workspace,
            env=env,
            timeout=_ONCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineFailed(f"not done after {_ONCE_SECONDS} s") from None
    ended = time.monotonic_ns()
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise EngineFailed(f"exit code {done.returncode}: {''.join(last)[:200]}")
    asked = bench.take_log("echo")[0].at
    return {"one-shot to request ms": _ms(asked - began), "one-shot ms": _ms(ended - began)}


def at_once(count: int) -> "Measure":
    """So many engines, all started at the same time, each at rest: what one of them costs."""

    def measure(bench: Bench, candidate: Candidate) -> Figures:
        with ExitStack() as stack:
            began = time.monotonic_ns()
            engines = [stack.enter_context(bench.run(candidate, number=number)) for number in range(count)]
            ready = max(engine.wait_ready() for engine in engines)
            figures = {f"{count} engines, all ready ms": _ms(ready - began)}
            if footprint.KNOWN:
                footprint.wait_until_idle(*(engine.pid for engine in engines))
                held = sum(footprint.resident(engine.pid)[1] for engine in engines)
                figures[f"{count} engines, PSS of each MiB"] = held / count
            return figures

    return measure


def embedded(bench: Bench, candidate: Candidate) -> Figures:
    """What one more conversation costs where the engine is part of the host's own program."""
    if not footprint.KNOWN:
        return {}
    argv = [sys.executable, "-m", "bench.embedded"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, timeout=_ONCE_SECONDS, check=False)
    if done.returncode != 0:
        raise EngineFailed(done.stderr.decode(errors="replace")[-200:])
    return {"embedded, one more KiB": float(done.stdout)}


Measure = Callable[[Bench, Candidate], Figures]
MEASURES: dict[str, Measure] = {
    "start": start,
    "ping": ping,
    "first_request": first_request,
    "one_shot": one_shot,
    "prompts": prompts,
    "deltas": deltas,
    "flood_20000": flood(FEW),
    "flood_100000": flood(MANY),
    "tool_turns": tool_turns,
    "ten": at_once(10),
    "hundred": at_once(100),
    "embedded": embedded,
}

FLOORS = {"python -c pass": "pass", "import asyncio, msgspec": "import asyncio, msgspec"}
"""What nothing written in Python can go below."""


def floor(bench: Bench, imports: str) -> Figures:
    """Spawn to the end of a Python that only does this, and to a line written after it."""
    began = time.monotonic_ns()
    argv = [sys.executable, "-c", f"{imports}; import os; os.write(1, b'.')"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=bench.workspace, env={}) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        line = time.monotonic_ns()
        process.wait()
        return {"line ms": _ms(line - began), "exit ms": _ms(time.monotonic_ns() - began)}


def _ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6
