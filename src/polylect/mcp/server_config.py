"""Reads the MCP servers of a configuration, `[mcp.servers.NAME]`, into `Server` values.

    [mcp.servers.docs]
    command = "npx"
    args = ["docs-server"]          becomes  Server("docs", "stdio", "npx", ("docs-server",), {"KEY": "..."})
    env = { KEY = "${DOCS_KEY}" }

Every mistake raises ServerConfigError, whose text names the setting and what to change. Called by `app` at the start:
before `ready` only `check_servers`, which imports nothing, because every start with a server waits for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from polylect.vocab.content import Server

_TRANSPORTS = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "sdk": "host",
    "host": "host",
}
_TYPES: dict[str, type] = {
    "transport": str,
    "type": str,
    "name": str,
    "command": str,
    "args": list,
    "env": dict,
    "cwd": str,
    "url": str,
    "headers": dict,
    "oauth": dict,
    "roots": bool,
    "deferred": bool,
    "disabled": bool,
    "long_names": bool,
}
_EXTRAS = ("deferred", "disabled", "long_names", "cwd", "oauth", "roots")
_OAUTH = ("client_id", "client_secret", "scope", "callback_port")
"""Settings of `oauth`, for servers at which a client has to be registered by hand."""
WORKSPACE, PRIVATE = "workspace", "private"
"""Values of `cwd` that are no paths: the workspace, or an empty folder of our own."""
_VARIABLE = r"\$\{(\w+)(?::-([^}]*))?\}"


_HEADER_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_WORDS = {str: "a text", list: "a list of texts", dict: "a table of texts", bool: "true or false", int: "a number"}


class ServerConfigError(ValueError):
    """A setting of a server is wrong. The text names it and says what to change."""


def servers_from(table: Mapping[str, Any], env: Mapping[str, str] | None = None) -> list[Server]:
    """The servers of a table from name to settings. `${NAME}` in a value is replaced from `env`, so that keys need not
    be written into a file; `${NAME:-text}` is the text where there is none. Raises ServerConfigError."""
    from polylect.vocab.content import Server  # 20 ms

    return [Server(**_fields(name, settings, env or {})) for name, settings in table.items()]


def check_servers(table: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Raises ServerConfigError if `servers_from` would."""
    for name, settings in table.items():
        _fields(name, settings, env)


def _fields(name: str, settings: Any, env: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a `Server`."""
    place = f"mcp.servers.{name}"
    if not name.strip():
        raise ServerConfigError("mcp.servers: a server needs a name")
    if not isinstance(settings, dict):
        raise ServerConfigError(f"{place} is a table: [{place}] with a command or a url below it")
    _check(place, settings)
    word = settings.get("transport") or settings.get("type") or ("stdio" if "command" in settings else "http")
    if word not in _TRANSPORTS:
        raise ServerConfigError(f"{place}.transport: there is no {word!r}; choose stdio, sse or streamable-http")
    transport = _TRANSPORTS[word]
    if transport == "host":
        return {"name": name, "transport": transport}
    if not any(settings.get(key) for key in ("transport", "type", "command", "url")):
        raise ServerConfigError(f"{place} needs a command or a url")
    needed = "command" if transport == "stdio" else "url"
    if not settings.get(needed):
        raise ServerConfigError(f"{place} has the transport {word} and needs a {needed}")
    filled = {key: _with_variables(f"{place}.{key}", value, env) for key, value in settings.items()}
    if transport != "stdio":
        _check_address(place, filled["url"], filled.get("headers", {}))
    if unknown := [key for key in filled.get("oauth", {}) if key not in _OAUTH]:
        raise ServerConfigError(f"{place}.oauth has no setting {unknown[0]}; there are {', '.join(_OAUTH)}")
    cwd = filled.get("cwd", WORKSPACE)
    if cwd not in (WORKSPACE, PRIVATE) and not os.path.isabs(cwd):
        raise ServerConfigError(f'{place}.cwd is an absolute path, "{WORKSPACE}" or "{PRIVATE}", not {cwd!r}')
    return {
        "name": name,
        "transport": transport,
        "command": filled.get("command", ""),
        "args": tuple(filled.get("args", ())),
        "env": filled.get("env", {}),
        "url": filled.get("url", ""),
        "headers": filled.get("headers", {}),
        "extras": {key: filled[key] for key in _EXTRAS if key in filled},
    }


def _check(place: str, settings: dict[str, Any]) -> None:
    for key, value in settings.items():
        if key not in _TYPES:
            raise ServerConfigError(f"{place} has no setting {key}; there are {', '.join(_TYPES)}")
        if not isinstance(value, _TYPES[key]):
            raise ServerConfigError(f"{place}.{key} has to be {_WORDS[_TYPES[key]]}")  # its value may be a key
        items = list(value.values()) if isinstance(value, dict) else value
        if isinstance(items, list) and not all(isinstance(item, str) for item in items):
            raise ServerConfigError(f"{place}.{key} takes strings only")


def _check_address(place: str, url: str, headers: Mapping[str, str]) -> None:
    if not url.startswith(("http://", "https://")):
        raise ServerConfigError(f"{place}.url has to begin with http:// or https://")
    host = url.partition("://")[2].partition("/")[0]
    if host.count("[") != host.count("]"):
        raise ServerConfigError(f"{place}.url has a bracket too many or too few in its host, as in http://[::1]:80/")
    for name in headers:
        if not name or set(name) - _HEADER_CHARACTERS:
            raise ServerConfigError(f"{place}.headers: a header cannot be named {name!r}")


def _with_variables(place: str, value: Any, env: Mapping[str, str]) -> Any:
    """The value with its variables filled in."""
    match value:
        case dict():
            return {key: _with_variables(f"{place}.{key}", item, env) for key, item in value.items()}
        case list():
            return [_with_variables(place, item, env) for item in value]
        case str() if "${" in value:
            import re

            return re.sub(_VARIABLE, lambda match: _variable(place, match[1], match[2], env), value)
        case _:
            return value


def _variable(place: str, name: str, default: str | None, env: Mapping[str, str]) -> str:
    if not env.get(name) and default is not None:
        return default
    if name not in env:
        raise ServerConfigError(f"{place} wants ${{{name}}}, and the environment has no {name}")
    return env[name]
