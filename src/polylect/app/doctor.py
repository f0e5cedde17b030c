"""`polylect doctor`: what is configured, found and missing, and what to do about it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator

from polylect import __version__
from polylect.app import config
from polylect.engine import folder
from polylect.providers.check import check
from polylect.tools.programs import find_program

_MARKS = {"ok": "✓", "note": "·", "bad": "✗"}
_PROVIDERS = ("scripted", "anthropic", "openai", "bedrock", "vertex")
Finding = tuple[str, str, str]
"""How it is, what it is about, and what to know."""


def main(words: list[str]) -> int:
    if words not in ([], ["--json"]):
        print("usage: polylect doctor [--json]", file=sys.stderr)
        return 2
    findings = list(_findings(dict(os.environ), os.path.realpath(os.getcwd())))
    if words:
        import json

        print(
            json.dumps(
                [dict(zip(("state", "subject", "detail"), finding, strict=True)) for finding in findings], indent=2
            )
        )
    else:
        for state, subject, detail in findings:
            print(f" {_MARKS[state]} {subject:<12} {detail}")
    return 1 if any(state == "bad" for state, _, _ in findings) else 0


def _findings(env: dict[str, str], workspace: str) -> Iterator[Finding]:
    yield (
        "ok",
        "polylect",
        f"{__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield "ok", "workspace", workspace
    yield from _settings(env, workspace)
    yield from _providers(env)
    yield from _sessions(env)
    yield from _programs()
    yield from _custody()


def _settings(env: dict[str, str], workspace: str) -> Iterator[Finding]:
    notes: list[str] = []
    try:
        values = config.load({}, env, workspace, notes)
    except config.ConfigError as error:
        yield "bad", "settings", str(error)
        return
    for path in config.files(env, workspace):
        yield "ok", "settings", path
    for note in notes:
        yield "note", "settings", note
    told = {name: value for name, value in values.items() if name != "api_key"}
    yield "ok", "settings", ", ".join(f"{name}={value}" for name, value in sorted(told.items()))


def _providers(env: dict[str, str]) -> Iterator[Finding]:
    for provider in _PROVIDERS:
        reason = check(provider, env=env)
        yield ("note", provider, reason) if reason else ("ok", provider, "can be used")


def _sessions(env: dict[str, str]) -> Iterator[Finding]:
    root = folder.sessions_root(env)
    parent = root
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK):
        yield "ok", "sessions", f"kept in {root}"
    else:
        yield "bad", "sessions", f"{root} cannot be written; set POLYLECT_HOME to a folder that can"


def _programs() -> Iterator[Finding]:
    path = find_program("rg", dict(os.environ))
    missing = "not found: Grep and Glob search in plain Python, more slowly"
    yield ("ok", "ripgrep", path) if path else ("note", "ripgrep", missing)
    shell = shutil.which("bash") or shutil.which("sh")
    yield ("ok", "shell", shell) if shell else ("bad", "shell", "neither bash nor sh is on PATH: Bash calls will fail")


def _custody() -> Iterator[Finding]:
    if sys.platform == "linux":
        yield "ok", "processes", "children are watched by a guardian and end with the engine, even if it is killed"
    else:
        yield "note", "processes", "children end with their process group; one that leaves it may survive"
    yield "note", "sandbox", "none in this version: commands run with your rights, after your approval"
