"""`polylect mcp`: shows, tries, adds and removes MCP servers, calls their tools and logs in at them.

Servers are found and connected by `serving/server_probe.py`, as an engine would; the user's settings are edited by
`startup/config_edit.py`. Texts of servers are escaped before they are printed, and addresses and arguments of commands
are not printed at all, because they may hold keys.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from polylect.app.cli.terminal import print_error, print_json, print_line, print_table
from polylect.app.serving.server_probe import (
    ConfiguredServer,
    ServerReport,
    ServerSettings,
    probe,
    probing,
    read_settings,
    unconnected,
)
from polylect.app.startup import config
from polylect.app.startup.args import FLAGS, Flags, Options, UsageError, parse
from polylect.app.startup.config_edit import EditRefused, add_server, remove_server
from polylect.app.startup.nearest_word import hint
from polylect.mcp.auth.token_store import open_store
from polylect.mcp.names import name_fault
from polylect.mcp.server_config import ServerConfigError, servers_from
from polylect.mcp.tool import ServerTool
from polylect.vocab.argument_schema import schema_error
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.errors import PolylectError
from polylect.vocab.escape import escape_controls
from polylect.vocab.events import Ask
from polylect.vocab.ports import ToolContext, ToolReturn

USAGE = """\
usage: polylect mcp list [--no-connect] [--json]         the servers, whether they work and what their tools cost
       polylect mcp test NAME [--json]                   connect one and show what it offers, or why it fails
       polylect mcp tools [NAME] [--json]                the tools of all servers or of one, with their tokens
       polylect mcp call NAME TOOL [JSON | KEY=VALUE ...] [--json]
                                                         call a tool; '-' reads the JSON from stdin
       polylect mcp add NAME [--env KEY=VALUE] [--cwd FOLDER] [--deferred] -- COMMAND [ARGUMENT ...]
       polylect mcp add NAME URL [--header 'KEY: VALUE'] [--transport http|sse] [--deferred]
                                                         write a server into your own config.toml
       polylect mcp remove NAME                          and take it out again
       polylect mcp login NAME [--device] [--no-browser] [--scope SCOPES]
                                                         log in at a remote server, in your browser or by a code
       polylect mcp logout NAME                          and forget that login
  --workspace FOLDER, --trust-workspace, --config FILE and --profile NAME count as for an engine.
  Tokens are an estimate of what a server's tools take in every request to the model. See docs/mcp.md."""
_PROGRAM = "polylect mcp"
_PLACES: Flags = {name: FLAGS[name] for name in ("--workspace", "--trust-workspace", "--config", "--profile")}
_SHOWING: Flags = {**_PLACES, "--json": ("switch", "json")}
_FLAGS: dict[str, Flags] = {
    "list": {**_SHOWING, "--no-connect": ("switch", "no_connect")},
    "test": _SHOWING,
    "tools": _SHOWING,
    "call": _SHOWING,
    "add": {
        "--env": ("list", "env"),
        "--header": ("list", "headers"),
        "--transport": ("text", "transport"),
        "--cwd": ("text", "cwd"),
        "--deferred": ("switch", "deferred"),
    },
    "remove": {},
    "login": {
        **_PLACES,
        "--device": ("switch", "device"),
        "--no-browser": ("switch", "no_browser"),
        "--scope": ("text", "scope"),
    },
    "logout": _PLACES,
}
_STATES = {"ready": "ready", "failed": "failed", "disabled": "disabled", "connecting": "not tried"}
_ADVICE = (
    ("no program", "Install the program, or name its absolute path as `command`."),
    ("no answer within", "Start it by hand and see what it waits for. If it only takes long, raise [mcp] wait."),
    ("HTTP 401", "Log in with the command above, or set a header with a key, as Authorization."),
    ("HTTP 403", "The key that it was sent does not permit this: check its headers."),
    ("HTTP 404", 'Check the path of its url. Servers of the older transport need transport = "sse".'),
    ("HTTP 405", 'Servers of the older transport need transport = "sse".'),
    ("cannot be reached", "Check its url, and whether it runs."),
    ("are not MCP", "It may write nothing but MCP to stdout: give it the flag that makes it a server over stdio."),
    ("rename", "Rename it in the settings."),
    ("mcp.servers.", "Correct its settings."),
)
_MOST_SHOWN = 50
_OTHERWISE = "Start it by hand with the command of its settings, and see what it says."


class WrongWord(Exception):
    """A word of the command line names no server or tool, or cannot be an argument of the tool. The text says why."""


def main(words: list[str]) -> int:
    command = words[0] if words else ""
    if not words or command in ("--help", "-h") or {"--help", "-h"} & set(_before_dashes(words)):
        print(USAGE)
        return 0 if words else 2
    logging.disable()  # what matters is in the reports
    try:
        if command not in _FLAGS:
            raise UsageError(f"there is no {_PROGRAM} {command}; {hint(command, _FLAGS, 'see below')}")
        options, rest = parse(words[1:], _FLAGS[command], {}, usage=f"{_PROGRAM} --help")
        return _COMMANDS[command](options, rest)
    except UsageError as error:
        print_error(error, _PROGRAM)
        print(USAGE, file=sys.stderr)
        return 2
    except WrongWord as error:
        print_error(error, _PROGRAM)
        return 2
    except (config.ConfigError, EditRefused, ServerConfigError, PolylectError) as error:
        print_error(error, _PROGRAM, several_lines=True)
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}", _PROGRAM)
    return 1


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _settings(options: Options) -> ServerSettings:
    notes: list[str] = []
    places = [option for _, option in _PLACES.values()]
    flags = {name: value for name, value in options.items() if name in places}
    settings = read_settings(flags, dict(os.environ), notes)
    for note in notes:
        print_error(note, _PROGRAM)
    return settings


def _one(settings: ServerSettings, name: str) -> ConfiguredServer:
    names = [server.name for server in settings.servers]
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "none is configured"
        raise WrongWord(f"there is no MCP server {name!r}; {hint(name, names, known)}")
    return settings.servers[names.index(name)]


def _words(rest: list[str], least: int, most: int | None = None) -> list[str]:
    if len(rest) < least:
        raise UsageError("a word is missing")
    if most is not None and len(rest) > most:
        raise UsageError(f"{rest[most]!r} is one word too many")
    return rest


# list


def _list(options: Options, rest: list[str]) -> int:
    _words(rest, 0, 0)
    settings = _settings(options)
    reports = unconnected(settings.servers) if options.get("no_connect") else probe(settings, settings.servers)
    if options.get("json"):
        print_json([_row(report) for report in reports])
        return 0
    if not reports:
        print_line("No MCP server is configured. Add one: polylect mcp add NAME -- COMMAND")
        return 0
    print_table([("NAME", "TRANSPORT", "RUNS", "STATE", "TOOLS", "TOKENS", "CONFIGURED IN"), *map(_cells, reports)])
    for report in reports:
        if report.status.reason:
            print_line(f"{report.configured.name}: {report.status.reason}")
    if any(report.tools for report in reports):
        print_line(_sum(reports, settings.search_above_tokens))
    return 0


def _row(report: ServerReport) -> dict[str, Any]:
    status = report.status
    return {
        "name": status.name,
        "transport": status.transport,
        "runs": _target(report.configured),
        "sources": report.configured.sources,
        "state": _STATES[status.status],
        "reason": status.reason,
        "server": status.version,
        "tools": len(report.tools) if status.status == "ready" else None,
        "tokens": report.tokens if status.status == "ready" else None,
        "found_by_search": _is_deferred(report),
        "seconds": round(report.seconds, 3),
    }


def _cells(report: ServerReport) -> tuple[str, ...]:
    status = report.status
    ready = status.status == "ready"
    state = "found by search" if _is_deferred(report) else _STATES[status.status]
    counts = (str(len(report.tools)), str(report.tokens)) if ready else ("-", "-")
    sources = ", ".join(map(_short_path, report.configured.sources))
    return (status.name, status.transport or "-", _target(report.configured), state, *counts, sources)


def _is_deferred(report: ServerReport) -> bool:
    return any(tool.deferred for tool in report.tools)


def _target(configured: ConfiguredServer) -> str:
    """The program or the host. Arguments and the rest of an address may hold keys."""
    server = configured.server
    if server is None:
        return "-"
    return os.path.basename(server.command) or urlsplit(server.url).hostname or "-"


def _short_path(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def _sum(reports: list[ServerReport], budget: int) -> str:
    described = [report for report in reports if report.tools and not _is_deferred(report)]
    tools = sum(len(report.tools) for report in described)
    tokens = sum(report.tokens for report in described)
    take = "1 tool takes" if tools == 1 else f"{tools} tools take"
    return f"{take} {tokens} tokens of every request. Beyond {budget} tokens servers are found by search."


# test


def _test(options: Options, rest: list[str]) -> int:
    [name] = _words(rest, 1, 1)
    settings = _settings(options)
    configured = _one(settings, name)

    async def run() -> ServerReport:
        async with probing(settings) as probe:
            [report] = await probe.connect([configured])
            return await probe.complete(report)

    report = asyncio.run(run())
    advice = "" if report.status.status == "ready" else _advice(report)
    if options.get("json"):
        print_json({**_row(report), **_details(report), "advice": advice})
    else:
        _show(report, advice)
    return 1 if advice else 0


def _details(report: ServerReport) -> dict[str, Any]:
    status = report.status
    return {
        "revision": status.revision,
        "capabilities": status.capabilities,
        "stderr": status.error_output,
        "tools": [{"name": tool.listed.name, "tokens": tool.tokens} for tool in report.tools],
        "prompts": [prompt.name for prompt in status.prompts],
        "resources": [resource.uri for resource in status.resources],
    }


def _advice(report: ServerReport) -> str:
    if report.status.status == "disabled":
        return "It is disabled in the settings."
    reason = report.status.reason
    return next((advice for text, advice in _ADVICE if text in reason), _OTHERWISE)


def _show(report: ServerReport, advice: str) -> None:
    status = report.status
    print_line(f"{status.name}: {_STATES[status.status]} after {report.seconds:.2f} s")
    details = _details(report)
    rows = [("transport", status.transport), ("revision", status.revision), ("server", status.version)]
    rows += [("reason", status.reason)]
    if status.status == "ready":
        rows += [("offers", ", ".join(status.capabilities) or "nothing")]
        rows += [("tools", f"{len(report.tools)}, {report.tokens} tokens of every request")]
        rows += [(kind, ", ".join(_first(details[kind])) or "none") for kind in ("prompts", "resources")]
    rows += [("what to do", advice)]
    for label, text in rows:
        if text:
            print_line(f"  {label:<11} {text}")
    for name in _first([tool.listed.name for tool in report.tools]):
        print_line(f"    {name}")
    if advice and status.error_output:
        print_line("  what it wrote to stderr at last:")
        for line in status.error_output:
            print_line(f"    {line}")


def _first(names: list[str]) -> list[str]:
    """The names that people are shown. A server may have thousands."""
    return names if len(names) <= _MOST_SHOWN else [*names[:_MOST_SHOWN], f"and {len(names) - _MOST_SHOWN} more"]


# tools


def _tools(options: Options, rest: list[str]) -> int:
    names = _words(rest, 0, 1)
    settings = _settings(options)
    chosen = [_one(settings, name) for name in names] or list(settings.servers)
    reports = probe(settings, chosen)
    if options.get("json"):
        print_json([_tool_row(tool, report) for report in reports for tool in report.tools])
    else:
        rows = [_tool_cells(tool) for report in reports for tool in report.tools]
        print_table([("NAME", "TOKENS", "DESCRIPTION"), *rows])
    failed = [report for report in reports if report.status.status == "failed"]
    for report in failed:
        print_error(f"{report.configured.name}: {report.status.reason}", _PROGRAM)
    return 1 if failed else 0


def _tool_row(tool: ServerTool, report: ServerReport) -> dict[str, Any]:
    spec = tool.spec
    return {
        "server": report.configured.name,
        "name": tool.listed.name,
        "full_name": tool.long_name,
        "model_name": tool.name,
        "tokens": tool.tokens,
        "found_by_search": tool.deferred,
        "description": spec.description,
        "schema": spec.schema,
    }


def _tool_cells(tool: ServerTool) -> tuple[str, ...]:
    first_line = tool.spec.description.strip().partition("\n")[0]
    return (tool.long_name, str(tool.tokens), first_line if len(first_line) <= 80 else f"{first_line[:77]}...")


# call


def _call(options: Options, rest: list[str]) -> int:
    name, tool_name, *words = _words(rest, 2)
    settings = _settings(options)
    configured = _one(settings, name)
    context = _TerminalContext()

    async def run() -> ToolReturn:
        async with probing(settings) as probe:
            [report] = await probe.connect([configured])
            if report.status.status != "ready":
                reason = report.status.reason or _advice(report)
                return ToolReturn(f"{name}: {reason}", ok=False)
            tool = _tool(report, tool_name)
            args = _arguments(words, tool.spec.schema)
            if fault := schema_error(args, tool.spec.schema):
                raise WrongWord(f"{tool_name} cannot be called with that: {fault}")
            return await tool.run(args, cast(ToolContext, context))

    result = asyncio.run(run())
    if context.whole_text:
        result = msgspec.structs.replace(result, output=context.whole_text)
    if options.get("json"):
        structured = (result.metadata or {}).get("structured")
        print_json({"ok": result.ok, "output": result.output, "structured": structured, "images": result.images})
    else:
        _print_result(result)
    return 0 if result.ok else 1


def _tool(report: ServerReport, name: str) -> ServerTool:
    by_name = {tool.listed.name: tool for tool in report.tools}
    others = {key: tool for tool in report.tools for key in (tool.name, tool.long_name)}
    if tool := by_name.get(name) or others.get(name):
        return tool
    known = f"see {_PROGRAM} tools {report.configured.name}"
    raise WrongWord(f"{report.configured.name} has no tool {name!r}; {hint(name, by_name, known)}")


def _arguments(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call: one JSON object, or texts `key=value` whose values are read as the schema wants them."""
    if words == ["-"] or (len(words) == 1 and words[0].startswith("{")):
        text = sys.stdin.read() if words == ["-"] else words[0]
        try:
            value = json.loads(text)
        except ValueError as error:
            raise WrongWord(f"the arguments are not JSON: {error}") from None
        if not isinstance(value, dict):
            raise WrongWord('the arguments have to be a JSON object, as {"path": "notes.md"}')
        return value
    pairs = [word.partition("=") for word in words]
    if wrong := next((key for key, equals, _ in pairs if not equals or not key), None):
        raise WrongWord(f"{wrong!r} is not like KEY=VALUE")
    properties = schema.get("properties")
    kinds = properties if isinstance(properties, dict) else {}
    return {key: _typed(value, kinds.get(key)) for key, _, value in pairs}


def _typed(text: str, schema: object) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_result(result: ToolReturn) -> None:
    if not result.ok:
        return print_error(result.output, _PROGRAM, several_lines=True)
    print(escape_controls(result.output))
    for image in result.images:
        print_line(f"[image {image.media_type}, {len(image.data)} characters of base64; --json has it]")
    return None


class _TerminalContext:
    """The parts of a `ToolContext` that a call of a server uses. Nobody answers questions."""

    def __init__(self) -> None:
        self.whole_text = ""

    def progress(self, text: str) -> None:
        print_error(text.rstrip(), _PROGRAM)

    async def ask(self, question: Ask) -> Answer:
        print_error(f"the server asks, and nobody can answer here: {question.title}", _PROGRAM)
        return Answer(question.ask, "cancelled")

    def spill(self, text: str) -> str:
        self.whole_text = text
        return ""


# add and remove


def _add(options: Options, rest: list[str]) -> int:
    name, target, *args = _words(rest, 2)
    env = dict(os.environ)
    settings = _server_settings(target, args, options)
    path = config.user_file(env)
    others = [server.name for server in read_settings({}, env, []).servers]
    if fault := name_fault(name, others):
        raise WrongWord(fault)
    [server] = servers_from({name: settings}, env)
    add_server(path, name, settings)
    print_line(f"{name} is in {_short_path(path)} now. Try it: polylect mcp test {name}")
    secret = any(value and "${" not in value for value in (*server.headers.values(), *_texts(options, "env")))
    if secret and os.stat(path).st_mode & 0o077:
        print_error(
            f"others can read {path}: write a key as '${{NAME}}', which is taken from the environment", _PROGRAM
        )
    return 0


def _server_settings(target: str, args: list[str], options: Options) -> dict[str, object]:
    """The table of a server. Raises UsageError if words and flags do not go together."""
    remote = target.startswith(("http://", "https://"))
    wrong = ("env", "cwd") if remote else ("headers", "transport")
    if flag := next((flag for flag, (_, name) in _FLAGS["add"].items() if name in wrong and name in options), None):
        kind = "an address" if remote else "a command"
        raise UsageError(f"{flag} has no meaning for {kind}")
    if remote and args:
        raise UsageError(f"{args[0]!r} is one word too many: a server is an address or a command")
    shared = {"deferred": True} if options.get("deferred") else {}
    if remote:
        word = str(options.get("transport") or "http")
        headers = dict(_pair(text, ":", "--header") for text in _texts(options, "headers"))
        transport = {"transport": "streamable-http" if word == "http" else word, "url": target}
        return {**transport, **({"headers": headers} if headers else {}), **shared}
    env = dict(_pair(text, "=", "--env") for text in _texts(options, "env"))
    cwd = {"cwd": options["cwd"]} if "cwd" in options else {}
    return {"command": target, **({"args": args} if args else {}), **({"env": env} if env else {}), **cwd, **shared}


def _pair(text: str, separator: str, flag: str) -> tuple[str, str]:
    key, found, value = text.partition(separator)
    if not found or not key.strip():
        raise UsageError(f"{flag} takes KEY{separator}VALUE, not {text!r}")
    return key.strip(), value.strip() if separator == ":" else value


def _texts(options: Options, name: str) -> Sequence[str]:
    return config.texts(options, name)


def _remove(options: Options, rest: list[str]) -> int:
    [name] = _words(rest, 1, 1)
    path = config.user_file(dict(os.environ))
    remove_server(path, name)
    print_line(f"{name} is no longer in {_short_path(path)}.")
    return 0


# login and logout


def _login(options: Options, rest: list[str]) -> int:
    from polylect.mcp.auth.oauth import login, open_browser

    settings, server = _server(options, rest)
    asyncio.run(
        login(
            server,
            settings.env,
            open_store(settings.env, settings.token_store),
            show=_show_now,
            browser=None if options.get("no_browser") else open_browser,
            device=bool(options.get("device")),
            scope=str(options.get("scope") or ""),
        )
    )
    print_line(f"You are logged in at {server.name}. Try it: polylect mcp test {server.name}")
    return 0


def _show_now(text: str) -> None:
    """Prints a line that the person has to act on, also if stdout is a pipe."""
    print_line(text)
    sys.stdout.flush()


def _logout(options: Options, rest: list[str]) -> int:
    from polylect.mcp.auth.oauth import logout

    settings, server = _server(options, rest)
    was_there = asyncio.run(logout(server, settings.env, open_store(settings.env, settings.token_store)))
    print_line(f"The login at {server.name} is forgotten." if was_there else f"There is no login at {server.name}.")
    return 0


def _server(options: Options, rest: list[str]) -> tuple[ServerSettings, Server]:
    """The settings, and the server that is named. Raises ServerConfigError if its own are wrong."""
    [name] = _words(rest, 1, 1)
    settings = _settings(options)
    configured = _one(settings, name)
    if configured.server is None:
        raise ServerConfigError(configured.fault)
    return settings, configured.server


_COMMANDS: dict[str, Callable[[Options, list[str]], int]] = {
    "list": _list,
    "test": _test,
    "tools": _tools,
    "call": _call,
    "add": _add,
    "remove": _remove,
    "login": _login,
    "logout": _logout,
}
