"""Settings that a host changes in a running session (`apply_flag_settings`, `update_settings`), as commands.

They have the names of a settings file: `model`, `effortLevel`, `permissions.allow`, `permissions.defaultMode`.
Either all of a request is applied or nothing. `hooks` and `sandbox` are refused, because a host that believes them in
force would rely on them; other unknown settings are ignored.
"""

from typing import Any

from polylect.dialects.claude.settings_values import EFFECTS, RIGHTS, texts_of, value_of
from polylect.dialects.claude.versions import OUR_MODES
from polylect.vocab.commands import Command, Configure, Grant
from polylect.vocab.content import Rule

_GUARDS = ("hooks", "sandbox")
"""Refused instead of ignored: a host would rely on them."""


def commands_of(flags: dict[str, Any]) -> list[Command]:
    """The commands for these settings. Raises ValueError, which names what cannot be changed."""
    rights = value_of(flags, "permissions", dict) or {}
    if other := [*(name for name in flags if name in _GUARDS), *(name for name in rights if name not in RIGHTS)]:
        raise ValueError(f"these settings cannot be changed here: {', '.join(other)[:200]}")
    mode = value_of(rights, "defaultMode", str)
    if mode and mode not in OUR_MODES:
        raise ValueError(f"defaultMode: there is no mode {mode[:80]!r}; modes are {', '.join(OUR_MODES)}")
    values = {"model": value_of(flags, "model", str), "effort": value_of(flags, "effortLevel", str)}
    values["mode"] = OUR_MODES[mode] if mode else None
    settings: dict[str, Any] = {name: value for name, value in values.items() if value}
    rules = {effect: texts for effect in EFFECTS if (texts := texts_of(rights, effect)) is not None}
    if rules:
        settings["rules"] = rules
    folders = texts_of(rights, "additionalDirectories") or []
    if relative := [folder for folder in folders if not folder.startswith("/")]:
        raise ValueError(f"additionalDirectories: {relative[0][:200]!r} is not a whole path")
    return [*([Configure(settings)] if settings else []), *(Grant(rule=Rule("path", folder)) for folder in folders)]
