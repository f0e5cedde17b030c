"""Settings from flags, environment and files, in that order of strength.

Files are `./.polylect/config.toml` and the user's `polylect/config.toml`. tomllib costs 13 ms, so it is imported only
where a file exists. A project's file comes with a repository that may not be trusted: without --trust-workspace only
what `project_settings.py` lists is taken from it, and that can only narrow rights.
"""

import os
import stat

from polylect.providers.check import choose_provider

Values = dict[str, object]
Keys = dict[str, tuple[str, type | tuple[type, ...]]]
"""A setting's place in a file, what it is called among the values, and its type."""

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
    "tools.todo_reminder": ("todo_reminder", bool),
    "observability.structured_traces": ("structured_traces", bool),
    "sandbox.mode": ("sandbox", str),
    "sandbox.network": ("sandbox_network", bool),
    "sandbox.writable": ("sandbox_writable", list),
    "sandbox.hidden": ("sandbox_hidden", list),
    "sandbox.env": ("sandbox_env", list),
    "session.enabled": ("sessions", bool),
    "session.directory": ("sessions_root", str),
    "mcp.wait": ("mcp_wait", (int, float)),
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
        *("max_cost_usd", "max_tokens_in", "max_tokens_out", "max_wall_time_secs", "max_tool_runtime_secs"),
        *("max_processes", "max_agent_depth"),
    )
}
_KEYS |= _BUDGET
_RENAMED = {"compact.compaction": "compact.output_cleanup"}
"""Old names of settings, which keep working with a note."""
HOOKS = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop", "PreCompact")
_ADDING = ("deny", "ask", "sandbox_hidden", *HOOKS)
"""Lists that a stronger place adds to: what one place forbids, no other can allow."""
_MOST_BYTES = 1024 * 1024
_NUMBER = (int, float)
_KIND_NAMES: dict[object, str] = {str: "a text", int: "a whole number", bool: "true or false", list: "a list of texts"}
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
_HOOK: Keys = {"matcher": ("matcher", str), "command": ("command", str), "timeout": ("timeout", _NUMBER)}
_CHOICES = {"api": ("chat", "responses")}
_ENVIRONMENT = {"POLYLECT_PROVIDER": "provider", "POLYLECT_MODEL": "model", "POLYLECT_SCRIPT": "script"}


class ConfigError(Exception):
    """A setting is wrong; the text names the place and what to do."""


def load(flags: Values, env: dict[str, str], workspace: str, notes: list[str]) -> Values:
    """The settings for the provider that is to be used. Remarks for the user are added to `notes`."""
    found = gather(flags, env, workspace, notes)
    return choose(found, str(found["provider"]))


def gather(flags: Values, env: dict[str, str], workspace: str, notes: list[str]) -> Values:
    """All settings that were made anywhere; those of providers in `providers`, by name."""
    found = from_files(env, workspace, notes, trusted=bool(flags.get("trust_workspace")))
    if isinstance(named := flags.get("config"), str):
        if not os.path.isfile(named):
            raise ConfigError(f"--config {named}: there is no such file")
        found = _over(found, _read(named, notes))
    flags = {**flags, **_extensions(flags, found.pop("extensions", None), env)}
    _name_ignored_extensions(flags, workspace, notes)
    found |= {name: env[variable] for variable, name in _ENVIRONMENT.items() if env.get(variable)}
    added: Values = {name: flags[name] for name in ("deny", "ask", "hooks") if name in flags}
    found |= {**flags, **_over({name: found[name] for name in added if name in found}, added), **_allowed(found, flags)}
    return {**found, "provider": _provider(found, env)}


def _allowed(found: Values, flags: Values) -> Values:
    """Rules of flags that allow something are added to those of the user's file."""
    own, more = found.get("allow"), flags.get("allow")
    return {"allow": own + more} if isinstance(own, list) and isinstance(more, list) else {}


def _provider(found: Values, env: dict[str, str]) -> str:
    """As named; else whom a script or the credentials that are set stand for; empty if nothing does."""
    if named := found.get("provider"):
        return str(named)
    if found.get("script"):
        return "scripted"
    return choose_provider(env, model=str(found.get("model") or ""), tables=found.get("providers"))


def from_files(env: dict[str, str], workspace: str, notes: list[str], *, trusted: bool) -> Values:
    """What the user's file says, and the project's: all of it where it is trusted, else what narrows."""
    own = user_file(env)
    settings: Values = {}
    for path in files(env, workspace):
        if trusted or path == own:
            settings = _over(settings, _read(path, notes))
        else:
            from polylect.app.startup.project_settings import narrowed  # only where a project has a file

            settings = narrowed(settings, path, workspace, notes)
    return settings


def choose(found: Values, provider: str) -> Values:
    """The settings for one provider. A key or an address from a flag is meant for the provider that is to be used."""
    tables = found.get("providers")
    own = tables.get(provider, {}) if isinstance(tables, dict) else {}
    others = () if provider == found["provider"] else _TABLES["providers"]
    rest = {name: value for name, value in found.items() if name != "providers" and name not in others}
    return {**own, **rest, "provider": provider}


def _over(weaker: Values, stronger: Values) -> Values:
    """The stronger setting counts, key by key also inside tables: a project's model leaves the user's key alone."""
    merged = weaker | stronger
    for name in weaker.keys() & stronger.keys():
        ours, theirs = weaker[name], stronger[name]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            merged[name] = _over(ours, theirs)
        elif name in _ADDING and isinstance(ours, list) and isinstance(theirs, list):
            merged[name] = ours + theirs
    return merged


def files(env: dict[str, str], workspace: str) -> list[str]:
    """The configuration files there are, the weaker first."""
    places = (user_file(env), os.path.join(workspace, ".polylect", "config.toml"))
    return [path for path in places if os.path.isfile(path)]


def user_file(env: dict[str, str]) -> str:
    folder = env.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(folder):  # it would be meant from the workspace
        folder = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(folder, "polylect", "config.toml")


def parse_file(path: str, most_bytes: int = _MOST_BYTES, most_dots: int = 0) -> Values:
    """A file of TOML. Bounded, so that no file holds up a start: neither its size nor its nesting, nor a pipe.

    `most_dots` bounds the dots of a line, for files of strangers. Raises ConfigError.
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


def read_bounded(path: str, most: int = _MOST_BYTES) -> bytes:
    """A regular file of at most so many bytes. Raises OSError or ValueError; never waits on a pipe or a device."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _read(path: str, notes: list[str]) -> Values:
    """The settings of a file that may set everything."""
    data = parse_file(path)
    found: Values = {}
    mcp = data.get("mcp")
    if isinstance(mcp, dict) and (servers := mcp.pop("servers", None)) is not None:
        found["mcp_servers"] = _servers(path, servers)
    hooks = data.pop("hooks", None)
    if hooks is not None:
        found["hooks"] = check_hooks(path, hooks)
    for key, value in flatten(path, data):
        if key in _RENAMED:
            notes.append(f"{path}: {key} is now called {_RENAMED[key]}")
            key = _RENAMED[key]
        section, _, rest = key.partition(".")
        if section in _TABLES:
            found = _over(found, {section: _table_key(path, section, rest, value)})
        else:
            found[check_value(path, key, value)] = value
    return found


def _servers(path: str, servers: object) -> object:
    """A server is a program that is run: its settings have their own rules, and only trusted files may name one."""
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: mcp.servers holds a table for each server: [mcp.servers.NAME]")
    return servers


def check_hooks(path: str, table: object) -> object:
    """`[[hooks.PreToolUse]]`: commands that are run at a moment, so only trusted files may name one."""
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
    known = {f"{place}.{name}": told for name, told in _HOOK.items()}
    for key, value in row.items():
        _checked(path, f"{place}.{key}", value, known)
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
    """The files of extensions that are named, and those without which nothing may start: `[extensions.NAME]`."""
    named = texts(flags, "extensions")
    for path in named:
        if not os.path.isfile(path):
            raise ConfigError(f"--extension {path}: there is no such file")
    files, required = [], list(named)
    folder = extension_folders(env, "", trusted=False)[0]
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
    found = values.get(name)
    return found if isinstance(found, list) else []


def _name_ignored_extensions(flags: Values, workspace: str, notes: list[str]) -> None:
    folder = os.path.join(workspace, ".polylect", "extensions")
    if os.path.isdir(folder) and not flags.get("trust_workspace"):
        notes.append(f"{folder}: a project's extensions are code, and are ignored without --trust-workspace")


def extension_folders(env: dict[str, str], workspace: str, *, trusted: bool) -> list[str]:
    """Where extensions are looked for."""
    own = os.path.join(os.path.dirname(user_file(env)), "extensions")
    return [own, os.path.join(workspace, ".polylect", "extensions")] if trusted else [own]


def has_extensions(values: Values, env: dict[str, str], workspace: str) -> bool:
    """Whether files of the user's own code will be loaded. Packages are not looked at: that takes a millisecond."""
    folders = extension_folders(env, workspace, trusted=bool(values.get("trust_workspace")))
    names = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return bool(values.get("extensions")) or any(name.endswith(".py") and name[0] != "_" for name in names)


def flatten(path: str, data: Values) -> list[tuple[str, object]]:
    """Each setting by its place, as `sandbox.network`. Raises ConfigError."""
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
    """One setting of one name. The name of a model may hold dots; the last word is the setting."""
    owner, _, name = rest.rpartition(".")
    place = f"{section}.{owner}." if owner else f"{section}."
    _checked(path, place + name, value, {place + known: (known, kind) for known, kind in _TABLES[section].items()})
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigError(f"{path}: {section}.{rest} is one of {', '.join(_CHOICES[name])}, not {_short(value)}")
    return {owner: {name: value}}


def check_value(path: str, key: str, value: object) -> str:
    """What a setting is called among the values. Raises ConfigError where there is none, or the value cannot be its."""
    return _checked(path, key, value, _KEYS)


def _short(value: object) -> str:
    """A wrong value for an error text. A file may hold a number or a list that cannot be written out."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "that"
    return text if len(text) <= 100 else f"{text[:100]}..."


def _checked(path: str, key: str, value: object, known: Keys) -> str:
    if key not in known:
        from difflib import get_close_matches  # 8 ms, and only for an error

        near = get_close_matches(key[:100], known, n=1)
        raise ConfigError(f"{path}: there is no setting {key[:100]}" + (f"; did you mean {near[0]}?" if near else ""))
    name, kind = known[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{path}: {key} takes {_KIND_NAMES.get(kind, 'a number')}, not {_short(value)}")
    if isinstance(value, int | float) and value < 0:
        raise ConfigError(f"{path}: {key} cannot be below zero, and is {_short(value)}")
    if isinstance(value, float) and not value < float("inf"):  # nor is nan below anything
        raise ConfigError(f"{path}: {key} takes a finite number, not {_short(value)}")
    if isinstance(value, list) and not all(isinstance(one, str) for one in value):
        raise ConfigError(f"{path}: {key} takes a list of texts, not {_short(value)}")
    return name
