"""From flags to `ready`: everything a host can get wrong is checked here, before the first byte is written.

`ready` goes out before asyncio, msgspec and the engine are imported; the host needs time to answer, and that is when
they are.
"""

import _signal  # the builtin module: `signal` itself would load enum
import gc
import os
import sys

from polylect import plug
from polylect.app.startup import config
from polylect.dialects.jsonstream.versions import OUR_MODES, VERSIONS
from polylect.providers.check import check, default_model, describe, no_provider, offer, providers
from polylect.sessions import folder

_FLAGS = {
    "streaming_tools": "",
    "sub_agent_traces": "",
    "non_destructive_compact": "",
    "structured_traces": "structured_traces",
    "hitl_suspend": "script_tool",
    "rpc_tool_script": "script_tool",
    "plugins": "plugins",
}
"""Capabilities of wayland's wire that this engine has, some only where they were switched on by this setting."""
ENDING = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_WORDS = {
    "protocol": VERSIONS,
    "on_eof": ("finish", "stop"),
    "log_level": ("debug", "info", "warning", "error"),
    "thinking": ("disabled", "enabled"),
    "output_cleanup": ("off", "safe", "full"),
    "steering_mode": ("one-at-a-time", "all"),
    "follow_up_mode": ("one-at-a-time", "all"),
    "interrupt_mode": ("immediate", "wait"),
    "cost_updates": ("turn", "step"),
}
"""Settings that are one of a few words."""
_SANDBOXES = ("auto", "bwrap", "landlock", "off")
CONFIGURATION = 78
"""The exit code where a person has to set something first."""


TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from polylect.providers.check import Offer


class CannotStart(Exception):
    """The text says what to do. `silent` keeps it off stdout even in a protocol that has a frame for it."""

    def __init__(self, message: str, *, silent: bool = False, code: int = 1) -> None:
        super().__init__(message)
        self.silent = silent
        self.code = code


class Start:
    """A checked start: settings, the locked session folder, and our own copies of stdin and stdout."""

    def __init__(
        self,
        values: config.Values,
        env: dict[str, str],
        place: folder.Folder | None,
        streams: tuple[int, int],
        signals: int,
        session: str,
        first: bytes,
    ) -> None:
        self.values = values
        self.env = env
        self.place = place
        self.session = session
        self.stdin, self.stdout = streams
        self.signals = signals
        """Where the numbers of signals can be read."""
        self.first = first
        """What a host hears merely for having started us."""


def start(options: config.Values) -> int:
    env = dict(os.environ)
    notes: list[str] = []
    try:
        values = settle(options, env, notes)
        place = take_session(values, env)
    except (CannotStart, config.ConfigError, folder.FolderError) as error:
        missing = isinstance(error, folder.FolderError) and bool(options.get("resume") or options.get("continue"))
        _say_why(str(error), options, silent=missing or getattr(error, "silent", False))
        return _exit_code(error, options)
    except OSError as error:  # a full disk, above all
        _say_why(f"cannot start: {error.strerror}: {error.filename or 'the session folder'}", options, silent=False)
        return 1
    streams = _take_streams()
    signals = _hear_signals()
    session = place.session if place else "" if "dialect" not in values else new_session(values)
    first = _first(values, session)
    waits = bool(values.get("required_extensions"))  # then `serve` writes it, once they are loaded
    try:
        _write(streams[1], b"" if waits else first)
    except OSError as error:
        print(f"polylect: nobody reads stdout: {error.strerror}", file=sys.stderr)
        if place:
            place.close(discard=not os.path.exists(place.log))
        return 1
    for note in notes:
        _complain(note)
    return _serve(Start(values, env, place, streams, signals, session, first))


def _exit_code(error: Exception, options: config.Values) -> int:
    """Hosts of other programs know only the codes of those."""
    code = error.code if isinstance(error, CannotStart) else 1
    wire = dialect_start(options)
    return code if wire is None or code in wire.EXIT_CODES else 1


def dialect_start(values: config.Values) -> "ModuleType | None":
    """The `DialectStart` (`dialects/base.py`) of the wire that will be spoken; None for json-stream, our own."""
    name = values.get("dialect")
    return plug.load(f"dialects.{name}", "start") if name else None


def _serve(start: Start) -> int:
    from polylect.app.startup.lazy import LazyImports  # nobody waits any more
    from polylect.app.startup.packed import PackedImports

    try:
        with PackedImports() as packed:
            with LazyImports():
                from polylect.app.serving.serve import load, run  # asyncio, msgspec and the engine: 40 ms

                load(start.values)
            gc.enable()
            gc.freeze()
            return run(start, packed)
    except Exception as error:  # noqa: BLE001  (the host has heard `ready`, so it hears of the end as well)
        told = f"{type(error).__name__}: {error}"
        _complain(told)
        _write(start.stdout, _last_words(start, told))
        os._exit(1)  # half a loop would only complain on its way out


def _first(values: config.Values, session: str) -> bytes:
    """What a host hears merely for having started us."""
    if wire := dialect_start(values):
        ready: bytes = wire.READY
        return ready
    from polylect.dialects.jsonstream.ready import ready_line  # other wires do without

    thinking, levels, priced = _offer(values) or (False, (), False)
    return ready_line(
        str(values["protocol"]),
        session,
        thinking=thinking,
        effort_levels=levels,
        mode=str(values["mode"]),
        mcp=bool(values.get("mcp_servers")),
        extras={**flags(values), "cost_attribution": priced},
    )


def flags(values: config.Values) -> dict[str, object]:
    """What this engine can say beside the baseline, whatever its model."""
    return {flag: True for flag, name in _FLAGS.items() if not name or values.get(name)}


def _offer(values: config.Values) -> "Offer | None":
    """What is known of the model in use."""
    told = {name: str(values.get(name) or "") for name in ("provider", "model", "script")}
    return offer(**told, own=values.get("models"), prices=values.get("prices"))


def settle(options: config.Values, env: dict[str, str], notes: list[str]) -> config.Values:
    try:
        workspace = os.path.realpath(str(options.get("workspace") or os.getcwd()))
    except FileNotFoundError:
        raise CannotStart("the current folder has been deleted; name another one with --workspace") from None
    if not os.path.isdir(workspace):
        raise CannotStart(f"--workspace {workspace}: there is no such folder")
    found = config.gather(options, env, workspace, notes)
    if not found["provider"]:
        why = no_provider(str(found.get("model") or ""), has_key=bool(found.get("api_key")))
        raise CannotStart(why, code=CONFIGURATION)
    values = config.choose(found, str(found["provider"]))
    if not values.get("model"):
        usual = values.get("usual_model") if values["provider"] == "anthropic" else ""
        values["model"] = usual or default_model(str(values["provider"]), str(values.get("base_url") or ""), env)
    notes += [f"{flag} has no meaning here and is ignored" for flag in _list(options, "ignored")]
    for name, words in _WORDS.items():
        _one_of(values, name, words)
    values["mode"] = _mode(values)
    values["restore"] = not (options.get("model") or options.get("provider"))  # else a session brings its own
    values["system_prompt"] = "\n\n".join(
        filter(None, (str(values.get("system_prompt") or ""), *_list(values, "append_system_prompt")))
    )
    _check_rights(values)
    values["plugins"] = config.has_extensions(values, env, workspace)
    values["workspace"] = workspace
    values["folders"] = [os.path.realpath(path) for path in _list(values, "folders")]
    for path in _list(values, "folders"):
        if not os.path.isdir(path):
            raise CannotStart(f"--add-dir {path}: there is no such folder", code=2)
    _check_provider(values, env)
    _check_model(values)
    _check_effort(values)
    _check_price(values)
    _check_servers(values, env)
    _check_schema(values)
    values["chain"] = list(_chain(found, env)) if values.get("chain_enabled") else []
    return values


def _mode(values: config.Values) -> str:
    mode = "force" if values.get("force") else str(values.get("approval_mode") or "default")
    found = OUR_MODES.get(mode)
    if found is None:
        from polylect.vocab.modes import MODE_WORDS  # what other hosts call them

        found = MODE_WORDS.get(mode)
    if found is None:
        raise CannotStart(f"approval mode {mode!r} does not exist; modes are default, auto_edit, force, plan, dont_ask")
    return found


def _check_rights(values: config.Values) -> None:
    if values.get("sandbox", "auto") not in _SANDBOXES:
        raise CannotStart(f"sandbox.mode {values['sandbox']!r}: choose one of {', '.join(_SANDBOXES)}")
    if rules := [*_list(values, "allow"), *_list(values, "deny"), *_list(values, "ask")]:
        from polylect.permissions.rulebook import fault_in  # 40 ms, and only for rules of one's own

        if fault := fault_in(rules):
            raise CannotStart(f"a rule in [tools]: {fault}")


def _chain(found: config.Values, env: dict[str, str]) -> "Iterator[config.Values]":
    """The settings of the models that answer where the first one fails."""
    told = _list(found, "fallbacks")
    if not told:
        raise CannotStart('provider_chain is enabled and names nobody: set fallbacks = ["openai:gpt-5"]')
    for text in told:
        provider, _, model = text.partition(":")
        if not model:
            raise CannotStart(f'provider_chain.fallbacks: {text!r} is not like "openai:gpt-5", a provider and a model')
        values = {**config.choose(found, provider), "model": model}
        try:
            _check_provider(values, env)
            _check_price(values)
        except CannotStart as error:
            raise CannotStart(f"provider_chain.fallbacks: {text!r}: {error}", code=error.code) from None
        yield values


def _check_servers(values: config.Values, env: dict[str, str]) -> None:
    servers = values.get("mcp_servers")
    if isinstance(servers, dict) and servers:
        from polylect.mcp.server_config import (
            ServerConfigError,
            servers_from,
        )  # 20 ms, and only where there are servers

        try:
            servers_from(servers, env)
        except ServerConfigError as error:
            raise CannotStart(str(error)) from None


def _check_schema(values: config.Values) -> None:
    if schema := values.get("json_schema"):
        from polylect.engine.turn.structured import fault_in_schema  # 100 ms, and only for an answer in a form

        if fault := fault_in_schema(schema):
            raise CannotStart(f"--json-schema is not a valid JSON Schema: {fault}")


def _check_provider(values: config.Values, env: dict[str, str]) -> None:
    provider = str(values["provider"])
    try:
        describe(provider)
    except LookupError:
        raise CannotStart(f"there is no provider {provider!r}; providers are {', '.join(providers())}") from None
    names = ("api_key", "base_url", "region", "project", "profile", "model")
    told = {name: str(values[name]) for name in names if values.get(name)}
    if reason := check(provider, **told, env=env):
        raise CannotStart(reason)
    if provider == "scripted" and (pace := env.get("POLYLECT_SCRIPT_PACE", "")) and not _is_number(pace):
        raise CannotStart(f"POLYLECT_SCRIPT_PACE is {pace!r}; it has to be seconds between chunks, such as 0.02")
    if provider == "scripted" and values.get("script"):
        from polylect.providers.scripted.parse import check_script  # 40 ms, and only for a script of one's own

        if reason := check_script(str(values["script"])):
            raise CannotStart(reason)


def _check_model(values: config.Values) -> None:
    """One has to be named where there is no default, unless a session that is gone on with may bring its own."""
    resumed = any(values.get(name) for name in ("resume", "continue", "session_file"))
    if not (values.get("model") or resumed or not describe(str(values["provider"])).needs_model):
        text = f"{values['provider']}: no model is named: set --model; see polylect models"
        raise CannotStart(text, code=CONFIGURATION)


def _check_effort(values: config.Values) -> None:
    """A model that nobody knows may have any levels: its service will tell. Other programs' flags have own words."""
    effort = values.get("effort")
    if not effort or "dialect" in values or (known := _offer(values)) is None:
        return
    if effort not in known[1]:
        levels = ", ".join(known[1]) or "none"
        raise CannotStart(f"--effort {effort!r} is not offered by this model; its levels are: {levels}", code=2)


def _check_price(values: config.Values) -> None:
    """A cap in dollars holds only where prices are known; what a session brings is checked when it is applied."""
    caps = any(values.get(f"{budget}:max_cost_usd") for budget in ("budget", "turn_budget"))
    model = str(values.get("model") or "")
    if not caps or not (model or not describe(str(values["provider"])).needs_model):
        return
    known = _offer(values)
    if known is None or not known[2]:
        name = model or str(values["provider"])
        text = f"the price of {name!r} is not known, so a cap in dollars (max_cost_usd) cannot hold"
        raise CannotStart(f'{text}: give it in [prices."{name}"], or leave the cap out', code=CONFIGURATION)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()


def _list(values: config.Values, name: str) -> list[str]:
    found = values.get(name)
    return found if isinstance(found, list) else []


def _one_of(values: config.Values, name: str, choices: tuple[str, ...]) -> None:
    value = values.setdefault(name, choices[0]) if name != "log_level" else values.get(name, choices[0])
    if value not in choices:
        flag = "compaction" if name == "output_cleanup" else name.replace("_", "-")
        raise CannotStart(f"--{flag} {value!r}: choose one of {', '.join(choices)}", code=2)


def take_session(values: config.Values, env: dict[str, str]) -> folder.Folder | None:
    named, resumed = values.get("session_id"), values.get("resume")
    if values.get("continue") and resumed is None:
        resumed = "latest"
    if named is not None and resumed is not None and not values.get("fork"):
        raise CannotStart("--resume and --session-id exclude each other: one continues, the other begins", silent=True)
    if named == "latest":
        raise CannotStart("--session-id latest: that word is taken, --resume latest means the newest session", code=2)
    if values.get("no_session") or values.get("sessions") is False:
        if resumed is not None:
            raise CannotStart("--resume needs sessions, and they are switched off", silent=True)
        return None
    root, workspace = sessions_root(values, env), str(values["workspace"])
    if file := values.get("session_file"):
        folder.check_resumable_path(str(file))
        return None  # which session that is shows when it is read
    if resumed is not None:
        known = folder.find_session(root, str(resumed), workspace)
        folder.check_resumable(root, known)
        if not values.get("fork"):
            return folder.resume(root, known, workspace)
        values["fork_from"] = known
    return folder.create(root, new_session(values) if named is None else str(named), workspace)


def sessions_root(values: config.Values, env: dict[str, str]) -> str:
    return os.path.abspath(str(values.get("sessions_root") or folder.sessions_root(env)))


def new_session(values: config.Values) -> str:
    """The id of a new session, as the wire has them."""
    wire = dialect_start(values)
    return str(wire.new_session_id()) if wire else folder.new_id()


def _say_why(message: str, options: config.Values, *, silent: bool) -> None:
    """Writes the reason to stderr and, for aionrs 0.1.0, an error frame to stdout unless `silent`."""
    _complain(message)
    _write(1, why_not(message, options, silent=silent))


def why_not(message: str, options: config.Values, *, silent: bool = False) -> bytes:
    """What stdout is told where an engine does not become ready; on most wires that is nothing."""
    if wire := dialect_start(options):
        refusal: bytes = wire.refusal(message, options, str(options.get("resume") or ""), ready=False)
        return refusal
    if options.get("protocol") == "0.1.0" and not silent:
        return _error_frame("config_error", message)
    return b""


def _complain(message: str) -> None:
    from polylect.app.cli.terminal import print_error  # re: 8 ms, and only where something is to be said

    print_error(message)


def _last_words(start: Start, message: str) -> bytes:
    """Of an engine that breaks down after `ready`, in the form of its wire."""
    if wire := dialect_start(start.values):
        refusal: bytes = wire.refusal(message, start.values, start.session, ready=True)
        return refusal
    return _error_frame("internal_error", message)


def _error_frame(code: str, message: str) -> bytes:
    from _json import encode_basestring

    error = f'{{"code":"{code}","message":{encode_basestring(message)},"retryable":false}}'
    return f'{{"type":"error","msg_id":null,"error":{error}}}\n'.encode("utf-8", "replace")


def _hear_signals() -> int:
    """From here on a signal is read, not died of. loop.add_signal_handler would load inspect: 6 ms and 2 MiB."""
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    os.set_blocking(told, False)
    _signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in ENDING:
        _signal.signal(number, _already_told)
    return heard


def _already_told(number: int, frame: object) -> None:
    """A signal reaches the wakeup descriptor only if it also has a handler."""


def _take_streams() -> tuple[int, int]:
    """Our own copies of stdin and stdout. Whoever else prints ends up on stderr; whoever else reads finds nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        stdin = os.dup(0)
    except OSError:
        stdin = os.dup(nothing)
    stdout = os.dup(1)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    return stdin, stdout


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
