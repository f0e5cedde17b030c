"""`polylect bridge`: puts an engine behind a host that was written for another one.

Our own flags come out of the command line; the rest are the flags of the program that the host believes it has started.
Those that mean something to the engine behind become arguments of `connect`. One that protects somebody (what may never
be done, a cap in dollars) and means nothing there stops the start; any other is named on stderr.
"""

import os
from collections.abc import Mapping
from typing import Any

from polylect import plug
from polylect.app.cli.terminal import print_error
from polylect.app.serving.bridge import Bridge, named_session, workspace_of
from polylect.app.startup import config
from polylect.app.startup.args import Flags, Options, UsageError, parse
from polylect.app.startup.start import Start, catch_signals, mode_of, new_session, redirect_streams, serve
from polylect.bridge.loss_report import LossReport
from polylect.host import engine_registry
from polylect.host.errors import HostError
from polylect.mcp.server_config import ServerConfigError, servers_from

USAGE = """\
usage: polylect bridge --front WIRE --engine ENGINE [flags of the front's program]
       polylect bridge --explain WIRE ENGINE [--json]

  --front WIRE          what the host speaks: acp, claude, omp, pi, native, json-stream (or aionrs for its 0.1.0)
  --engine ENGINE       a name (polylect engines lists them), or a command line together with --wire
  --wire WIRE[:VERSION] the wire of that command line: native, jsonstream, omp, claude, acp
  --engine-arg WORD     one more word for the engine's command line; may be repeated
  --loss-report FILE    where the whole report of what was lost goes at the end, as JSON
  --explain             what gets across between the two, and what does not"""
_FLAGS: Flags = {
    "--front": ("text", "front"),
    "--engine": ("text", "engine"),
    "--wire": ("text", "wire"),
    "--engine-arg": ("list", "engine_args"),
    "--loss-report": ("text", "loss_report"),
    "--explain": ("switch", "explain"),
    "--json": ("switch", "json"),
}
_PROTOCOLS = {"json-stream": "0.2.0", "wayland-core": "0.2.0", "wcore": "0.2.0", "aionrs": "0.1.0"}
_DIALECTS = {"acp": "acp", "claude": "claude", "omp": "omp", "pi": "omp", "native": "native"}
FRONTS = (*_DIALECTS, *_PROTOCOLS)
_FORMS = {"claude": ["--print", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]}
"""Words without which the front's program would not speak its wire; hosts give them, people forget them."""
_ARGUMENTS = {
    "model": "model",
    "max_turns": "max_turns",
    "folders": "add_dir",
    "allow": "allow",
    "tools": "tools",
    "budget:max_cost_usd": "max_cost",
    "turn_budget:max_cost_usd": "max_cost",
    "turn_budget:max_tokens": "max_tokens",
}
"""Options of the front's command line, and the argument of `connect` for each."""
_PROTECTS = ("deny", "tools", "max_cost", "max_tokens")
"""Arguments that may not be left out because the engine has no flag for them."""


def main(words: list[str]) -> int:
    try:
        own, rest = _split(words)
        if own.get("explain"):
            from polylect.app.cli.bridge.explain import explain  # only for those who ask

            return explain(rest, as_json=bool(own.get("json")))
        return _run(own, rest)
    except (UsageError, HostError, ServerConfigError, config.ConfigError) as error:
        print_error(error)
        return 2


def _split(words: list[str]) -> tuple[Options, list[str]]:
    """Our own flags, and the rest of the words. Raises UsageError."""
    ours: list[str] = []
    rest: list[str] = []
    index = 0
    while index < len(words):
        flag = words[index].partition("=")[0]
        size = 0 if flag not in _FLAGS else 1 if _FLAGS[flag][0] == "switch" or "=" in words[index] else 2
        (ours if size else rest).extend(words[index : index + max(size, 1)])
        index += max(size, 1)
    return parse(ours, _FLAGS, {}, usage="polylect bridge --help")[0], rest


def _run(own: Options, words: list[str]) -> int:
    front, engine = str(own.get("front") or ""), str(own.get("engine") or "")
    if front not in FRONTS:
        raise UsageError(f"--front {front!r}: choose the wire that the host speaks, one of {', '.join(FRONTS)}")
    if not engine:
        raise UsageError("--engine is missing: name the engine behind; polylect engines lists those that are here")
    env = dict(os.environ)
    options = front_options(front, words, env)
    values: config.Values = {"on_eof": "finish", "provider": "", **options, "mode": mode_of(options)}
    values["workspace"] = workspace_of(options)
    command = _command(engine, str(own.get("wire") or ""))
    arguments = _arguments(values, env, command) | {"cwd": values["workspace"], "args": own.get("engine_args", [])}
    arguments["env"] = env  # whole: our own process removes keys from its environment
    if own.get("wire"):
        arguments["dialect"], _, arguments["version"] = str(own["wire"]).partition(":")
    first, name = _session(values, front, command)
    losses = LossReport(front, engine)
    bridge = Bridge(command, arguments, first, name, losses, str(own.get("loss_report") or ""))
    return serve(Start(values, env, None, redirect_streams(), catch_signals(), name, b"", options), bridge)


def front_options(front: str, words: list[str], env: dict[str, str]) -> Options:
    """The settings that the flags of the front's program ask for. Raises UsageError."""
    if front in _PROTOCOLS:
        options, rest = parse(words)
        if rest:
            raise UsageError(f"{rest[0]!r} is not a flag; a prompt is sent as a message on stdin")
        return {"protocol": _PROTOCOLS[front], **options}
    dialect = _DIALECTS[front]
    wire = plug.load(f"dialects.{dialect}", "start")
    form = _FORMS.get(front, [])
    complete = words if not form or any(word.startswith("--output-format") for word in words) else [*form, *words]
    options = wire.options(complete, front, env)
    wire.prepare(options)
    return {**options, "dialect": dialect}


def _command(engine: str, wire: str) -> str | list[str]:
    if not wire:
        engine_registry.engine_spec(engine)  # raises UnknownEngine, whose text says which there are
        return engine
    import shlex  # only for a command line

    return shlex.split(engine)


def _arguments(values: config.Values, env: dict[str, str], engine: str | list[str]) -> dict[str, Any]:
    """Arguments of `connect` that say the same as the front's flags. Raises UsageError."""
    arguments: dict[str, Any] = {ours: values[name] for name, ours in _ARGUMENTS.items() if values.get(name)}
    if without := [*config.texts(values, "deny"), *config.texts(values, "without")]:
        arguments["deny"] = without
    prompts = [str(values.get("system_prompt") or ""), *config.texts(values, "append_system_prompt")]
    if prompt := "\n\n".join(filter(None, prompts)):
        arguments["system_prompt"] = prompt
    if values.get("approval_mode") or values.get("force"):
        arguments["mode"] = values["mode"]
    _drop_meaningless(arguments, engine)
    if isinstance(servers := values.get("mcp_servers"), dict) and servers:
        arguments["servers"] = servers_from(servers, env)
    return arguments


def _drop_meaningless(arguments: dict[str, Any], engine: str | list[str]) -> None:
    """Removes what the engine has no flag for, and says so. Raises UsageError for what protects somebody."""
    known: Mapping[str, object] = {}
    if isinstance(engine, str):
        one = engine_registry.engine_spec(engine)
        known = {**one.flags, **one.over_wire, "mode": ""}
    for name in [name for name in arguments if name not in known]:
        text = f"the engine {engine if isinstance(engine, str) else engine[0]} has no flag for {name}"
        if name in _PROTECTS:
            raise UsageError(f"{text}, so it could not be kept: leave it out, or choose another engine")
        print_error(f"{text}: it is ignored")
        del arguments[name]


def _session(values: config.Values, front: str, engine: str | list[str]) -> tuple[dict[str, Any], str]:
    """The arguments of `connect` for the session, and what the host in front calls it."""
    resume = values.get("resume") or values.get("session_file") or ("latest" if values.get("continue") else "")
    if resume:
        return {"resume": str(resume)}, "" if resume == "latest" else str(resume)
    name = str(values.get("session_id") or "")
    if not name and front == "claude":  # its frames carry the id from the first on
        name = new_session(values)
    return named_session(engine, name), name
