"""Makes the sandbox that the settings describe, and checks for `polylect doctor` that it works.

The check runs a shell script in the sandbox that tries to write outside the workspace and to read hidden files: only a
sandbox that has prevented both is reported as ok. `assembly.py` uses the same `open_sandbox`.
"""

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from polylect.app.startup.config import Values, texts
from polylect.app.startup.secrets import is_secret
from polylect.sessions import folder
from polylect.system.child_environment import command_environment, withheld
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox.sandbox import Sandbox

_MAX_NAMES = 20
# Each line of its output is one attempt: what was tried, and whether it could be done.
_PROBE = """\
try() { if eval "$2" >/dev/null 2>&1; then echo "$1 yes"; else echo "$1 no"; fi; }
try workspace 'touch "$INSIDE" && rm "$INSIDE"'
try outside 'touch "$OUTSIDE"'
for path in $HIDDEN; do try "$path" 'grep -rqs . "$path"'; done
"""


def open_sandbox(values: Values, env: dict[str, str], session: str = "") -> Sandbox:
    """The sandbox of the settings.

    All sessions are hidden in it, except the long output of `session` that the model may read.
    """
    mode: Any = values.get("sandbox") or "auto"
    root = str(values.get("sessions_root") or folder.sessions_root(env))
    return Sandbox(
        mode,
        network=values.get("sandbox_network") is not False,
        writable=texts(values, "sandbox_writable"),
        hidden=[*texts(values, "sandbox_hidden"), root],
        readable=[os.path.join(session, "spill")] if session else [],
        env=env,
    )


def check_sandbox(values: Values, env: dict[str, str], workspace: str) -> Iterator[tuple[str, str]]:
    """Tries what the sandbox should prevent, and yields a state and a text for each finding."""
    sandbox = open_sandbox(values, env)
    yield from asyncio.run(_check(sandbox, env, workspace))


async def _check(sandbox: Sandbox, env: dict[str, str], workspace: str) -> list[tuple[str, str]]:
    custody = Custody()
    try:
        await sandbox.detect(workspace, custody)
        if sandbox.kind == "none":
            return [("note", f"none, commands run with your rights: {sandbox.why}")]
        return await _run_probe(sandbox, env, workspace, custody)
    except Exception as error:  # noqa: BLE001  (any error is a finding)
        return [("bad", str(error))]
    finally:
        await custody.close()
        sandbox.close()


async def _run_probe(sandbox: Sandbox, env: dict[str, str], workspace: str, custody: Custody) -> list[tuple[str, str]]:
    fence = sandbox.fence(workspace, (workspace,))
    name = f".polylect-probe-{os.urandom(4).hex()}"
    outside = os.path.join(_outside_folder(fence.writable, env), name)
    hidden = _shell_words(fence.hidden)
    variables = {"INSIDE": os.path.join(workspace, name), "OUTSIDE": outside, "HIDDEN": " ".join(hidden)}
    output: list[bytes] = []
    argv = await sandbox.argv(("/bin/sh", "-c", _PROBE), workspace, (workspace,), custody)
    await custody.run(
        argv,
        cwd=workspace,
        env={"PATH": env.get("PATH", os.defpath), **variables},
        timeout=10,
        on_output=lambda stream, data: output.append(data),
    )
    lines = b"".join(output).decode(errors="replace").splitlines()
    results = dict(line.rsplit(" ", 1) for line in lines if " " in line)
    return _verdicts(sandbox, results, outside, hidden)


def _verdicts(sandbox: Sandbox, results: dict[str, str], outside: str, hidden: list[str]) -> list[tuple[str, str]]:
    leaks = [path for path in hidden if results.get(path) != "no"]
    if os.path.exists(outside):
        os.unlink(outside)
        leaks.append(os.path.dirname(outside))
    if leaks or results.get("outside") != "no":
        return [("bad", f"{sandbox.kind} does not hold: a command could reach {', '.join(leaks) or outside}")]
    network = "" if sandbox.network else ", no network"
    findings = [
        ("ok", f"{sandbox.kind}: tried, {os.path.dirname(outside)} is read-only, {len(hidden)} secrets hidden{network}")
    ]
    if results.get("workspace") != "yes":
        findings.append(("note", "commands cannot write in this workspace"))
    return findings + ([("note", sandbox.why)] if sandbox.why else [])


def _outside_folder(writable: Sequence[str], env: dict[str, str]) -> str:
    """A folder that a command in the sandbox must not be able to write."""
    for path in (env.get("HOME") or "/", "/usr/local", "/usr", "/"):
        if not any(path == one or path.startswith(one.rstrip("/") + "/") for one in writable):
            return path
    return "/"


def _shell_words(paths: Sequence[str]) -> list[str]:
    """The paths that need no quoting in a shell script."""
    return [path for path in paths if not set(path) & set(" \t\n*?[")]


def withheld_notice(env: Mapping[str, str], passed: Collection[str]) -> str:
    """One sentence with the names of the variables that commands do not get; empty if there are none."""
    missing = [name for name in withheld(env, passed) if not is_secret(name)]  # the model's keys are never passed on
    if not missing:
        return ""
    more = f" and {len(missing) - _MAX_NAMES} more (polylect doctor lists them)" if len(missing) > _MAX_NAMES else ""
    return (
        f"Commands do not get these variables of your environment: {', '.join(missing[:_MAX_NAMES])}{more}."
        " To pass one on, name it in [sandbox] env of your own settings."
    )


def environment_findings(values: Values, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """For `doctor`: which variables commands see, and which they do not. Never a value."""
    passed = command_environment(env, texts(values, "sandbox_env"))
    yield "ok", f"commands get {len(passed)} of {len(env)} variables"
    if missing := withheld(env, passed, all_of_them=True):
        yield "note", f"withheld from commands: {', '.join(missing)}; [sandbox] env in your settings passes one on"
