"""`polylect doctor`: reports what is configured, what was found and what is missing, and what to do about it.

Each function yields lines of the report for one subject. The start itself is tried out by `serving/start_check.py`, MCP
servers by `serving/server_probe.py`, keys by `online_check.py` (only with --online), the sandbox by
`serving/sandbox_setup.py`. The exit code is 1 if anything is bad. No secret is printed.
"""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from polylect import __version__
from polylect.app.cli.models import unusable_reason
from polylect.app.cli.terminal import print_error, print_line
from polylect.app.startup import config
from polylect.app.startup.args import FLAGS, UsageError, parse
from polylect.app.startup.start import sessions_root
from polylect.engine.context.instructions import InstructionFiles
from polylect.extensions.discovery import files_in, has_installed, installed_extensions
from polylect.permissions.rulebook import reading_fault, rules_in
from polylect.permissions.rules import BadRule
from polylect.providers.check import describe, providers
from polylect.tools.process.programs import find_ripgrep

if TYPE_CHECKING:
    from polylect.app.serving.start_check import StartReport

USAGE = """\
usage: polylect doctor [--online] [--json] [flags of the engine]   what is configured, found and missing
  --online   also try the keys
  The flags of polylect --help are taken into account, as --provider NAME."""
_MARKS = {"ok": "✓", "note": "·", "bad": "✗"}
_OWN_FLAGS = ("--json", "--online")
_KEY_PREFIXES = {
    "anthropic": ("ANTHROPIC_API_KEY", ("sk-ant-",)),
    "openai": ("OPENAI_API_KEY", ("sk-",)),
    "bedrock": ("AWS_ACCESS_KEY_ID", ("AKIA", "ASIA")),
}
"""The variable that holds a key, and how keys of the vendor itself begin."""
Finding = tuple[str, str, str]
"""The state, the subject and the detail of one line of the report."""


def main(words: list[str]) -> int:
    try:
        all_flags = {**FLAGS, **{word: ("switch", word) for word in _OWN_FLAGS}}
        flags, rest = parse(words, all_flags, usage="polylect doctor --help")
        if rest:
            raise UsageError(f"{rest[0]!r} is not a flag")
    except UsageError as error:
        print_error(error, "polylect doctor")
        print(USAGE, file=sys.stderr)
        return 2
    flags = {name: value for name, value in flags.items() if name not in _OWN_FLAGS}
    workspace = os.path.realpath(str(flags.get("workspace") or os.getcwd()))
    findings = list(_findings(flags, dict(os.environ), workspace, online="--online" in words))
    if "--json" in words:
        import json

        rows = [dict(zip(("state", "subject", "detail"), finding, strict=True)) for finding in findings]
        print(json.dumps(rows, indent=2))
    else:
        for state, subject, detail in findings:
            print_line(f" {_MARKS[state]} {subject:<12} {detail}")
    return 1 if any(state == "bad" for state, _, _ in findings) else 0


def _findings(flags: config.Values, env: dict[str, str], workspace: str, *, online: bool) -> Iterator[Finding]:
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield "ok", "polylect", f"{__version__} on {python}"
    yield "ok", "workspace", workspace
    notes: list[str] = []
    try:
        settings = config.gather(flags, env, workspace, notes)
    except config.ConfigError as error:
        yield "bad", "settings", str(error)
        settings = {"provider": ""}
    else:
        yield from _settings(settings, config.files(env, workspace), notes)
    from polylect.app.serving.start_check import check_start  # the engine and asyncio

    report = check_start(flags, env)
    yield from _start(report)
    yield from _providers(settings, env, online=online)
    yield from _sessions(report, env)
    yield from _instructions(settings, env, workspace)
    yield from _extensions(report, flags, settings, env, workspace)
    yield from _servers(flags, env)
    yield from _programs()
    yield from _custody()
    yield from _sandbox(settings, env, workspace)


def _settings(settings: config.Values, files: list[str], notes: list[str]) -> Iterator[Finding]:
    for path in files:
        yield "ok", "settings", path
    for note in notes:
        yield "note", "settings", note
    values = config.choose(settings, str(settings["provider"]))
    shown = {name: value for name, value in values.items() if name != "api_key"}
    if isinstance(servers := shown.get("mcp_servers"), dict):
        shown["mcp_servers"] = list(servers)  # their settings may hold secrets
    if not values["provider"]:
        del shown["provider"]
        yield "note", "settings", "no provider: set default.provider, --provider or POLYLECT_PROVIDER, or a key"
    if shown:
        yield "ok", "settings", ", ".join(f"{name}={value}" for name, value in sorted(shown.items()))


def _start(report: "StartReport") -> Iterator[Finding]:
    """Whether an engine started."""
    if report.error:
        yield "bad", "start", f"an engine does not start: {report.error}"
    else:
        model = f"{report.values['provider']}/{report.values.get('model') or 'any'}"
        yield "ok", "start", f"an engine would start with these settings, and {model} would answer"


def _servers(flags: config.Values, env: dict[str, str]) -> Iterator[Finding]:
    """The MCP servers of the settings, each of which is started; `polylect mcp list` has the same."""
    from polylect.app.serving.server_probe import probe, read_settings  # asyncio and custody

    try:
        settings = read_settings(flags, env, [])
    except config.ConfigError:
        return  # it is reported above
    for report in probe(settings, settings.servers):
        name, tools = report.configured.name, "1 tool" if len(report.tools) == 1 else f"{len(report.tools)} tools"
        match report.status.status:
            case "ready":
                yield "ok", "mcp", f"{name}: {tools}, {report.tokens} tokens ({report.status.transport})"
            case "disabled":
                yield "note", "mcp", f"{name}: disabled in the settings"
            case _:
                yield "bad", "mcp", f"{name}: {report.status.reason}"


def _providers(settings: config.Values, env: dict[str, str], *, online: bool) -> Iterator[Finding]:
    problems = {provider: unusable_reason(settings, provider, env) for provider in providers()}
    usable = {provider: config.choose(settings, provider) for provider, problem in problems.items() if not problem}
    for provider, problem in problems.items():
        yield ("note", provider, problem) if problem else ("ok", provider, "can be used")
        if not problem and (remark := _key_remark(provider, usable[provider], env)):
            yield "note", provider, remark
    if online:
        import asyncio

        from polylect.app.cli.online_check import verdicts  # the providers and asyncio

        to_check = {provider: values for provider, values in usable.items() if describe(provider).key_variables}
        for provider, (state, detail) in asyncio.run(verdicts(to_check, env)).items():
            yield state, provider, detail


def _key_remark(provider: str, values: config.Values, env: dict[str, str]) -> str:
    """A remark if the key does not begin as those of the vendor do; empty where another server is set."""
    if provider not in _KEY_PREFIXES or values.get("base_url") or env.get(f"{provider.upper()}_BASE_URL"):
        return ""
    variable, beginnings = _KEY_PREFIXES[provider]
    key = str(values.get("api_key") or env.get(variable) or "")
    if not key or key.startswith(beginnings):
        return ""
    return f"{variable} does not look like a key of this service: those begin with {' or '.join(beginnings)}"


def _sessions(report: "StartReport", env: dict[str, str]) -> Iterator[Finding]:
    root = sessions_root(report.values, env)
    if report.session_error:
        yield "bad", "sessions", f"{report.session_error} (sessions are kept in {root})"
    elif report.values.get("no_session") or report.values.get("sessions") is False:
        yield "note", "sessions", "not kept: they are switched off"
    elif report.values:
        yield "ok", "sessions", f"kept in {root}"


def _instructions(settings: config.Values, env: dict[str, str], workspace: str) -> Iterator[Finding]:
    try:
        rule_texts = {name: settings[name] for name in ("deny", "ask") if settings.get(name)}
        rules = rules_in(rule_texts, workspace, env.get("HOME") or os.path.expanduser("~"))
    except BadRule:
        return  # the engine would not start, which is reported above
    for file in InstructionFiles(workspace, env).read(partial(reading_fault, rules)):
        if file.fault:
            yield "note", "instructions", f"{file.path} is not told to the model: {file.fault}"
        else:
            yield "ok", "instructions", f"{file.path}, {len(file.text)} characters"


def _extensions(
    report: "StartReport", flags: config.Values, settings: config.Values, env: dict[str, str], workspace: str
) -> Iterator[Finding]:
    """The user's own code that an engine loads; a project's only if the workspace is trusted."""
    for path, why in report.extension_errors:
        yield "bad", "extension", f"{path}: {why}"
    broken = {path for path, _ in report.extension_errors}
    places = config.extension_folders(flags, env, workspace)
    named = flags.get("extensions")
    files = [path for place in places for path in files_in(place)]
    for path in [*files, *named] if isinstance(named, list) else files:
        if path in report.error:
            yield "bad", "extension", report.error
        elif path not in broken and report.error:
            yield "note", "extension", f"{path}: not tried, because an engine does not start"
        elif path not in broken:
            yield "ok", "extension", path
    for name, _ in installed_extensions() if has_installed() else []:
        if name not in broken:
            yield "ok", "extension", f"{name}, of an installed package"
    hooks = settings.get("hooks")
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


def _sandbox(settings: config.Values, env: dict[str, str], workspace: str) -> Iterator[Finding]:
    from polylect.app.serving.sandbox_setup import check_sandbox, environment_findings  # asyncio

    for state, detail in environment_findings(settings, env):
        yield state, "environment", detail
    for state, detail in check_sandbox(settings, env, workspace):
        yield state, "sandbox", detail
