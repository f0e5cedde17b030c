"""`polylect engines`: which engines this machine has."""

import json
import subprocess
import sys

from polylect.host.known import ENGINES, Known, find

_PATIENCE = 10.0


def main(words: list[str]) -> int:
    if not set(words) <= {"--json"}:
        print("usage: polylect engines [--json]", file=sys.stderr)
        return 2
    found = [_look(engine) for engine in ENGINES.values()]
    if words:
        print(json.dumps(found, indent=2))
    else:
        for one in found:
            state = str(one["version"] or one["problem"])
            print(f"{one['name']:<16} {one['dialect']:<11} {state:<28} {one['path'] or one['install']}")
    return 0


def _look(engine: Known) -> dict[str, object]:
    argv = find(engine)
    told: dict[str, object] = {"name": engine.name, "dialect": engine.dialect, "version": "", "problem": ""}
    try:
        ran = subprocess.run(
            [*argv, "--version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return {**told, "path": "", "install": engine.install, "problem": "not installed"}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {**told, "path": argv[0], "install": engine.install, "problem": f"does not answer: {error}"}
    lines = (ran.stdout or ran.stderr).strip().splitlines()
    return {**told, "path": " ".join(argv), "install": engine.install, "version": lines[0] if lines else "?"}
