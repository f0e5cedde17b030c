"""Translates claude's settings, of `--settings` and of its files, to our own settings.

`start.py` calls it, only where there are settings; `start_files.py` reads the files. What we have no setting for is
named and reported as ignored, so that a host never relies on a rule that is not in force.
"""

import os

from polylect.app.startup import config
from polylect.app.startup.args import Options, UsageError
from polylect.dialects.claude.settings_values import EFFECTS, RIGHTS, texts_of, value_of
from polylect.dialects.claude.start_environment import EFFORTS, full_model
from polylect.dialects.claude.start_files import Files, shortened
from polylect.dialects.claude.versions import OUR_MODES

_SUPPORTED = ("permissions", "model", "effortLevel", "hooks", "env", "alwaysThinkingEnabled", "autoCompactEnabled")
_OF_SERVERS = ("disabledMcpjsonServers", "enabledMcpjsonServers", "enableAllProjectMcpServers")
"""About `.mcp.json`, see `start_files.py`. The servers of a trusted project need no further consent."""


def apply_flag_settings(options: Options, settings: dict[str, object], env: dict[str, str]) -> None:
    """Add the settings of `--settings`. Lists join those of flags; of other values a flag is the stronger one."""
    values, left = _read("--settings", settings, env)
    if left:
        values["ignored"] = [f"--settings: {name}" for name in left]
    for name, value in values.items():
        before = options.get(name)
        options[name] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else before or value


def apply_files(options: Options, files: Files, servers: dict[str, dict[str, object]], env: dict[str, str]) -> None:
    """Add the settings of files, the strongest first. Lists and hooks join; other values are weaker than flags and our
    own settings, so they become `defaults`. `servers` are those of the project, as our own settings."""
    notes, defaults = list(files.notes), dict[str, object]()
    for place, settings in files.settings:
        values, left = _read_file(place, settings, env)
        if "model" in values:  # only for the service whose models these are
            options.setdefault("usual_model", values.pop("model"))
        for name, value in values.items():
            before = options.get(name)
            if isinstance(value, list):
                options[name] = [*(before if isinstance(before, list) else []), *value]
            elif name == "hooks":
                options[name] = _joined_hooks(value, before)
            else:
                defaults.setdefault(name, value)
        if left:
            notes.append(f"{place}: not in force here: {shortened(left)}")
    if servers and isinstance(named := options.get("mcp_servers"), dict):
        options["mcp_servers"] = {**servers, **named}
    elif servers:
        defaults["mcp_servers"] = servers
    options |= ({"defaults": defaults} if defaults else {}) | ({"notes": notes} if notes else {})


def _read_file(place: str, settings: dict[str, object], env: dict[str, str]) -> tuple[Options, list[str]]:
    """As `_read`. Efforts and allow rules that mean nothing here are left out; deny and ask rules have to be right."""
    from polylect.permissions.rulebook import fault_in  # 40 ms

    values, left = _read(place, settings, env)
    for effect in ("deny", "ask"):
        if fault := fault_in(config.texts(values, effect)):
            raise UsageError(f"{place}: {fault}")
    allow = config.texts(values, "allow")
    if bad := [rule for rule in allow if fault_in([rule])]:
        values["allow"] = [rule for rule in allow if rule not in bad]
    left += [f"the rule {rule}" for rule in bad]
    if values.get("effort", EFFORTS[0]) not in EFFORTS:
        left.append(f"effortLevel {values.pop('effort')}")
    return values, left


def _joined_hooks(one: object, two: object) -> dict[str, object]:
    """The hooks of two places, by event."""
    tables = [table for table in (one, two) if isinstance(table, dict)]
    return {event: [row for table in tables for row in table.get(event, [])] for table in tables for event in table}


def _read(place: str, settings: dict[str, object], env: dict[str, str]) -> tuple[Options, list[str]]:
    """The settings of one place as ours, and the names of what is not in force here. Raises UsageError."""
    try:
        values, left = _translated(settings)
    except (UsageError, ValueError, config.ConfigError) as error:
        raise UsageError(f"{place}: {error}") from None
    if (mode := values.get("approval_mode", "default")) not in OUR_MODES:
        raise UsageError(f"{place}: defaultMode {mode}: choose one of {', '.join(sorted(OUR_MODES))}")
    if mode in ("manual", "auto"):
        values["approval_mode"] = "default"
    if "model" in values:
        values["model"] = full_model(str(values["model"]), env)
    return values, left


def variables(place: str, settings: dict[str, object]) -> dict[str, str]:
    """The environment variables that settings add. Raises UsageError."""
    env = settings.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float) for value in env.values()):
        raise UsageError(f"{place}: env has to be an object with texts")
    return {name: str(value) for name, value in env.items()}


def _translated(settings: dict[str, object]) -> tuple[Options, list[str]]:
    rights = value_of(settings, "permissions", dict) or {}
    options: dict[str, object] = {
        **{effect: texts_of(rights, effect) for effect in EFFECTS},
        "approval_mode": value_of(rights, "defaultMode", str),
        "model": value_of(settings, "model", str),
        "effort": value_of(settings, "effortLevel", str),
    }
    if (thinks := value_of(settings, "alwaysThinkingEnabled", bool)) is not None:
        options["thinking"] = "enabled" if thinks else "disabled"
    if value_of(settings, "autoCompactEnabled", bool) is False:
        options["auto_compaction"] = False
    folders = [os.path.expanduser(folder) for folder in texts_of(rights, "additionalDirectories") or ()]
    missing = [folder for folder in folders if not os.path.isdir(folder)]
    options["folders"] = [folder for folder in folders if folder not in missing]
    hooks, left = _hooks(settings)
    others = [name for name in settings if name not in (*_SUPPORTED, *_OF_SERVERS, "$schema")]
    others += [f"permissions.{name}" for name in rights if name not in RIGHTS]
    others += [f"additionalDirectories {folder}" for folder in missing]
    taken = {name: value for name, value in {**options, "hooks": hooks}.items() if value or value is False}
    return taken, [*others, *left]


def _hooks(settings: dict[str, object]) -> tuple[dict[str, object], list[str]]:
    """`{"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": ...}]}]}`: commands are run."""
    table: dict[str, object] = {}
    left: list[str] = []
    for event, rows in (value_of(settings, "hooks", dict) or {}).items():
        parsed = [hook for row in _objects(f"hooks.{event}", rows) for hook in _row(f"hooks.{event}", row)]
        ours = [hook for kind, hook in parsed if kind == "command" and event in config.HOOKS]
        left += [f"hooks.{event}"] if event not in config.HOOKS else []
        left += [f"hooks.{event} of the type {kind}" for kind, _ in parsed if kind != "command"]
        if ours:
            table[event] = ours
    config.check_hooks("hooks", table)
    return table, left


def _row(place: str, row: dict[str, object]) -> list[tuple[str, dict[str, object]]]:
    """Each hook with its kind."""
    matcher = {"matcher": row["matcher"]} if row.get("matcher") is not None else {}
    hooks = _objects(f"{place}.hooks", row.get("hooks"))
    commands = [{name: hook[name] for name in ("command", "timeout") if hook.get(name) is not None} for hook in hooks]
    return [(str(hook.get("type")), {**matcher, **fields}) for hook, fields in zip(hooks, commands, strict=True)]


def _objects(place: str, value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UsageError(f"{place} has to be a list of objects")
    return value
