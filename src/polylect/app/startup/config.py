"""Reads settings from flags, the environment and files; the first of these that has a setting counts.

The files are `./.polylect/config.toml` and the user's `polylect/config.toml`. A project's file comes with a repository
that may not be trusted: without --trust-workspace only what `project_settings.py` lists is taken from it, and that can
only narrow rights. Every value is checked here for its type; `start.py` checks what the values mean.

Runs before `ready`, so tomllib (13 ms) is imported only where a file exists.
"""

import os
import stat

from polylect.providers.check import choose_provider

Values = dict[str, object]
Keys = dict[str, tuple[str, type | tuple[type, ...]]]
"""By its place in a file: the name of a setting among the values, and its type."""

_KEYS: Keys = {
    "default.provider": ("provider", str),
    "default.model": ("model", str),
    "default.max_tokens": ("max_tokens", int),
    "default.max_turns": ("max_turns", int),
    "default.system_prompt": ("system_prompt", str),
    "default.approval_mode": ("approval_mode", str),
    "default.script": ("script", str),
    "default.thinking": ("thinking", str),
    "default.thinking_budget": ("thinking_budget", int),
    "default.effort": ("effort", str),
    "tools.allow_list": ("allow_list", list),
    "tools.auto_approve": ("force", bool),
    "tools.allow": ("allow", list),
    "tools.deny": ("deny", list),
    "tools.ask": ("ask", list),
    "tools.script": ("script_tool", bool),
    "tools.search_url": ("search_url", str),
    "tools.todo_reminder": ("todo_reminder", bool),
    "observability.structured_traces": ("structured_traces", bool),
    "sandbox.mode": ("sandbox", str),
    "sandbox.network": ("sandbox_network", bool),
    "sandbox.writable": ("sandbox_writable", list),
    "sandbox.hidden": ("sandbox_hidden", list),
    "sandbox.env": ("sandbox_env", list),
    "client.files": ("client_files", str),
    "client.terminal": ("client_terminal", str),
    "client.timeout": ("client_timeout", (int, float)),
    "session.enabled": ("sessions", bool),
    "session.directory": ("sessions_root", str),
    "mcp.wait": ("mcp_wait", (int, float)),
    "mcp.search_above_tokens": ("mcp_search_above_tokens", int),
    "mcp.token_store": ("mcp_token_store", str),
    "mcp.share_servers": ("mcp_share_servers", bool),
    "mcp.sampling": ("mcp_sampling", str),
    "mcp.sampling_max_tokens": ("mcp_sampling_max_tokens", int),
    "approval_timeout": ("approval_timeout", (int, float)),
    "stream_timeout": ("stream_timeout", (int, float)),
    "provider_chain.enabled": ("chain_enabled", bool),
    "provider_chain.failure_threshold": ("failure_threshold", int),
    "provider_chain.recovery_timeout_secs": ("recovery_timeout", (int, float)),
    "provider_chain.fallbacks": ("fallbacks", list),
    "session.checkpoints": ("checkpoints", bool),
    "queue.steering_mode": ("steering_mode", str),
    "queue.follow_up_mode": ("follow_up_mode", str),
    "queue.interrupt_mode": ("interrupt_mode", str),
    "provider_chain.auto_retry": ("auto_retry", bool),
    "compact.auto": ("auto_compaction", bool),
    "compact.at": ("compact_at", (int, float)),
    "compact.output_cleanup": ("output_cleanup", str),
    "heartbeat": ("heartbeat", (int, float)),
    "max_line": ("max_line", int),
}
_BUDGET: Keys = {
    f"{table}.{cap}": (f"{name}:{cap}", (int, float))
    for table, name in (("budget", "budget"), ("budget.turn", "turn_budget"))
    for cap in (
        *("max_cost_usd", "max_tokens", "max_tokens_in", "max_tokens_out", "max_wall_time_secs"),
        *("max_tool_runtime_secs", "max_processes", "max_agent_depth"),
    )
}
_BUDGET["budget.allow_unpriced"] = ("budget:allow_unpriced", bool)
_KEYS |= _BUDGET
_OLD_NAMES = {"compact.compaction": "compact.output_cleanup"}
"""Old names of settings. They keep working, with a note."""
HOOKS = (
    *("PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "PreCompact"),
    *("PermissionRequest", "PermissionDenied", "PostToolBatch", "UserPromptExpansion", "PostCompact", "StopFailure"),
    "DirectoryAdded",
)
_ADDED_LISTS = ("deny", "ask", "sandbox_hidden", *HOOKS)
"""Lists that a stronger place adds to instead of replacing them, so that it cannot lift what a weaker one forbids."""
_ADDED_BY_FLAGS = ("allow", "sandbox_env")
"""Lists that a flag adds to, and a file replaces."""
MOST_BYTES = 1024 * 1024
_NUMBER = (int, float)
KIND_NAMES: dict[object, str] = {str: "a text", int: "a whole number", bool: "true or false", list: "a list of texts"}
_TABLES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "providers": {
        "api_key": str,
        "base_url": str,
        "model": str,
        "script": str,
        "region": str,
        "project": str,
        "profile": str,
        "api": str,
        "ca_file": str,
        "prompt_caching": bool,
        "web_search": bool,
        "max_retries": int,
    },
    "models": {
        "window": int,
        "max_output": int,
        "thinking": bool,
        "effort_levels": list,
        "images": bool,
        "api": str,
    },
    "extensions": {"path": str, "required": bool},
    "prices": {"input": _NUMBER, "output": _NUMBER, "cache_read": _NUMBER, "cache_write": _NUMBER},
}
"""Sections with a table for each name: `[providers.openai]`, `[models."gpt-5"]`, `[extensions.guard]`."""
PROVIDER_SETTINGS = _TABLES["providers"]
_HOOK: Keys = {"matcher": ("matcher", str), "command": ("command", str), "timeout": ("timeout", _NUMBER)}
_CHOICES = {"api": ("chat", "responses")}
_ENVIRONMENT = {"POLYLECT_PROVIDER": "provider", "POLYLECT_MODEL": "model", "POLYLECT_SCRIPT": "script"}


class ConfigError(Exception):
    """A setting is wrong; the text names the place and what to do."""


def gather(flags: Values, env: dict[str, str], workspace: str, notes: list[str]) -> Values:
    """All settings of flags, environment and files; those of providers are in `providers`, by name.

    `flags` are parsed options, `workspace` is an absolute path. `defaults` among the flags are settings weaker than
    every file: those of a program that we stand in for. `config` is the path of one more file, or a table as a file
    holds it. With `isolated` no other file is read. Remarks for the user are added to `notes`. Raises ConfigError.
    """
    flags = dict(flags)
    defaults = flags.pop("defaults", None)
    settings: Values = defaults if isinstance(defaults, dict) else {}
    if not flags.get("isolated"):
        settings = from_files(env, workspace, notes, settings, trusted=bool(flags.get("trust_workspace")))
        _name_ignored_extensions(flags, workspace, notes)
    match flags.get("config"):
        case str(path):
            if not os.path.isfile(path):
                raise ConfigError(f"--config {path}: there is no such file")
            settings = _merge(settings, _read(path, notes))
        case dict(table):
            settings = _merge(settings, _checked("config", table, notes))
    flags = {**flags, **_extensions(flags, settings.pop("extensions", None), env)}
    settings |= {name: env[variable] for variable, name in _ENVIRONMENT.items() if env.get(variable)}
    joined: Values = {name: flags[name] for name in ("deny", "ask", "hooks", *_ADDED_BY_FLAGS) if name in flags}
    in_files = {name: settings[name] for name in joined if name in settings}
    settings |= flags | _merge(in_files, joined, adding=_ADDED_BY_FLAGS)
    return {**settings, "provider": _provider(settings, env)}


def _provider(settings: Values, env: dict[str, str]) -> str:
    """The provider that is named; else the one that a script or the credentials stand for; empty if there is none."""
    if provider := settings.get("provider"):
        return str(provider)
    if settings.get("script"):
        return "scripted"
    return choose_provider(env, model=str(settings.get("model") or ""), tables=settings.get("providers"))


def from_files(
    env: dict[str, str], workspace: str, notes: list[str], settings: Values | None = None, *, trusted: bool
) -> Values:
    """The settings of the user's file and the project's. Of a project that is not trusted, only what narrows rights.

    `settings` are weaker ones.
    """
    own = user_file(env)
    settings = _merge(settings or {}, _logins(env))
    for path in files(env, workspace):
        if trusted or path == own:
            settings = _merge(settings, _read(path, notes))
        else:
            from polylect.app.startup.project_settings import narrowed  # only where a project has a file

            settings = narrowed(settings, path, workspace, notes)
    return settings


def choose(settings: Values, provider: str) -> Values:
    """The settings for one provider. A key or an address from a flag counts only for the provider in use."""
    tables = settings.get("providers")
    own = tables.get(provider, {}) if isinstance(tables, dict) else {}
    others = () if provider == settings["provider"] else _TABLES["providers"]
    rest = {name: value for name, value in settings.items() if name != "providers" and name not in others}
    return {**own, **rest, "provider": provider}


def _merge(weaker: Values, stronger: Values, *, adding: tuple[str, ...] = ()) -> Values:
    """Merges settings; the stronger ones count. Tables are merged key by key, the lists in `adding` are joined."""
    merged = weaker | stronger
    for name in weaker.keys() & stronger.keys():
        weak, strong = weaker[name], stronger[name]
        if isinstance(weak, dict) and isinstance(strong, dict):
            merged[name] = _merge(weak, strong)
        elif name in (*_ADDED_LISTS, *adding) and isinstance(weak, list) and isinstance(strong, list):
            merged[name] = weak + strong
    return merged


def files(env: dict[str, str], workspace: str) -> list[str]:
    """The configuration files there are, the weaker first."""
    places = (user_file(env), os.path.join(workspace, ".polylect", "config.toml"))
    return [path for path in places if os.path.isfile(path)]


def user_file(env: dict[str, str]) -> str:
    folder = env.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(folder):  # a relative path would depend on the workspace
        folder = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(folder, "polylect", "config.toml")


def credentials_file(env: dict[str, str]) -> str:
    """The file in which `polylect login` stores keys."""
    return os.path.join(os.path.dirname(user_file(env)), "credentials.toml")


def stored_keys(path: str) -> dict[str, str]:
    """The keys that were stored by `polylect login`, by provider. Raises ConfigError."""
    if not os.path.isfile(path):
        return {}
    tables = _checked(path, parse_file(path), []).get("providers")
    tables = tables if isinstance(tables, dict) else {}
    return {name: str(table["api_key"]) for name, table in tables.items() if table.get("api_key")}


def _logins(env: dict[str, str]) -> Values:
    """The stored keys as settings, but for providers whose key is in the environment: that is the stronger one."""
    if not (keys := stored_keys(credentials_file(env))):
        return {}
    from polylect.providers.check import describe, first_set, providers  # only where somebody has logged in

    known = providers()
    tables = {
        name: {"api_key": key}
        for name, key in keys.items()
        if name in known and not first_set(env, describe(name).key_variables)
    }
    return {"providers": tables} if tables else {}


def parse_file(path: str, most_bytes: int = MOST_BYTES, most_dots: int = 0) -> Values:
    """Reads a TOML file. Size and nesting are bounded and pipes are refused, so that no file can hold up a start.

    `most_dots` bounds the dots of a line, for files that are not trusted. Raises ConfigError.
    """
    import tomllib  # 13 ms, and only where there is a file

    try:
        data = read_bounded(path, most_bytes)
        if most_dots and any(line.count(b".") > most_dots for line in data.split(b"\n")):
            raise ValueError(f"a line has more than {most_dots} dots")
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ConfigError(f"{path}: its tables or lists are nested too deeply") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None


def read_bounded(path: str, most: int = MOST_BYTES) -> bytes:
    """Reads a regular file of at most `most` bytes. Raises OSError or ValueError; never waits on a pipe or a device."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _read(path: str, notes: list[str]) -> Values:
    """The settings of a trusted file. Raises ConfigError."""
    return _checked(path, parse_file(path), notes)


def _checked(path: str, data: Values, notes: list[str]) -> Values:
    """The settings of a table as a trusted file holds it. `path` is for errors. Raises ConfigError."""
    settings: Values = {}
    mcp = data.get("mcp")
    if isinstance(mcp, dict) and (servers := mcp.get("servers")) is not None:
        settings["mcp_servers"] = _servers(path, servers)
        data = {**data, "mcp": {name: value for name, value in mcp.items() if name != "servers"}}
    if (hooks := data.get("hooks")) is not None:
        settings["hooks"] = check_hooks(path, hooks)
        data = {name: value for name, value in data.items() if name != "hooks"}
    for key, value in flatten(path, data):
        if key in _OLD_NAMES:
            notes.append(f"{path}: {key} is now called {_OLD_NAMES[key]}")
            key = _OLD_NAMES[key]
        section, _, rest = key.partition(".")
        if section in _TABLES:
            settings = _merge(settings, {section: _table_key(path, section, rest, value)})
        else:
            settings[check_value(path, key, value)] = value
    return settings


def _servers(path: str, servers: object) -> object:
    """Checks `[mcp.servers]`. What is in each table is checked by `mcp/server_config.py`."""
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: mcp.servers holds a table for each server: [mcp.servers.NAME]")
    return servers


def check_hooks(path: str, table: object) -> object:
    """Checks the tables `[[hooks.PreToolUse]]` and returns them. Raises ConfigError."""
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: hooks are written as [[hooks.PreToolUse]]")
    for event, rows in table.items():
        if event not in HOOKS:
            raise ConfigError(f"{path}: there is no [[hooks.{event}]]; moments are {', '.join(HOOKS)}")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{path}: hooks are written as [[hooks.{event}]]")
        for row in rows:
            _check_hook(path, f"hooks.{event}", row)
    return table


def _check_hook(path: str, place: str, row: Values) -> None:
    keys = {f"{place}.{name}": entry for name, entry in _HOOK.items()}
    for key, value in row.items():
        _check(path, f"{place}.{key}", value, keys)
    if not row.get("command"):
        raise ConfigError(f"{path}: {place} needs a command")
    matcher = row.get("matcher")
    if isinstance(matcher, str) and matcher not in ("", "*"):
        import re  # 8 ms, and only for hooks

        try:
            re.compile(matcher)
        except re.error as error:
            raise ConfigError(f"{path}: {place}.matcher {matcher!r} is not a pattern: {error}") from None


def _extensions(flags: Values, configured: object, env: dict[str, str]) -> Values:
    """The extension files of flags and of `[extensions.NAME]`, and those that have to load. Raises ConfigError."""
    named = texts(flags, "extensions")
    for path in named:
        if not os.path.isfile(path):
            raise ConfigError(f"--extension {path}: there is no such file")
    files, required = [], list(named)
    folder = os.path.join(os.path.dirname(user_file(env)), "extensions")
    for name, table in configured.items() if isinstance(configured, dict) else ():
        path = os.path.expanduser(str(table.get("path") or os.path.join(folder, f"{name}.py")))
        if not os.path.isabs(path):
            raise ConfigError(f"extensions.{name}.path takes an absolute path, not {path!r}")
        if table.get("required") and not os.path.isfile(path):
            raise ConfigError(f"the extension {name} is required, and there is no file {path}")
        files.append(path)
        required += [path] if table.get("required") else []
    return {"extensions": [*files, *named], "required_extensions": required} if files or named else {}


def texts(values: Values, name: str) -> list[str]:
    """A setting that is a list of texts; empty if it is not set."""
    value = values.get(name)
    return value if isinstance(value, list) else []


def _name_ignored_extensions(flags: Values, workspace: str, notes: list[str]) -> None:
    folder = os.path.join(workspace, ".polylect", "extensions")
    if os.path.isdir(folder) and not flags.get("trust_workspace"):
        notes.append(f"{folder}: a project's extensions are code, and are ignored without --trust-workspace")


def extension_folders(values: Values, env: dict[str, str], workspace: str) -> list[str]:
    """The folders that hold extensions: the user's, and the project's if it is trusted; none if `isolated`."""
    if values.get("isolated"):
        return []
    own = os.path.join(os.path.dirname(user_file(env)), "extensions")
    return [own, os.path.join(workspace, ".polylect", "extensions")] if values.get("trust_workspace") else [own]


def has_extensions(values: Values, env: dict[str, str], workspace: str) -> bool:
    """Whether extension files will be loaded. Installed packages are not counted: finding them takes a millisecond."""
    folders = extension_folders(values, env, workspace)
    names = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return bool(values.get("extensions")) or any(name.endswith(".py") and name[0] != "_" for name in names)


def flatten(path: str, data: Values) -> list[tuple[str, object]]:
    """Each setting with its place, such as `sandbox.network`. Raises ConfigError."""
    try:
        return _flat(data)
    except RecursionError:
        raise ConfigError(f"{path}: its tables are nested too deeply") from None


def _flat(data: Values, prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in data.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs


def _table_key(path: str, section: str, rest: str, value: object) -> Values:
    """Checks one setting of a named table. The name of a model may hold dots; the last word is the setting."""
    owner, _, name = rest.rpartition(".")
    place = f"{section}.{owner}." if owner else f"{section}."
    _check(path, place + name, value, {place + key: (key, kind) for key, kind in _TABLES[section].items()})
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigError(f"{path}: {section}.{rest} is one of {', '.join(_CHOICES[name])}, not {_short(value)}")
    return {owner: {name: value}}


def check_value(path: str, key: str, value: object) -> str:
    """Checks a setting and returns its name among the values. Raises ConfigError if key or value is wrong."""
    return _check(path, key, value, _KEYS)


def _short(value: object) -> str:
    """A wrong value, shortened for an error text. Some numbers and lists cannot be written out at all."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "that"
    return text if len(text) <= 100 else f"{text[:100]}..."


def _check(path: str, key: str, value: object, keys: Keys) -> str:
    if key not in keys:
        from difflib import get_close_matches  # 8 ms, and only for an error

        near = get_close_matches(key[:100], keys, n=1)
        raise ConfigError(f"{path}: there is no setting {key[:100]}" + (f"; did you mean {near[0]}?" if near else ""))
    name, kind = keys[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{path}: {key} takes {KIND_NAMES.get(kind, 'a number')}, not {_short(value)}")
    if isinstance(value, int | float) and value < 0:
        raise ConfigError(f"{path}: {key} cannot be below zero, and is {_short(value)}")
    if isinstance(value, float) and not value < float("inf"):  # nan is not below it either
        raise ConfigError(f"{path}: {key} takes a finite number, not {_short(value)}")
    if isinstance(value, list) and not all(isinstance(one, str) for one in value):
        raise ConfigError(f"{path}: {key} takes a list of texts, not {_short(value)}")
    return name
