"""`polylect engines`: lists the engines of the registry and whether each is installed on this machine.

Each is asked for its version, all at the same time. An engine that does not answer within `_TIMEOUT` is ended with
everything that it started.
"""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from polylect.app.cli.terminal import print_line
from polylect.host.engine_registry import ENGINES, EngineSpec, find
from polylect.host.process import located
from polylect.system.search_paths import absolute_only
from polylect.vocab.escape import escape_controls

USAGE = "usage: polylect engines [--json]   which engines this machine has"
_TIMEOUT = 10.0


def main(words: list[str]) -> int:
    if not set(words) <= {"--json"}:
        print(USAGE, file=sys.stderr)
        return 2
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(_inspect, ENGINES.values()))
    if words:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            state = str(row["version"] or row["problem"])
            print_line(f"{row['name']:<16} {row['dialect']:<11} {state:<28} {row['path'] or row['install']}".rstrip())
    return 0


def _inspect(engine: EngineSpec) -> dict[str, object]:
    argv = find(engine)
    row: dict[str, object] = {"name": engine.name, "dialect": engine.dialect, "version": "", "problem": ""}
    row |= {"path": " ".join(argv), "install": engine.install}
    try:
        code, line = _run_version([*argv, "--version"])
    except FileNotFoundError:
        return {**row, "path": "", "problem": "not installed"}
    except subprocess.TimeoutExpired:
        return {**row, "problem": f"did not answer within {_TIMEOUT:g} s"}
    except OSError as error:
        return {**row, "problem": f"cannot be started: {error.strerror}"}
    return {**row, "problem": f"does not work: {line}"} if code else {**row, "version": line}


def _run_version(argv: list[str]) -> tuple[int, str]:
    """Runs a program and returns its exit code and first line. Kills everything that it started."""
    pipe, env = subprocess.PIPE, absolute_only(os.environ)
    argv = [located(argv[0], env), *argv[1:]]
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as child:
        try:
            out, errors = child.communicate(timeout=_TIMEOUT)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    lines = (out.strip() or errors.strip()).decode(errors="replace").splitlines()
    return child.returncode, escape_controls(lines[0]) if lines else "?"
