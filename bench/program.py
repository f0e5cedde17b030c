"""Measure polylect, the floor and the peers, interleaved, against our own model server on loopback.

    python bench/run.py [--quick] [--rounds N] [--only MEASURE ...] [--peers NAME ...] [--peer 'NAME[:TALK]=COMMAND']

prints a table. If nothing was left out, it also writes bench/results.json, docs/performance.svg and the figures in
docs/performance.md. Peers are installed outside the tree where they are missing; `--peers` without names leaves them
out. {base_url} and {model} are filled in.
Run it on a quiet machine: everything shares its cores.
"""

import argparse
import compileall
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from bench import chart, report, table
from bench.candidates import PEERS, ours, peer
from bench.engines import Candidate, EngineFailed, given
from bench.measures import FLOORS, MEASURES, TOOL_TURNS, Bench, Figures, floor
from bench.peers import CannotInstall
from bench.server import ModelServer

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results.json"
PICTURE, PAGE = ROOT / "docs" / "performance.svg", ROOT / "docs" / "performance.md"
QUICK = ("start", "ping", "one_shot", "prompts", "deltas", "flood_20000", "tool_turns")
QUICK_PEERS = ("codex",)
_ONLY_OF = {"hundred": ("polylect", "polylect native"), "embedded": ("polylect",)}
"""Measures that are not made of every engine."""
_SLOW_SECONDS, _SLOW_ROUNDS = 8.0, 3
"""What takes longer than this is not done in every round."""
_STAGGER = {"flood_100000": "flood_20000"}
"""Not tried where the smaller one failed or was slow."""
_FAILURES = 2
Rounds = defaultdict[str, defaultdict[str, list[float]]]


class Plan(NamedTuple):
    """Who is measured how often, and what nobody has to try again."""

    candidates: list[Candidate]
    measures: list[str]
    rounds: int
    failures: defaultdict[str, dict[str, str]]
    failed: defaultdict[tuple[str, str], int]
    slow: dict[tuple[str, str], float]

    def wants(self, candidate: Candidate, measure: str, number: int) -> bool:
        if candidate.name not in _ONLY_OF.get(measure, (candidate.name,)):
            return False
        if self.failed[candidate.name, measure] >= _FAILURES:
            return False
        if smaller := _STAGGER.get(measure):
            took, broke = self.slow.get((candidate.name, smaller), 0.0), self.failed[candidate.name, smaller]
            if took > _SLOW_SECONDS or broke:
                why = "the smaller one failed" if broke else f"the smaller one took {took:.0f} s"
                self.failures[candidate.name][measure] = f"not tried: {why}"
                return False
        return number <= _SLOW_ROUNDS or self.slow.get((candidate.name, measure), 0.0) < _SLOW_SECONDS


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    options, load = _options(), os.getloadavg()[0]
    compileall.compile_dir(ROOT / "src", quiet=1)  # a start from sources alone takes 170 ms longer
    plan = _plan(options)
    with tempfile.TemporaryDirectory(prefix="polylect-bench-") as made, ModelServer(notes(Path(made))) as server:
        engines, floors = _measure(Bench(server, Path(made)), plan)
    peers = tuple(one.name for one in plan.candidates if not one.ours)
    first = plan.candidates[0].name
    result = table.Result(first, table.summarise(engines), table.summarise(floors), peers, plan.failures)
    print(table.render(result))
    if not (options.quick or options.only or options.peer or options.peers is not None):
        _write(result, plan, load)
    return 0 if all(engines[one.name] for one in plan.candidates) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say = parser.add_argument
    say("--quick", action="store_true", help="one peer, few rounds, fewer measures: under a minute")
    say("--rounds", type=int, help="how often everything is measured (7, or 3 with --quick)")
    say("--only", nargs="+", choices=MEASURES, metavar="MEASURE", help=", ".join(MEASURES))
    say("--peers", nargs="*", choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    say("--peer", action="append", default=[], type=_given, metavar="NAME[:TALK]=COMMAND")
    return parser.parse_args()


def _given(words: str) -> Candidate:
    try:
        return given(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _plan(options: argparse.Namespace) -> Plan:
    failures: defaultdict[str, dict[str, str]] = defaultdict(dict)
    mine = ours()[:2] if options.quick else ours()
    names = options.peers if options.peers is not None else QUICK_PEERS if options.quick else PEERS
    candidates = [*mine, *options.peer]
    for name in names:
        try:
            candidates.append(peer(name))
        except CannotInstall as error:
            failures[name][""] = str(error)
    measures = options.only or list(QUICK if options.quick else MEASURES)
    rounds = options.rounds or (3 if options.quick else 7)
    return Plan(candidates, measures, rounds, failures, defaultdict(int), {})


def notes(scratch: Path) -> Path:
    """Makes the workspace, with as many files of forty lines as there are calls; their path, {n} being the number."""
    workspace = scratch / "workspace"
    workspace.mkdir()
    for number in range(TOOL_TURNS):
        (workspace / f"notes-{number}.txt").write_text("".join(f"line {line}\n" for line in range(40)))
    return workspace / "notes-{n}.txt"


def _measure(bench: Bench, plan: Plan) -> tuple[Rounds, Rounds]:
    """Everybody once in every round, so that what disturbs the machine disturbs all alike."""
    engines: Rounds = defaultdict(lambda: defaultdict(list))
    floors: Rounds = defaultdict(lambda: defaultdict(list))
    for candidate in plan.candidates:
        _try("start", bench, candidate, plan)  # fills the page cache
    for number in range(1, plan.rounds + 1):
        for name in plan.measures:
            for candidate in plan.candidates:
                if plan.wants(candidate, name, number):
                    _progress(f"round {number} of {plan.rounds}: {name} of {candidate.name}")
                    _note(engines[candidate.name], _try(name, bench, candidate, plan))
            for what, imports in FLOORS.items():
                _note(floors[what], floor(bench, imports))
    _progress("")
    return engines, floors


def _try(name: str, bench: Bench, candidate: Candidate, plan: Plan) -> Figures:
    key, began = (candidate.name, name), time.monotonic()
    try:
        return MEASURES[name](bench, candidate)
    except (EngineFailed, OSError) as error:
        plan.failed[key] += 1
        plan.failures[candidate.name][name] = str(error)
        return {}
    finally:
        plan.slow[key] = max(plan.slow.get(key, 0.0), time.monotonic() - began)


def _note(rounds: defaultdict[str, list[float]], figures: Figures) -> None:
    for name, value in figures.items():
        rounds[name].append(value)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<60}\r", end="", file=sys.stderr, flush=True)


def _write(result: table.Result, plan: Plan, load: float) -> None:
    made = time.strftime("%Y-%m-%d", time.gmtime())
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    kept = {
        "made": made,
        "where": where,
        "load": round(load, 2),
        "versions": {one.name: one.version for one in plan.candidates if one.version},
        "engines": {who: {name: one._asdict() for name, one in found.items()} for who, found in result.engines.items()},
        "floors": {who: {name: one._asdict() for name, one in found.items()} for who, found in result.floors.items()},
        "failures": result.failures,
    }
    caption = f"make bench, {plan.rounds} rounds, {made}, {where}, load {load:.1f} before"
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    PICTURE.write_text(chart.draw(result, caption))
    report.write(PAGE, result, caption)


if __name__ == "__main__":
    sys.exit(main())
