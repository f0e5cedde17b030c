"""The settings files of claude: the user's, the project's, the project's local ones, and `.mcp.json`.

    ~/.claude/settings.json (or $CLAUDE_CONFIG_DIR)    user
    .claude/settings.json                              project
    .claude/settings.local.json                        local, stronger than both

`start.py` calls `read`; `--setting-sources` says which of them count. A project's files come with a repository that may
be anybody's. So without --trust-workspace only deny and ask rules are taken from them, what else they have is named in
a note, and servers of `.mcp.json` are not started.
"""

import os
from typing import NamedTuple

from polylect.app.startup import config
from polylect.app.startup.args import Options, UsageError
from polylect.app.startup.project_settings import LONGEST_RULE, MOST_BYTES, MOST_RULES
from polylect.dialects.claude.start_environment import settings_places

_SOURCES = ("user", "project", "local")
_NARROWING = ("deny", "ask")
_MOST_NAMED = 8


class SettingsFile(NamedTuple):
    place: str
    settings: dict[str, object]


class Files(NamedTuple):
    """What was read. `settings` has the strongest file first."""

    settings: list[SettingsFile]
    servers: dict[str, object]
    notes: list[str]


def read(flags: Options, env: dict[str, str]) -> Files:
    """The files that count at this start. Raises UsageError where one cannot be read, so that no rule is lost."""
    sources = _sources(str(flags.get("setting_sources", ",".join(_SOURCES))))
    workspace = os.path.realpath(str(flags.get("workspace") or os.getcwd()))
    trusted = bool(flags.get("trust_workspace"))
    files = Files([], {}, [])
    places = settings_places(workspace, env)
    for source in ("local", "project", "user"):
        place, own = places[source], places["user"]
        if source not in sources or not os.path.lexists(place) or (source != "user" and _is_same(place, own)):
            continue
        settings = read_object(place, config.MOST_BYTES if trusted or source == "user" else MOST_BYTES)
        if source != "user" and not trusted:
            settings = _narrowed(place, settings, files.notes)
        files.settings.append(SettingsFile(place, settings))
    if "project" in sources and not flags.get("strict_mcp"):
        _add_servers(files, places["servers"], trusted=trusted)
    return files


def _sources(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in names if name not in _SOURCES]:
        raise UsageError(f"--setting-sources {wrong[0]}: choose of {', '.join(_SOURCES)}")
    return names


def _is_same(place: str, own: str) -> bool:
    """Whether the workspace is the home, so that both names mean one file."""
    return bool(own) and os.path.realpath(os.path.dirname(place)) == os.path.realpath(os.path.dirname(own))


def read_object(place: str, most_bytes: int = config.MOST_BYTES) -> dict[str, object]:
    """The JSON object in a file. Raises UsageError."""
    import json  # only where there is one

    try:
        value = json.loads(config.read_bounded(place, most_bytes).decode())
    except RecursionError:
        raise UsageError(f"{place}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{place}: {getattr(error, 'strerror', '') or error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{place}: it has to be an object in JSON")
    return value


def _narrowed(place: str, settings: dict[str, object], notes: list[str]) -> dict[str, object]:
    """The deny and ask rules of an untrusted project's file."""
    rights = settings.get("permissions")
    rights = rights if isinstance(rights, dict) else {}
    rules = {effect: rights[effect] for effect in _NARROWING if effect in rights}
    for value in rules.values():
        texts = value if isinstance(value, list) else []
        if len(texts) > MOST_RULES or any(len(str(text)) > LONGEST_RULE for text in texts):
            bounds = f"{MOST_RULES} rules of {LONGEST_RULE} characters"
            raise UsageError(f"{place}: takes at most {bounds} for each of deny and ask in a project's file")
    ignored = [name for name in settings if name not in ("permissions", "$schema")]
    ignored += [f"permissions.{name}" for name in rights if name not in _NARROWING]
    if ignored:
        notes.append(f"{place}: ignored in a project's file: {shortened(ignored)}; start with --trust-workspace")
    return {"permissions": rules}


def shortened(names: list[str]) -> str:
    """The first names of a list that somebody else has written."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(name[:80] for name in names[:_MOST_NAMED]) + more


def _add_servers(files: Files, place: str, *, trusted: bool) -> None:
    """The servers of the project, but for those that a settings file disables."""
    if not os.path.lexists(place):
        return
    if not trusted:
        files.notes.append(f"{place}: servers of a project are ignored; start with --trust-workspace")
        return
    disabled = [name for file in files.settings for name in config.texts(file.settings, "disabledMcpjsonServers")]
    servers = read_object(place).get("mcpServers")
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if name not in disabled:
            files.servers[name] = server
