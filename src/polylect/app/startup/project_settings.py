"""Decides what an untrusted project's `.polylect/config.toml` may set.

The file came with a repository that may be anybody's. So only the settings in `_NARROWING` are taken from it, and each
can only narrow what the user's own settings permit. Everything else is ignored and named in one note for stderr.
`config.gather` calls `narrowed` for a project's file, unless --trust-workspace was given.

To permit another setting, add it to `_NARROWING` and to the table in docs/settings.md; a test compares the two.
"""

import os
from collections.abc import Callable

from polylect.app.startup.config import ConfigError, Values, check_value, flatten, parse_file
from polylect.vocab.modes import MODE_WORDS

MOST_BYTES = 64 * 1024
MOST_RULES = 100
LONGEST_RULE = 200
"""With MOST_RULES rules of this length and the worst path, judging a call takes 200 ms."""
MOST_HIDDEN = 64
"""Each costs bubblewrap at least one mount before every command."""
_MOST_DOTS = 100
"""Dots in one line. tomllib needs cubic time for a key of many parts."""
_MOST_NAMED = 8
_STRICTER = {
    "force": ("auto_edit", "default", "plan", "dont_ask"),
    "auto_edit": ("default", "plan", "dont_ask"),
    "default": ("plan", "dont_ask"),
}
"""For each mode of the user, the stricter ones. Neither of plan and dont_ask is stricter than the other."""


def narrowed(user: Values, path: str, workspace: str, notes: list[str]) -> Values:
    """The user's settings, with those of an untrusted project's file that narrow them.

    Raises ConfigError where the file cannot be read or a rule in it makes no sense, so that no restriction is dropped
    in silence.
    """
    settings = dict(user)
    ignored: list[str] = []
    for key, value in flatten(path, parse_file(path, MOST_BYTES, _MOST_DOTS)):
        narrow = _NARROWING.get(key)
        if narrow is not None:
            check_value(path, key, value)
        if narrow is None or not narrow(settings, value, path, workspace):
            ignored.append(key)
    if ignored:
        notes.append(_note(path, ignored))
    return settings


def _note(path: str, ignored: list[str]) -> str:
    names = ", ".join(name[:80] for name in ignored[:_MOST_NAMED])
    more = f" and {len(ignored) - _MOST_NAMED} more" if len(ignored) > _MOST_NAMED else ""
    return f"{path}: ignored in a project's file: {names}{more}; set it in your own, or start with --trust-workspace"


# Each applies the part of a value that narrows rights, and returns whether that is the whole value. If not, the
# setting is named as ignored.


def _narrow_mode(settings: Values, value: object, path: str, workspace: str) -> bool:
    now = "force" if settings.get("force") else str(settings.get("approval_mode") or "default")
    mode = MODE_WORDS.get(str(value), "")
    if mode == MODE_WORDS.get(now):
        return True
    if mode not in _STRICTER.get(MODE_WORDS.get(now, ""), ()):
        return False
    settings |= {"approval_mode": mode, "force": False}
    return True


def _add_rules(name: str) -> "Callable[[Values, object, str, str], bool]":
    def add(settings: Values, value: object, path: str, workspace: str) -> bool:
        rules, own = _texts(value), _texts(settings.get(name))
        if len(rules) > MOST_RULES or any(len(rule) > LONGEST_RULE for rule in rules):
            bounds = f"{MOST_RULES} rules of {LONGEST_RULE} characters"
            raise ConfigError(f"{path}: tools.{name} takes at most {bounds} in a project's file")
        settings[name] = own + rules
        return True

    return add


def _switch_off(name: str) -> "Callable[[Values, object, str, str], bool]":
    def switch(settings: Values, value: object, path: str, workspace: str) -> bool:
        if value is False:
            settings[name] = False
        return value is False

    return switch


def _hide(settings: Values, value: object, path: str, workspace: str) -> bool:
    """Paths are relative to the workspace. `!path`, which shows a hidden path, and paths outside are ignored."""
    if len(_texts(value)) > MOST_HIDDEN:
        raise ConfigError(
            f"{path}: sandbox.hidden takes at most {MOST_HIDDEN} places in a project's file; name folders"
        )
    root = os.path.realpath(workspace)
    places = [os.path.realpath(os.path.join(root, text)) for text in _texts(value) if _is_plain(text)]
    inside = [place for place in places if place.startswith(root.rstrip("/") + "/")]
    if inside:
        settings["sandbox_hidden"] = _texts(settings.get("sandbox_hidden")) + inside
    return len(inside) == len(_texts(value))


def _is_plain(text: str) -> bool:
    return bool(text) and text[0] not in "!~$" and "\0" not in text


def _texts(value: object) -> list[str]:
    return value if isinstance(value, list) else []


_NARROWING: "dict[str, Callable[[Values, object, str, str], bool]]" = {
    "default.approval_mode": _narrow_mode,
    "tools.deny": _add_rules("deny"),
    "tools.ask": _add_rules("ask"),
    "tools.script": _switch_off("script_tool"),
    "sandbox.network": _switch_off("sandbox_network"),
    "sandbox.hidden": _hide,
}
