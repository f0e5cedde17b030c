"""The figures of the way to a model, on every wire that the model server speaks: `python -m bench.wires [--rounds N]`.

The host's wire is json-stream; `native` is Anthropic's wire to the model and the native one to the host.

Prints a table and fails if a bound is missed. Run it on a quiet machine: everything shares its cores.
"""

import argparse
import compileall
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.candidates import ours
from bench.engines import Candidate
from bench.measures import Bench, Figures, deltas, flood, prompts
from bench.model_server import WORD
from bench.program import ROOT, notes
from bench.server import ModelServer

FEW, MANY, LOTS = 20_000, 100_000, 400_000
BOUNDS = {
    "prompt to request, cold ms": 40.0,
    "prompt to request, warm ms": 2.0,
    "delta to line, warm ms": 1.0,
    "delta at full speed us": 1e6 / 80_000,
    "100 000 cost as 20 000, times": MANY / FEW * 1.2,
    "memory beyond, times the text": 8.0,
}
"""At most these. A text is held by the parser and by the reply while it grows, and then as a whole and as a line of
the session, and Responses itself repeats it twice: memory may grow with the text, not with the number of deltas."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    compileall.compile_dir(ROOT / "src", quiet=1)
    with tempfile.TemporaryDirectory(prefix="polylect-bench-") as scratch:
        found = measure(Path(scratch), rounds)
    print(f"{'':34}" + "".join(f"{name:>12}" for name in (*found, "at most")))
    for figure, bound in BOUNDS.items():
        print(f"{figure:34}" + "".join(f"{one[figure]:12.2f}" for one in found.values()) + f"{bound:12.2f}")
    return 1 if any(one[figure] > bound for one in found.values() for figure, bound in BOUNDS.items()) else 0


def measure(scratch: Path, rounds: int) -> dict[str, Figures]:
    """Medians by wire. Every wire once in every round, so that what disturbs the machine disturbs all alike."""
    values: dict[str, defaultdict[str, list[float]]] = {}
    with ModelServer(notes(scratch)) as server:
        bench = Bench(server, scratch)
        for _ in range(rounds):
            for wire in wires(scratch):
                kept = values.setdefault(wire.name, defaultdict(list))
                for figure, value in once(bench, wire).items():
                    kept[figure].append(value)
    return {wire: {figure: median(every) for figure, every in kept.items()} for wire, kept in values.items()}


def wires(scratch: Path) -> Iterator[Candidate]:
    polylect, native = ours()[:2]
    yield polylect._replace(name="anthropic")
    yield native._replace(name="native")
    chat = polylect._replace(name="chat", command=polylect.command.replace("--provider anthropic", "--provider openai"))
    yield chat
    settings = scratch / "responses.toml"
    settings.write_text('[providers.openai]\napi = "responses"\n')
    yield chat._replace(name="responses", command=f"{chat.command} --config {settings}")


def once(bench: Bench, wire: Candidate) -> Figures:
    found = {**flood(FEW)(bench, wire), **flood(MANY)(bench, wire), **flood(LOTS)(bench, wire)}
    text = (LOTS - MANY) * WORD / 2**20
    return {
        **prompts(bench, wire),
        **deltas(bench, wire),
        "delta at full speed us": 1e6 / found[f"{FEW} deltas, per s"],
        "100 000 cost as 20 000, times": found[f"{MANY} deltas, CPU s"] / found[f"{FEW} deltas, CPU s"],
        "memory beyond, times the text": (found[f"{LOTS} deltas, peak MiB"] - found[f"{MANY} deltas, peak MiB"]) / text,
    }


if __name__ == "__main__":
    sys.exit(main())
