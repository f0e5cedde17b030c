"""`polylect doctor`: what is configured, found and missing, and what to do about it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from polylect import __version__
from polylect.app.cli.models import obstacle
from polylect.app.cli.terminal import print_error, print_line
from polylect.app.startup import config
from polylect.app.startup.args import FLAGS, UsageError, parse
from polylect.app.startup.start import sessions_root
from polylect.engine.context.instructions import instructions
from polylect.engine.context.reading_rules import reading_fault
from polylect.extensions.find import files_in, installed, offered
from polylect.permissions.rulebook import rules_in
from polylect.permissions.rules import BadRule
from polylect.providers.check import PROVIDERS
from polylect.tools.process.programs import find_ripgrep

if TYPE_CHECKING:
    from polylect.app.cli.trial_start import Trial

USAGE = """\
usage: polylect doctor [--online] [--json] [flags of the engine]   what is configured, found and missing
  --online   also try the keys
  The flags of polylect --help are taken into account, as --provider NAME."""
_MARKS = {"ok": "✓", "note": "·", "bad": "✗"}
_WORDS = ("--json", "--online")
_LOOKS = {
    "anthropic": ("ANTHROPIC_API_KEY", ("sk-ant-",)),
    "openai": ("OPENAI_API_KEY", ("sk-",)),
    "bedrock": ("AWS_ACCESS_KEY_ID", ("AKIA", "ASIA")),
}
"""How the keys of the services themselves begin."""
Finding = tuple[str, str, str]
"""How it is, what it is about, and what to know."""


def main(words: list[str]) -> int:
    try:
        known = {**FLAGS, **{word: ("switch", word) for word in _WORDS}}
        flags, rest = parse(words, known, usage="polylect doctor --help")
        if rest:
            raise UsageError(f"{rest[0]!r} is not a flag")
    except UsageError as error:
        print_error(error, "polylect doctor")
        print(USAGE, file=sys.stderr)
        return 2
    flags = {name: value for name, value in flags.items() if name not in _WORDS}
    workspace = os.path.realpath(str(flags.get("workspace") or os.getcwd()))
    findings = list(_findings(flags, dict(os.environ), workspace, online="--online" in words))
    if "--json" in words:
        import json

        print(
            json.dumps(
                [dict(zip(("state", "subject", "detail"), finding, strict=True)) for finding in findings], indent=2
            )
        )
    else:
        for state, subject, detail in findings:
            print_line(f" {_MARKS[state]} {subject:<12} {detail}")
    return 1 if any(state == "bad" for state, _, _ in findings) else 0


def _findings(flags: config.Values, env: dict[str, str], workspace: str, *, online: bool) -> Iterator[Finding]:
    yield (
        "ok",
        "polylect",
        f"{__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield "ok", "workspace", workspace
    notes: list[str] = []
    try:
        found = config.gather(flags, env, workspace, notes)
    except config.ConfigError as error:
        yield "bad", "settings", str(error)
        found = {"provider": ""}
    else:
        yield from _settings(found, config.files(env, workspace), notes)
    from polylect.app.cli.trial_start import try_start  # the engine and asyncio

    trial = try_start(flags, env)
    yield from _start(trial)
    yield from _providers(found, env, online=online)
    yield from _sessions(trial, env)
    yield from _instructions(found, env, workspace)
    yield from _extensions(trial, flags, found, env, workspace)
    yield from _servers(trial)
    yield from _programs()
    yield from _custody()
    yield from _sandbox(found, env, workspace)


def _settings(found: config.Values, files: list[str], notes: list[str]) -> Iterator[Finding]:
    for path in files:
        yield "ok", "settings", path
    for note in notes:
        yield "note", "settings", note
    values = config.choose(found, str(found["provider"]))
    told = {name: value for name, value in values.items() if name != "api_key"}
    if isinstance(servers := told.get("mcp_servers"), dict):
        told["mcp_servers"] = list(servers)  # what is in them may be secret
    yield "ok", "settings", ", ".join(f"{name}={value}" for name, value in sorted(told.items()))


def _start(trial: "Trial") -> Iterator[Finding]:
    """Whether an engine with these settings starts, as one was just started."""
    if trial.error:
        yield "bad", "start", f"an engine does not start: {trial.error}"
    else:
        model = f"{trial.values['provider']}/{trial.values.get('model') or 'any'}"
        yield "ok", "start", f"an engine would start with these settings, and {model} would answer"


def _servers(trial: "Trial") -> Iterator[Finding]:
    """The MCP servers of the settings, each tried."""
    for server in trial.servers:
        tools = "1 tool" if len(server.tools) == 1 else f"{len(server.tools)} tools"
        match server.status:
            case "connected":
                yield "ok", "mcp", f"{server.name}: {tools} ({server.transport})"
            case "disabled":
                yield "note", "mcp", f"{server.name}: disabled in the settings"
            case _:
                yield "bad", "mcp", f"{server.name}: {server.error or 'it was not up in time'}"


def _providers(found: config.Values, env: dict[str, str], *, online: bool) -> Iterator[Finding]:
    reasons = {provider: obstacle(found, provider, env) for provider in PROVIDERS}
    usable = {provider: config.choose(found, provider) for provider, reason in reasons.items() if not reason}
    for provider, reason in reasons.items():
        yield ("note", provider, reason) if reason else ("ok", provider, "can be used")
        if not reason and (remark := _looks_wrong(provider, usable[provider], env)):
            yield "note", provider, remark
    if online:
        import asyncio

        from polylect.app.cli.online_check import verdicts  # the providers and asyncio

        asked = {provider: values for provider, values in usable.items() if provider not in ("scripted", "local")}
        for provider, (state, detail) in asyncio.run(verdicts(asked, env)).items():
            yield state, provider, detail


def _looks_wrong(provider: str, values: config.Values, env: dict[str, str]) -> str:
    """A remark if the key does not look like those that the service gives out; other services' keys look otherwise."""
    if provider not in _LOOKS or values.get("base_url") or env.get(f"{provider.upper()}_BASE_URL"):
        return ""
    variable, beginnings = _LOOKS[provider]
    key = str(values.get("api_key") or env.get(variable) or "")
    if not key or key.startswith(beginnings):
        return ""
    return f"{variable} does not look like a key of this service: those begin with {' or '.join(beginnings)}"


def _sessions(trial: "Trial", env: dict[str, str]) -> Iterator[Finding]:
    root = sessions_root(trial.values, env)
    if trial.session_error:
        yield "bad", "sessions", f"{trial.session_error} (sessions are kept in {root})"
    elif trial.values.get("no_session") or trial.values.get("sessions") is False:
        yield "note", "sessions", "not kept: they are switched off"
    elif trial.values:
        yield "ok", "sessions", f"kept in {root}"


def _instructions(found: config.Values, env: dict[str, str], workspace: str) -> Iterator[Finding]:
    try:
        told = {name: found[name] for name in ("deny", "ask") if found.get(name)}
        rules = rules_in(told, workspace, env.get("HOME") or os.path.expanduser("~"))
    except BadRule:
        return  # the engine would not start, which is said above
    for one in instructions(workspace, env, partial(reading_fault, rules)):
        if one.fault:
            yield "note", "instructions", f"{one.path} is not told to the model: {one.fault}"
        else:
            yield "ok", "instructions", f"{one.path}, {len(one.text)} characters"


def _extensions(
    trial: "Trial", flags: config.Values, found: config.Values, env: dict[str, str], workspace: str
) -> Iterator[Finding]:
    """The user's own code that an engine loads. A project's counts only if it is trusted: the settings say so."""
    for path, why in trial.extension_errors:
        yield "bad", "extension", f"{path}: {why}"
    broken = {path for path, _ in trial.extension_errors}
    places = config.extension_folders(env, workspace, trusted=bool(flags.get("trust_workspace")))
    named = flags.get("extensions")
    files = [path for place in places for path in files_in(place)]
    for path in [*files, *named] if isinstance(named, list) else files:
        if path in trial.error:
            yield "bad", "extension", trial.error
        elif path not in broken and trial.error:
            yield "note", "extension", f"{path}: not tried, because an engine does not start"
        elif path not in broken:
            yield "ok", "extension", path
    for name, _ in installed() if offered() else []:
        if name not in broken:
            yield "ok", "extension", f"{name}, of an installed package"
    hooks = found.get("hooks")
    for moment, rows in hooks.items() if isinstance(hooks, dict) else ():
        yield "ok", "hooks", f"{moment}: {len(rows)}"


def _programs() -> Iterator[Finding]:
    path = find_ripgrep()
    missing = "not found: Grep and Glob search in plain Python, more slowly"
    yield ("ok", "ripgrep", path) if path else ("note", "ripgrep", missing)
    shell = shutil.which("bash") or shutil.which("sh")
    yield ("ok", "shell", shell) if shell else ("bad", "shell", "neither bash nor sh is on PATH: Bash calls will fail")


def _custody() -> Iterator[Finding]:
    if sys.platform == "linux":
        yield "ok", "processes", "children are watched by a guardian and end with the engine, even if it is killed"
    else:
        yield "note", "processes", "children end with their process group; one that leaves it may survive"


def _sandbox(found: config.Values, env: dict[str, str], workspace: str) -> Iterator[Finding]:
    from polylect.app.serving.sandbox_setup import environment_findings, prove  # asyncio

    for state, detail in environment_findings(found, env):
        yield state, "environment", detail
    for state, detail in prove(found, env, workspace):
        yield state, "sandbox", detail
