"""`polylect engines`: which engines this machine has."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from polylect.app.cli.terminal import print_line
from polylect.host.engine_registry import ENGINES, Known, find
from polylect.host.process import located
from polylect.system.search_paths import absolute_only
from polylect.vocab.escape import escape_controls

USAGE = "usage: polylect engines [--json]   which engines this machine has"
_PATIENCE = 10.0


def main(words: list[str]) -> int:
    if not set(words) <= {"--json"}:
        print(USAGE, file=sys.stderr)
        return 2
    with ThreadPoolExecutor() as looking:
        found = list(looking.map(_look, ENGINES.values()))
    if words:
        print(json.dumps(found, indent=2))
    else:
        for one in found:
            state = str(one["version"] or one["problem"])
            print_line(f"{one['name']:<16} {one['dialect']:<11} {state:<28} {one['path'] or one['install']}".rstrip())
    return 0


def _look(engine: Known) -> dict[str, object]:
    argv = find(engine)
    told: dict[str, object] = {"name": engine.name, "dialect": engine.dialect, "version": "", "problem": ""}
    told |= {"path": " ".join(argv), "install": engine.install}
    try:
        code, said = _said([*argv, "--version"])
    except FileNotFoundError:
        return {**told, "path": "", "problem": "not installed"}
    except subprocess.TimeoutExpired:
        return {**told, "problem": f"did not answer within {_PATIENCE:g} s"}
    except OSError as error:
        return {**told, "problem": f"cannot be started: {error.strerror}"}
    return {**told, "problem": f"does not work: {said}"} if code else {**told, "version": said}


def _said(argv: list[str]) -> tuple[int, str]:
    """Its exit code and its first line. Nothing that it started is left."""
    pipe, env = subprocess.PIPE, absolute_only(os.environ)
    argv = [located(argv[0], env), *argv[1:]]
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as child:
        try:
            out, errors = child.communicate(timeout=_PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    lines = (out.strip() or errors.strip()).decode(errors="replace").splitlines()
    return child.returncode, escape_controls(lines[0]) if lines else "?"
