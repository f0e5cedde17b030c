"""Settings that a host changes in a running session (`apply_flag_settings`, `update_settings`), as commands.

They have the names of a settings file: `model`, `effortLevel`, `permissions.allow`, `permissions.defaultMode`.
Either all of a request is applied or nothing. `hooks` and `sandbox` are refused, because a host that believes them in
force would rely on them; other unknown settings are ignored.
"""

from typing import Any, TypeVar

from polylect.dialects.claude.versions import OUR_MODES
from polylect.vocab.commands import Command, Configure, Grant
from polylect.vocab.content import Rule

_EFFECTS = ("allow", "deny", "ask")
_RIGHTS = (*_EFFECTS, "defaultMode", "additionalDirectories")
_GUARDS = ("hooks", "sandbox")
"""Refused instead of ignored: a host would rely on them."""

T = TypeVar("T")


def commands_of(flags: dict[str, Any]) -> list[Command]:
    """The commands for these settings. Raises ValueError, which names what cannot be changed."""
    rights = _one(flags, "permissions", dict) or {}
    if other := [*(name for name in flags if name in _GUARDS), *(name for name in rights if name not in _RIGHTS)]:
        raise ValueError(f"these settings cannot be changed here: {', '.join(other)[:200]}")
    mode = _one(rights, "defaultMode", str)
    if mode and mode not in OUR_MODES:
        raise ValueError(f"defaultMode: there is no mode {mode[:80]!r}; modes are {', '.join(OUR_MODES)}")
    values = {"model": _one(flags, "model", str), "effort": _one(flags, "effortLevel", str)}
    values["mode"] = OUR_MODES[mode] if mode else None
    settings: dict[str, Any] = {name: value for name, value in values.items() if value}
    rules = {effect: texts for effect in _EFFECTS if (texts := _texts(rights, effect)) is not None}
    if rules:
        settings["rules"] = rules
    folders = _texts(rights, "additionalDirectories") or []
    if relative := [folder for folder in folders if not folder.startswith("/")]:
        raise ValueError(f"additionalDirectories: {relative[0][:200]!r} is not a whole path")
    return [*([Configure(settings)] if settings else []), *(Grant(rule=Rule("path", folder)) for folder in folders)]


def _one(flags: dict[str, Any], name: str, kind: type[T]) -> T | None:
    value = flags.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}: {value!r:.80} is not of the kind {kind.__name__}")
    return value


def _texts(flags: dict[str, Any], name: str) -> list[str] | None:
    texts = _one(flags, name, list)
    if texts and not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name}: expected a list of strings")
    return texts
