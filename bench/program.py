"""Measure polylect, the floor and any peers, interleaved, against our own model server on loopback.

    python bench/run.py [--quick] [--rounds N] [--only MEASURE ...] [--peer 'NAME[:DIALECT]=COMMAND {base_url} {model}']

prints a table and writes bench/results.json. Run it on a quiet machine: everything shares its cores.
"""

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from bench import table
from bench.engines import Candidate, EngineFailed, peer, polylect
from bench.measures import FLOORS, MEASURES, Bench, Figures, floor
from bench.server import ModelServer

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results.json"
Rounds = defaultdict[str, defaultdict[str, list[float]]]


def main() -> int:
    options = _options()
    compileall.compile_dir(ROOT / "src", quiet=1)  # a start from sources alone takes 170 ms longer
    candidates = [polylect(), *options.peer]
    with tempfile.TemporaryDirectory(prefix="polylect-bench-") as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        to_read = workspace / "notes.txt"
        to_read.write_text("".join(f"line {number}\n" for number in range(40)))
        with ModelServer(to_read) as server:
            bench = Bench(server, workspace, environment(scratch))
            engines, floors = _measure(bench, candidates, options)
    found, below = table.summarise(engines), table.summarise(floors)
    print(table.render(found, below))
    _write(found, below)
    return 0 if len(found) == len(candidates) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds: under a minute")
    parser.add_argument("--rounds", type=int, help="how often everything is measured (11, or 5 with --quick)")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES), metavar="MEASURE")
    parser.add_argument("--peer", action="append", default=[], type=_peer, metavar="NAME[:DIALECT]=COMMAND")
    options = parser.parse_args()
    options.rounds = options.rounds or (5 if options.quick else 11)
    return options


def _peer(words: str) -> Candidate:
    try:
        return peer(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def environment(scratch: str) -> dict[str, str]:
    """What every engine is given: nothing of ours, so that no setting of this machine has a say."""
    home = Path(scratch, "home")
    home.mkdir()
    given = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": scratch}
    return given | {"ANTHROPIC_API_KEY": "bench", "OPENAI_API_KEY": "bench"}


def _measure(bench: Bench, candidates: list[Candidate], options: argparse.Namespace) -> tuple[Rounds, Rounds]:
    """Everybody once in every round, so that what disturbs the machine disturbs all alike."""
    engines: Rounds = defaultdict(lambda: defaultdict(list))
    floors: Rounds = defaultdict(lambda: defaultdict(list))
    for candidate in candidates:
        _try("start", bench, candidate)  # fills the page cache
    for number in range(1, options.rounds + 1):
        _progress(f"round {number} of {options.rounds}")
        for name in options.only:
            for candidate in candidates:
                _note(engines[candidate.name], _try(name, bench, candidate))
            for what, imports in FLOORS.items():
                _note(floors[what], floor(bench, imports))
    _progress("")
    return engines, floors


def _try(name: str, bench: Bench, candidate: Candidate) -> Figures:
    try:
        return MEASURES[name](bench, candidate)
    except (EngineFailed, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return {}


def _note(rounds: defaultdict[str, list[float]], figures: Figures) -> None:
    for name, value in figures.items():
        rounds[name].append(value)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<20}\r", end="", file=sys.stderr, flush=True)


def _write(engines: table.Summaries, floors: table.Summaries) -> None:
    result = {
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 2),
        "engines": {who: {name: one._asdict() for name, one in found.items()} for who, found in engines.items()},
        "floors": {who: {name: one._asdict() for name, one in found.items()} for who, found in floors.items()},
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
