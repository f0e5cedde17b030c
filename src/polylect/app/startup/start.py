"""Goes from flags to `ready`, and checks before it everything that a host or a user can get wrong.

An engine that cannot start says why on stderr, exits with 1, 2 or 78, and writes no `ready`. `ready` is written before
asyncio, msgspec and the engine are imported: that takes 40 ms, in which the host is already reading. `app/main.py`
calls `start`; `serving/own_engine.py` and `serving/start_check.py` use the same checks for engines without pipes.
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

_CAPABILITIES = {
    "streaming_tools": "",
    "sub_agent_traces": "",
    "non_destructive_compact": "",
    "structured_traces": "structured_traces",
    "hitl_suspend": "script_tool",
    "rpc_tool_script": "script_tool",
    "plugins": "plugins",
}
"""Capabilities of wayland's wire that this engine has; with a name, only where that setting is on."""
ENDING_SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_CHOICES = {
    "protocol": VERSIONS,
    "on_eof": ("finish", "stop"),
    "log_level": ("debug", "info", "warning", "error"),
    "thinking": ("disabled", "enabled"),
    "output_cleanup": ("off", "safe", "full"),
    "steering_mode": ("one-at-a-time", "all"),
    "mcp_token_store": ("file", "keyring"),
    "mcp_sampling": ("off", "ask", "allow"),
    "follow_up_mode": ("one-at-a-time", "all"),
    "interrupt_mode": ("immediate", "wait"),
    "cost_updates": ("turn", "step"),
    "client_files": ("auto", "off"),
    "client_terminal": ("off", "auto"),
}
"""Settings that have to be one of these words; the first is the default."""
_SANDBOXES = ("auto", "bwrap", "landlock", "off")
CONFIGURATION = 78
"""The exit code if a person has to set something first."""
_SESSION_CODES: dict[type, int] = {folder.NoSuchSession: 66, folder.SessionExists: 73, folder.SessionInUse: 75}
"""The exit codes of a start whose session does not exist, is taken or is in use; `docs/native.md` has them."""
LACKS = ("authenticate", "close_session")
"""Commands that the native wire can say and an engine refuses in its first session; `Agent.can` has these names."""
_JSONSTREAM_CODES = (2, CONFIGURATION)
"""The exit codes that hosts of json-stream know; other wires have them as `EXIT_CODES` of their `start`."""


TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from polylect.app.serving.bridge import Bridge
    from polylect.providers.check import Offer


class CannotStart(Exception):
    """The engine cannot start; the text says what to do.

    `silent` keeps the text off stdout, also on a wire that has a frame for it. `code` is the exit code.
    `not_configured`: a person has to set something first, although hosts of other engines know only the exit code 1.
    """

    def __init__(self, message: str, *, silent: bool = False, code: int = 1, not_configured: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
        self.code = code
        self.not_configured = not_configured or code == CONFIGURATION


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
        ready_frame: bytes,
        options: config.Values | None = None,
    ) -> None:
        self.values = values
        self.env = env
        self.place = place
        self.session = session
        self.stdin, self.stdout = streams
        self.signals = signals
        """A descriptor from which the numbers of signals can be read."""
        self.ready_frame = ready_frame
        """The bytes that a host gets before it has sent anything; none on some wires."""
        self.options = options or {}
        """The flags by name, for further sessions."""


def start(options: config.Values) -> int:
    """Checks the start, writes `ready` and serves the conversation. Returns the exit code."""
    env = dict(os.environ) | _added_environment(options)
    notes: list[str] = []
    wire = dialect_start(options)
    opens = wire is None or wire.FIRST_SESSION
    try:
        values = resolve_settings(options, env, notes) if opens else _settings_of_process(options, env)
        place = lock_session(values, env) if opens else None
    except (CannotStart, config.ConfigError, folder.FolderError) as error:
        missing = isinstance(error, folder.FolderError) and bool(options.get("resume") or options.get("continue"))
        _report_failure(str(error), options, silent=missing or getattr(error, "silent", False))
        return _exit_code(error, options)
    except OSError as error:  # most often a full disk
        place_name = error.filename or "the session folder"
        _report_failure(f"cannot start: {error.strerror}: {place_name}", options, silent=False)
        return 1
    streams = redirect_streams()
    signals = catch_signals()
    session = place.session if place else "" if wire is None or not opens else new_session(values)
    ready_frame = _ready_frame(values, session)
    deferred = bool(values.get("required_extensions"))  # then `serve` writes `ready`, once they are loaded
    try:
        _write(streams[1], b"" if deferred else ready_frame)
    except OSError as error:
        print(f"polylect: nobody reads stdout: {error.strerror}", file=sys.stderr)
        if place:
            place.close(discard=not os.path.exists(place.log))
        return 1
    for note in notes:
        _print_error(note)
    return serve(Start(values, env, place, streams, signals, session, ready_frame, options))


def _settings_of_process(options: config.Values, env: dict[str, str]) -> config.Values:
    """The settings of a process that begins without a conversation; each session resolves its own.

    Flags are checked now. Keys, settings files and what is in a script are checked when a session is opened: that is
    slower, and a host shows it better than the end of a process. Nobody is left to answer when the host is gone, so
    what runs is stopped then. Raises CannotStart or ConfigError.
    """
    values: config.Values = {"on_eof": "stop", **options}
    if folder_path := values.get("workspace"):
        values["workspace"] = _folder(os.path.realpath(str(folder_path)))
    settings = {**values, **config.gather({**values, "isolated": True}, env, os.sep, [])}
    for name, choices in _CHOICES.items():
        if settings.get(name) is not None:
            _check_choice(settings, name, choices)
    mode_of(settings)
    _check_rights(settings)
    _check_folders(settings)
    if provider := settings.get("provider"):
        _check_provider_name(str(provider))
    if (script := str(settings.get("script") or "")) and not os.path.isfile(script):
        _check_script(script)
    if path := settings.get("api_key_file"):
        _key_in(str(path))
    return values


def _added_environment(options: config.Values) -> dict[str, str]:
    """The variables that settings files of a program that we stand in for add to the environment."""
    variables = options.pop("environment", None)
    return variables if isinstance(variables, dict) else {}


def _exit_code(error: Exception, options: config.Values) -> int:
    """The exit code; a wire of another program knows only the codes of that program."""
    code = error.code if isinstance(error, CannotStart) else _SESSION_CODES.get(type(error), 1)
    known = wire.EXIT_CODES if (wire := dialect_start(options)) else _JSONSTREAM_CODES
    return code if code in known else 1


def dialect_start(values: config.Values) -> "ModuleType | None":
    """The `DialectStart` (`dialects/base.py`) of the wire that will be spoken; None for json-stream, our own."""
    name = values.get("dialect")
    return plug.load(f"dialects.{name}", "start") if name else None


def serve(start: Start, bridge: "Bridge | None" = None) -> int:
    """Serves the conversation, with an engine of our own or with those of a `bridge`. Returns the exit code."""
    from polylect.app.startup.lazy import LazyImports  # the host has `ready` now
    from polylect.app.startup.packed import PackedImports

    try:
        with PackedImports() as packed:
            with LazyImports():
                from polylect.app.serving.serve import load, run  # asyncio, msgspec and the engine: 40 ms

                load(start.values, own=bridge is None)
            gc.enable()
            gc.freeze()
            return run(start, packed, bridge)
    except Exception as error:  # noqa: BLE001  (a host that has received `ready` is told of the end)
        message = f"{type(error).__name__}: {error}"
        _print_error(message)
        _write(start.stdout, _crash_frame(start, message))
        os._exit(1)  # a half-closed event loop would only print warnings


def _ready_frame(values: config.Values, session: str) -> bytes:
    """The bytes that a host gets before it has sent anything."""
    if wire := dialect_start(values):
        ready: bytes = wire.ready(values, session)
        return ready
    from polylect.dialects.jsonstream import ready as first_line  # other wires do without

    thinking, levels, priced = model_facts(values) or (False, (), False)
    version = str(values["protocol"])
    offered = first_line.capabilities(
        version,
        thinking=thinking,
        effort_levels=levels,
        mode=str(values["mode"]),
        mcp=bool(values.get("mcp_servers")),
        complete=bool(values.get("complete_ready")),
        extras={**capabilities(values), "cost_attribution": priced},
    )
    persistence = _persistence(session) if values.get("assistant") else ""
    return first_line.ready_line(version, session, offered, persistence=persistence)


def _persistence(session: str) -> str:
    """In wayland-core's words: sessions are kept, but a turn that was cut off is not replayed."""
    return "journaled_without_replay" if session else "disabled_by_operator"


def capabilities(values: config.Values) -> dict[str, object]:
    """The capabilities of this engine beyond the baseline of the wire, whatever its model."""
    return {flag: True for flag, name in _CAPABILITIES.items() if not name or values.get(name)}


def model_facts(values: config.Values) -> "Offer | None":
    """What the catalogue has about the model in use: thinking, effort levels, and whether its price is known."""
    names = {name: str(values.get(name) or "") for name in ("provider", "model", "script")}
    return offer(**names, own=values.get("models"), prices=values.get("prices"))


def resolve_settings(options: config.Values, env: dict[str, str], notes: list[str]) -> config.Values:
    """All settings of the start, complete and checked. Remarks for the user are added to `notes`.

    Raises CannotStart or ConfigError.
    """
    try:
        workspace = os.path.realpath(str(options.get("workspace") or os.getcwd()))
    except FileNotFoundError:
        raise CannotStart("the current folder has been deleted; name another one with --workspace") from None
    _folder(workspace)
    if path := options.get("api_key_file"):
        options = {**options, "api_key": _key_in(str(path))}
    if options.get("assistant"):
        from polylect.app.startup.wayland_services import with_address  # only for that host

        options = with_address(options, env)
    settings = gather_settings(options, env, workspace, notes)
    if not settings["provider"]:
        reason = no_provider(str(settings.get("model") or ""), has_key=bool(settings.get("api_key")))
        raise CannotStart(reason, code=CONFIGURATION)
    values = config.choose(settings, str(settings["provider"]))
    if not values.get("model"):
        usual = values.get("usual_model") if values["provider"] == "anthropic" else ""
        values["model"] = usual or default_model(str(values["provider"]), str(values.get("base_url") or ""), env)
    notes += [f"{flag} has no meaning here and is ignored" for flag in config.texts(options, "ignored")]
    notes += config.texts(options, "notes")
    if values.get("sandbox") == "off":  # then the host's terminal is no less safe than ours
        values.setdefault("client_terminal", "auto")
    for name, choices in _CHOICES.items():
        _check_choice(values, name, choices)
    values["mode"] = mode_of(values)
    values["restore"] = not (options.get("model") or options.get("provider"))  # else a session has its own model
    names_mode = options.get("approval_mode") or options.get("force")
    values["restore_mode"] = bool(values.get("keep_mode") and not names_mode)
    prompts = [str(values.get("system_prompt") or ""), *config.texts(values, "append_system_prompt")]
    values["system_prompt"] = "\n\n".join(filter(None, prompts))
    _check_rights(values)
    values["plugins"] = config.has_extensions(values, env, workspace)
    values["workspace"] = workspace
    values["folders"] = [os.path.realpath(path) for path in config.texts(values, "folders")]
    _check_folders(values)
    _check_provider(values, env)
    _check_model(values)
    _check_effort(values)
    _check_price(values, notes)
    _check_servers(values, env)
    _check_schema(values)
    values["chain"] = list(_fallbacks(settings, env, notes)) if values.get("chain_enabled") else []
    return values


def _folder(workspace: str) -> str:
    if not os.path.isdir(workspace):
        raise CannotStart(f"--workspace {workspace}: there is no such folder")
    return workspace


def _check_folders(values: config.Values) -> None:
    for path in config.texts(values, "folders"):
        if not os.path.isdir(path):
            raise CannotStart(f"--add-dir {path}: there is no such folder", code=2)


def gather_settings(options: config.Values, env: dict[str, str], workspace: str, notes: list[str]) -> config.Values:
    """The settings of all places, with the servers of Wayland Desktop where that is the host. Raises ConfigError."""
    settings = config.gather(options, env, workspace, notes)
    if options.get("assistant") or options.get("host_profile"):
        _add_connectors(settings, env, notes)
    return settings


def _key_in(path: str) -> str:
    try:
        return config.read_bounded(path).decode().strip()
    except (OSError, ValueError) as error:
        raise CannotStart(f"--api-key-file {path}: {getattr(error, 'strerror', '') or error}", code=2) from None


def _add_connectors(settings: config.Values, env: dict[str, str], notes: list[str]) -> None:
    """Adds the servers of Wayland Desktop; those of our own settings are stronger."""
    from polylect.app.startup.wayland_home import connectors  # only for that host

    own = settings.get("mcp_servers")
    if servers := connectors(env, str(settings.get("host_profile") or ""), notes):
        settings["mcp_servers"] = {**servers, **(own if isinstance(own, dict) else {})}


def mode_of(values: config.Values) -> str:
    """The mode that flags ask for, by our own name. Raises CannotStart."""
    mode = "force" if values.get("force") else str(values.get("approval_mode") or "default")
    name = OUR_MODES.get(mode)
    if name is None:
        from polylect.vocab.modes import MODE_WORDS  # names that other hosts use

        name = MODE_WORDS.get(mode)
    if name is None:
        raise CannotStart(f"approval mode {mode!r} does not exist; modes are default, auto_edit, force, plan, dont_ask")
    return name


def _check_rights(values: config.Values) -> None:
    if values.get("sandbox", "auto") not in _SANDBOXES:
        raise CannotStart(f"sandbox.mode {values['sandbox']!r}: choose one of {', '.join(_SANDBOXES)}")
    if rules := [*config.texts(values, "allow"), *config.texts(values, "deny"), *config.texts(values, "ask")]:
        from polylect.permissions.rulebook import fault_in  # 40 ms, and only where there are rules

        if fault := fault_in(rules):
            raise CannotStart(f"a rule in [tools]: {fault}")


def _fallbacks(settings: config.Values, env: dict[str, str], notes: list[str]) -> "Iterator[config.Values]":
    """The settings of the fallbacks: models that are asked where the first one fails. Raises CannotStart."""
    fallbacks = config.texts(settings, "fallbacks")
    if not fallbacks:
        raise CannotStart('provider_chain is enabled and names nobody: set fallbacks = ["openai:gpt-5"]')
    for text in fallbacks:
        provider, _, model = text.partition(":")
        if not model:
            raise CannotStart(f'provider_chain.fallbacks: {text!r} is not like "openai:gpt-5", a provider and a model')
        values = {**config.choose(settings, provider), "model": model}
        try:
            _check_provider(values, env)
            _check_price(values, notes)
        except CannotStart as error:
            raise CannotStart(f"provider_chain.fallbacks: {text!r}: {error}", code=error.code) from None
        yield values


def _check_servers(values: config.Values, env: dict[str, str]) -> None:
    servers = values.get("mcp_servers")
    if isinstance(servers, dict) and servers:
        from polylect.mcp.server_config import ServerConfigError, check_servers

        try:
            check_servers(servers, env)
        except ServerConfigError as error:
            raise CannotStart(str(error)) from None


def _check_schema(values: config.Values) -> None:
    if schema := values.get("json_schema"):
        from polylect.engine.turn.structured import fault_in_schema  # 100 ms, and only where there is a schema

        if fault := fault_in_schema(schema):
            raise CannotStart(f"--json-schema is not a valid JSON Schema: {fault}")


def _check_provider(values: config.Values, env: dict[str, str]) -> None:
    provider = str(values["provider"])
    _check_provider_name(provider)
    names = ("api_key", "base_url", "region", "project", "profile", "model")
    credentials = {name: str(values[name]) for name in names if values.get(name)}
    if reason := check(provider, **credentials, env=env):
        has_key = check(provider, **{**credentials, "api_key": "any"}, env=env) == reason  # a key would not help
        raise CannotStart(reason, not_configured=not has_key)
    if provider == "scripted" and (pace := env.get("POLYLECT_SCRIPT_PACE", "")) and not _is_number(pace):
        raise CannotStart(f"POLYLECT_SCRIPT_PACE is {pace!r}; it has to be seconds between chunks, such as 0.02")
    if provider == "scripted" and values.get("script"):
        _check_script(str(values["script"]))


def _check_provider_name(provider: str) -> None:
    try:
        describe(provider)
    except LookupError:
        raise CannotStart(f"there is no provider {provider!r}; providers are {', '.join(providers())}") from None


def _check_script(path: str) -> None:
    from polylect.providers.scripted.parse import check_script  # 40 ms, and only where a script is named

    if reason := check_script(path):
        raise CannotStart(reason)


def _check_model(values: config.Values) -> None:
    """Checks that a model is named where there is no default, unless a resumed session may bring its own."""
    resumed = any(values.get(name) for name in ("resume", "continue", "session_file"))
    if not (values.get("model") or resumed or not describe(str(values["provider"])).needs_model):
        text = f"{values['provider']}: no model is named: set --model; see polylect models"
        raise CannotStart(text, code=CONFIGURATION)


def _check_effort(values: config.Values) -> None:
    """Checks --effort against the levels of the model. Unknown models and flags of other programs are not checked."""
    effort = values.get("effort")
    if not effort or values.get("dialect", "native") != "native" or (facts := model_facts(values)) is None:
        return
    if effort not in facts[1]:
        levels = ", ".join(facts[1]) or "none"
        raise CannotStart(f"--effort {effort!r} is not offered by this model; its levels are: {levels}", code=2)


def _check_price(values: config.Values, notes: list[str]) -> None:
    """Checks that the model's price is known where there is a cap in dollars. A session's model is checked later.

    With `allow_unpriced` an unknown price is only noted.
    """
    caps = any(values.get(f"{budget}:max_cost_usd") for budget in ("budget", "turn_budget"))
    model = str(values.get("model") or "")
    if not caps or not (model or not describe(str(values["provider"])).needs_model):
        return
    facts = model_facts(values)
    if facts is None or not facts[2]:
        name = model or str(values["provider"])
        text = f"the price of {name!r} is not known, so a cap in dollars ({_cap_name(values)}) cannot hold"
        if values.get("budget:allow_unpriced"):
            notes.append(text)
            return
        ways = f'give it in [prices."{name}"], leave the cap out, or start with --allow-unpriced'
        raise CannotStart(f"{text}: {ways}", code=CONFIGURATION)


def _cap_name(values: config.Values) -> str:
    """How the cap in dollars was given: `run` and `connect` pass theirs on as `--max-budget-usd`."""
    return "--max-budget-usd, --budget of run" if values.get("turn_budget:max_cost_usd") else "max_cost_usd of [budget]"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()


def _check_choice(values: config.Values, name: str, choices: tuple[str, ...]) -> None:
    value = values.setdefault(name, choices[0]) if name != "log_level" else values.get(name, choices[0])
    if value not in choices:
        flag = "compaction" if name == "output_cleanup" else name.replace("_", "-")
        raise CannotStart(f"--{flag} {value!r}: choose one of {', '.join(choices)}", code=2)


def lock_session(values: config.Values, env: dict[str, str]) -> folder.Folder | None:
    """The locked folder of the session: a new one, or the one to resume. None if sessions are off or a file is resumed.

    Raises CannotStart or FolderError.
    """
    new_id, resumed = values.get("session_id"), values.get("resume")
    if values.get("continue") and resumed is None:
        resumed = "latest"
    if new_id is not None and resumed is not None and not values.get("fork"):
        raise CannotStart("--resume and --session-id exclude each other: one continues, the other begins", silent=True)
    if new_id == "latest":
        raise CannotStart("--session-id latest: that word is taken, --resume latest means the newest session", code=2)
    if values.get("no_session") or values.get("sessions") is False:
        if resumed is not None:
            raise CannotStart("--resume needs sessions, and they are switched off", silent=True)
        return None
    root, workspace = sessions_root(values, env), str(values["workspace"])
    if file := values.get("session_file"):
        folder.check_resumable_path(str(file))
        return None  # its id is known only when the file is read
    if resumed is not None:
        session = folder.find_session(root, str(resumed), workspace)
        folder.check_resumable(root, session)
        if not values.get("fork"):
            return folder.resume(root, session, workspace)
        values["fork_from"] = session
    return folder.create(root, new_session(values) if new_id is None else str(new_id), workspace)


def sessions_root(values: config.Values, env: dict[str, str]) -> str:
    return os.path.abspath(str(values.get("sessions_root") or folder.sessions_root(env)))


def new_session(values: config.Values) -> str:
    """The id of a new session, as the wire has them."""
    wire = dialect_start(values)
    return str(wire.new_session_id()) if wire else folder.new_id()


def _report_failure(message: str, options: config.Values, *, silent: bool) -> None:
    """Writes the reason to stderr and, for aionrs 0.1.0, an error frame to stdout unless `silent`."""
    _print_error(message)
    _write(1, refusal_frame(message, options, silent=silent))


def refusal_frame(message: str, options: config.Values, *, silent: bool = False) -> bytes:
    """The bytes for stdout if the engine cannot start; none on most wires."""
    if wire := dialect_start(options):
        refusal: bytes = wire.refusal(message, options, str(options.get("resume") or ""), ready=False)
        return refusal
    if options.get("protocol") == "0.1.0" and not silent:
        return _error_frame("config_error", message)
    return b""


def _print_error(message: str) -> None:
    from polylect.app.cli.terminal import print_error  # imports re: 8 ms

    print_error(message)


def _crash_frame(start: Start, message: str) -> bytes:
    """The last frame of an engine that fails after `ready`."""
    if wire := dialect_start(start.values):
        refusal: bytes = wire.refusal(message, start.values, start.session, ready=True)
        return refusal
    return _error_frame("internal_error", message)


def _error_frame(code: str, message: str) -> bytes:
    from _json import encode_basestring

    error = f'{{"code":"{code}","message":{encode_basestring(message)},"retryable":false}}'
    return f'{{"type":"error","msg_id":null,"error":{error}}}\n'.encode("utf-8", "replace")


def catch_signals() -> int:
    """Returns a descriptor from which signals are read from now on.

    loop.add_signal_handler is not used: it would import inspect, 6 ms and 2 MiB.
    """
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    _signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in ENDING_SIGNALS:
        _signal.signal(number, _ignore_signal)
    return read_fd


def _ignore_signal(number: int, frame: object) -> None:
    """A signal reaches the wakeup descriptor only if it also has a handler."""


def redirect_streams() -> tuple[int, int]:
    """Returns our own copies of stdin and stdout. Other code that prints writes to stderr, and finds stdin empty."""
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
