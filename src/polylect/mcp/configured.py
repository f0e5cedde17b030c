"""The MCP servers that a configuration names: `[mcp.servers.NAME]`."""

import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from polylect.vocab.content import Server

_TRANSPORTS: dict[str, Literal["stdio", "sse", "http", "host"]] = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "sdk": "host",
    "host": "host",
}
_KINDS: dict[str, type] = {
    "transport": str,
    "type": str,
    "name": str,
    "command": str,
    "args": list,
    "env": dict,
    "cwd": str,
    "url": str,
    "headers": dict,
    "deferred": bool,
    "disabled": bool,
    "long_names": bool,
}
_EXTRAS = ("deferred", "disabled", "long_names", "cwd")
WORKSPACE, PRIVATE = "workspace", "private"
"""Words for the folder that a server runs in: where the work is, or an empty folder of our own."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class ServerError(ValueError):
    """A server is not described well; the text names the place and what to do."""


def servers_from(table: Mapping[str, Any], env: Mapping[str, str] | None = None) -> list[Server]:
    """The servers of a table `NAME -> settings`. `${NAME}` in a value is taken from `env`, so that keys need not
    be written into a file. Raises ServerError."""
    return [_server(name, settings, env or {}) for name, settings in table.items()]


def _server(name: str, settings: Any, env: Mapping[str, str]) -> Server:
    place = f"mcp.servers.{name}"
    if not name.strip():
        raise ServerError("mcp.servers: a server needs a name")
    if not isinstance(settings, dict):
        raise ServerError(f"{place} is a table: [{place}] with a command or a url below it")
    _check(place, settings)
    word = settings.get("transport") or settings.get("type") or ("stdio" if "command" in settings else "http")
    if word not in _TRANSPORTS:
        raise ServerError(f"{place}.transport: there is no {word!r}; choose stdio, sse or streamable-http")
    transport = _TRANSPORTS[word]
    if transport == "host":
        return Server(name, transport)
    needed = "command" if transport == "stdio" else "url"
    if not settings.get(needed):
        raise ServerError(f"{place} has the transport {word} and needs a {needed}")
    filled = {key: _filled(f"{place}.{key}", value, env) for key, value in settings.items()}
    if transport != "stdio" and not filled["url"].startswith(("http://", "https://")):
        raise ServerError(f"{place}.url has to begin with http:// or https://")
    cwd = filled.get("cwd", WORKSPACE)
    if cwd not in (WORKSPACE, PRIVATE) and not os.path.isabs(cwd):
        raise ServerError(f'{place}.cwd is an absolute path, "{WORKSPACE}" or "{PRIVATE}", not {cwd!r}')
    return Server(
        name,
        transport,
        filled.get("command", ""),
        tuple(filled.get("args", ())),
        filled.get("env", {}),
        filled.get("url", ""),
        filled.get("headers", {}),
        {key: filled[key] for key in _EXTRAS if key in filled},
    )


def _check(place: str, settings: dict[str, Any]) -> None:
    for key, value in settings.items():
        if key not in _KINDS:
            raise ServerError(f"{place} has no setting {key}; there are {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[key]):
            raise ServerError(f"{place}.{key} takes a {_KINDS[key].__name__}, not {value!r}")
        items = list(value.values()) if isinstance(value, dict) else value
        if isinstance(items, list) and not all(isinstance(item, str) for item in items):
            raise ServerError(f"{place}.{key} takes strings only")


def _filled(place: str, value: Any, env: Mapping[str, str]) -> Any:
    """The value with its variables filled in."""
    match value:
        case dict():
            return {key: _filled(f"{place}.{key}", item, env) for key, item in value.items()}
        case list():
            return [_filled(place, item, env) for item in value]
        case str():
            return _VARIABLE.sub(lambda found: _variable(place, found[1], env), value)
        case _:
            return value


def _variable(place: str, name: str, env: Mapping[str, str]) -> str:
    if name not in env:
        raise ServerError(f"{place} wants ${{{name}}}, and the environment has no {name}")
    return env[name]
