"""`polylect engines`: lists the engines of the registry and whether each is installed on this machine.

Each is asked for its version, all at the same time. The process group of an engine that does not answer within
`_TIMEOUT` is killed. An engine that is newer than every version that was tried is named at the end.
"""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from polylect.app.cli.terminal import print_line, print_usage_error
from polylect.app.cli.tried_versions import TRIED, is_newer, newest_tried
from polylect.host.engine_registry import ENGINES, EngineSpec, find
from polylect.host.process import located
from polylect.system.search_paths import absolute_only
from polylect.vocab.escape import escape_controls

USAGE = "usage: polylect engines [--json]   which engines this machine has"
_TIMEOUT = 10.0


def main(words: list[str]) -> int:
    if not set(words) <= {"--json"}:
        return print_usage_error(words, ("--json",), USAGE, "polylect engines")
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(_inspect, ENGINES.values()))
    if words:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            state = str(row["version"] or row["problem"])
            print_line(f"{row['name']:<16} {row['dialect']:<11} {state:<28} {row['path'] or row['install']}".rstrip())
    for row in rows:
        if row["newer"]:
            print(_newer_notice(row), file=sys.stderr)
    return 0


def _newer_notice(row: dict[str, Any]) -> str:
    last = newest_tried(row["name"])
    assert last
    return (
        f"{row['name']}: {row['version']} is newer than {last.version}, the newest that was tried ({last.date})."
        " It will most likely work; if something is odd, report it with this version."
    )


def _inspect(engine: EngineSpec) -> dict[str, Any]:
    argv = find(engine)
    row: dict[str, Any] = {"name": engine.name, "dialect": engine.dialect, "version": "", "problem": ""}
    row |= {"path": " ".join(argv), "install": engine.install, "newer": False}
    row |= {"tried": [tried._asdict() for tried in TRIED.get(engine.name, ())]}
    try:
        code, line = _run_version([*argv, "--version"])
    except FileNotFoundError as error:
        inside = error.filename if error.filename != argv[0] else ""
        return {**row, "path": inside, "problem": error.strerror if inside else "not installed"}
    except subprocess.TimeoutExpired:
        return {**row, "problem": f"did not answer within {_TIMEOUT:g} s"}
    except OSError as error:
        return {**row, "problem": f"cannot be started: {error.strerror}"}
    if code:
        return {**row, "problem": f"does not work: {line}"}
    last = newest_tried(engine.name)
    return {**row, "version": line, "newer": last is not None and is_newer(line, last.version)}


def _run_version(argv: list[str]) -> tuple[int, str]:
    """Runs a program and returns its exit code and first line. Then kills its process group."""
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
