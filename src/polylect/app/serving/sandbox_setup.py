"""The sandbox that the settings ask for, and the proof that it holds."""

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from polylect.app.startup.config import Values
from polylect.app.startup.secrets import is_secret
from polylect.sessions import folder
from polylect.system.child_environment import command_environment, withheld
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox.sandbox import Sandbox

_MOST_NAMES = 20
# Each line is one attempt from inside: what was tried, and whether it could be done.
_PROBE = """\
try() { if eval "$2" >/dev/null 2>&1; then echo "$1 yes"; else echo "$1 no"; fi; }
try workspace 'touch "$INSIDE" && rm "$INSIDE"'
try outside 'touch "$OUTSIDE"'
for path in $HIDDEN; do try "$path" 'grep -rqs . "$path"'; done
"""


def open_sandbox(values: Values, env: dict[str, str], session: str = "") -> Sandbox:
    """Sessions are hidden, except for what this one has put aside for the model to read."""
    mode: Any = values.get("sandbox") or "auto"
    root = str(values.get("sessions_root") or folder.sessions_root(env))
    return Sandbox(
        mode,
        network=values.get("sandbox_network") is not False,
        writable=names(values, "sandbox_writable"),
        hidden=[*names(values, "sandbox_hidden"), root],
        readable=[os.path.join(session, "spill")] if session else [],
        env=env,
    )


def prove(values: Values, env: dict[str, str], workspace: str) -> Iterator[tuple[str, str]]:
    """How the sandbox is and what to know: found out by trying what it should not let through."""
    sandbox = open_sandbox(values, env)
    yield from asyncio.run(_prove(sandbox, env, workspace))


async def _prove(sandbox: Sandbox, env: dict[str, str], workspace: str) -> list[tuple[str, str]]:
    custody = Custody()
    try:
        await sandbox.detect(workspace, custody)
        if sandbox.kind == "none":
            return [("note", f"none, commands run with your rights: {sandbox.why}")]
        return await _tried(sandbox, env, workspace, custody)
    except Exception as error:  # noqa: BLE001  (whatever it is, the reader wants to know)
        return [("bad", str(error))]
    finally:
        await custody.close()


async def _tried(sandbox: Sandbox, env: dict[str, str], workspace: str, custody: Custody) -> list[tuple[str, str]]:
    fence = sandbox.fence(workspace, (workspace,))
    name = f".polylect-probe-{os.urandom(4).hex()}"
    outside = os.path.join(_somewhere_else(fence.writable, env), name)
    told = {"INSIDE": os.path.join(workspace, name), "OUTSIDE": outside, "HIDDEN": " ".join(_plain(fence.hidden))}
    said: list[bytes] = []
    argv = await sandbox.argv(("/bin/sh", "-c", _PROBE), workspace, (workspace,), custody)
    await custody.run(
        argv,
        cwd=workspace,
        env={"PATH": env.get("PATH", os.defpath), **told},
        timeout=10,
        on_output=lambda stream, data: said.append(data),
    )
    got = dict(line.rsplit(" ", 1) for line in b"".join(said).decode(errors="replace").splitlines() if " " in line)
    return _verdicts(sandbox, got, outside, told["HIDDEN"].split())


def _verdicts(sandbox: Sandbox, got: dict[str, str], outside: str, hidden: list[str]) -> list[tuple[str, str]]:
    leaks = [path for path in hidden if got.get(path) != "no"]
    if os.path.exists(outside):
        os.unlink(outside)
        leaks.append(os.path.dirname(outside))
    if leaks or got.get("outside") != "no":
        return [("bad", f"{sandbox.kind} does not hold: a command could reach {', '.join(leaks) or outside}")]
    network = "" if sandbox.network else ", no network"
    found = [
        ("ok", f"{sandbox.kind}: tried, {os.path.dirname(outside)} is read-only, {len(hidden)} secrets hidden{network}")
    ]
    if got.get("workspace") != "yes":
        found.append(("note", "commands cannot write in this workspace"))
    return found + ([("note", sandbox.why)] if sandbox.why else [])


def _somewhere_else(writable: Sequence[str], env: dict[str, str]) -> str:
    """A folder that we could write and a command should not."""
    for path in (env.get("HOME") or "/", "/usr/local", "/usr", "/"):
        if not any(path == one or path.startswith(one.rstrip("/") + "/") for one in writable):
            return path
    return "/"


def _plain(paths: Sequence[str]) -> list[str]:
    """Those that a shell script can take as words."""
    return [path for path in paths if not set(path) & set(" \t\n*?[")]


def names(values: Values, setting: str) -> list[str]:
    """A setting that is a list of texts; empty if it was not made."""
    value = values.get(setting)
    return value if isinstance(value, list) else []


def withheld_notice(env: Mapping[str, str], passed: Collection[str]) -> str:
    """One sentence with the names of the variables that commands do not get; empty if there are none worth a word."""
    missing = [name for name in withheld(env, passed) if not is_secret(name)]  # the model's keys are never passed on
    if not missing:
        return ""
    more = f" and {len(missing) - _MOST_NAMES} more (polylect doctor lists them)" if len(missing) > _MOST_NAMES else ""
    return (
        f"Commands do not get these variables of your environment: {', '.join(missing[:_MOST_NAMES])}{more}."
        " To pass one on, name it in [sandbox] env of your own settings."
    )


def environment_findings(values: Values, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """For `doctor`: which variables commands see, and which they do not. Never a value."""
    passed = command_environment(env, names(values, "sandbox_env"))
    yield "ok", f"commands get {len(passed)} of {len(env)} variables"
    if missing := withheld(env, passed, all_of_them=True):
        yield "note", f"withheld from commands: {', '.join(missing)}; [sandbox] env in your settings passes one on"
