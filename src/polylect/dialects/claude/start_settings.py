"""Translates claude's settings, of `--settings` and of its files, to our own settings.

`start.py` calls it; `start_files.py` reads the files. What we have no setting for is named, and reported as ignored, so
that a host never believes that a rule is in force which is not.
"""

import os
from typing import TypeVar

from polylect.app.startup import config
from polylect.app.startup.args import Options, UsageError

_EFFECTS = ("allow", "deny", "ask")
_RIGHTS = (*_EFFECTS, "defaultMode", "additionalDirectories")
_SUPPORTED = ("permissions", "model", "effortLevel", "hooks", "env", "alwaysThinkingEnabled", "autoCompactEnabled")
_OF_SERVERS = ("disabledMcpjsonServers", "enabledMcpjsonServers", "enableAllProjectMcpServers")
"""About `.mcp.json`, see `start_files.py`. The servers of a trusted project need no further consent."""

T = TypeVar("T")


def read(place: str, settings: dict[str, object]) -> tuple[Options, list[str]]:
    """What is taken, and what is not in force here. Raises UsageError, which names the place."""
    try:
        return _read(settings)
    except (UsageError, config.ConfigError) as error:
        raise UsageError(f"{place}: {error}") from None


def variables(place: str, settings: dict[str, object]) -> dict[str, str]:
    """The environment variables that settings add. Raises UsageError."""
    env = settings.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float) for value in env.values()):
        raise UsageError(f"{place}: env has to be an object with texts")
    return {name: str(value) for name, value in env.items()}


def _read(settings: dict[str, object]) -> tuple[Options, list[str]]:
    rights = _one(settings, "permissions", dict) or {}
    options: dict[str, object] = {
        **{effect: _texts(rights, effect) for effect in _EFFECTS},
        "approval_mode": _one(rights, "defaultMode", str),
        "model": _one(settings, "model", str),
        "effort": _one(settings, "effortLevel", str),
    }
    if (thinks := _one(settings, "alwaysThinkingEnabled", bool)) is not None:
        options["thinking"] = "enabled" if thinks else "disabled"
    if _one(settings, "autoCompactEnabled", bool) is False:
        options["auto_compaction"] = False
    folders = [os.path.expanduser(folder) for folder in _texts(rights, "additionalDirectories")]
    missing = [folder for folder in folders if not os.path.isdir(folder)]
    options["folders"] = [folder for folder in folders if folder not in missing]
    hooks, left = _hooks(settings)
    others = [name for name in settings if name not in (*_SUPPORTED, *_OF_SERVERS, "$schema")]
    others += [f"permissions.{name}" for name in rights if name not in _RIGHTS]
    others += [f"additionalDirectories {folder}" for folder in missing]
    taken = {name: value for name, value in {**options, "hooks": hooks}.items() if value or value is False}
    return taken, [*others, *left]


def _hooks(settings: dict[str, object]) -> tuple[dict[str, object], list[str]]:
    """`{"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": ...}]}]}`: commands are run."""
    table: dict[str, object] = {}
    left: list[str] = []
    for event, rows in (_one(settings, "hooks", dict) or {}).items():
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


def _one(values: dict[str, object], name: str, kind: type[T]) -> T | None:
    value = values.get(name)
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{name} cannot be {value!r:.80}")
    return value


def _texts(values: dict[str, object], name: str) -> list[str]:
    texts = _one(values, name, list) or []
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{name} has to be a list of strings")
    return texts
