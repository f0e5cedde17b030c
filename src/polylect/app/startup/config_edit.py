"""Adds an MCP server to a `config.toml`, or removes one, and leaves everything else in the file as it is.

The file is edited as text, so that comments, order and layout stay. The new text is parsed before it is written: it has
to hold exactly the settings of before, with that one server more or less. If it does not, as where the servers are in
an inline table, `EditRefused` is raised and nothing is written. Called by `polylect mcp add` and `remove`.
"""

import fcntl
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from polylect.app.startup.config import ConfigError, Values, read_bounded

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[.*\]\s*(#.*)?")


class EditRefused(Exception):
    """The file cannot be changed safely. The text says what to do by hand."""


def add_server(path: str, name: str, settings: Mapping[str, object]) -> None:
    """Append `[mcp.servers.NAME]` to the file, which is created if there is none. Raises EditRefused or ConfigError."""
    block = server_block(name, settings)

    def change(text: str) -> str:
        new = f"{text.rstrip()}\n\n{block}" if text.strip() else block
        return new.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text else new

    def expected(servers: dict[str, object]) -> None:
        if name in servers:
            raise EditRefused(f"there is a server {name} in {path} already: remove it first, or choose another name")
        servers[name] = dict(settings)

    _edit(path, change, expected, f"write this into it yourself:\n\n{block}")


def remove_server(path: str, name: str) -> None:
    """Remove `[mcp.servers.NAME]` and the tables below it. Comments outside of its settings stay.

    Raises EditRefused, also if the file has no such server, or ConfigError.
    """

    def expected(servers: dict[str, object]) -> None:
        if name not in servers:
            raise EditRefused(f"there is no server {name} in {path}")
        del servers[name]

    by_hand = f"it does not have {name} in a table [mcp.servers.{_key(name)}] of its own; remove it there yourself"
    _edit(path, lambda text: _without_table(text, name), expected, by_hand)


def server_block(name: str, settings: Mapping[str, object]) -> str:
    """The table of a server in TOML."""
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in settings.items()]
    return f"[mcp.servers.{_key(name)}]\n{''.join(lines)}"


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _value(text)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())} }}"
        case _:  # strings of TOML are those of JSON, but for DEL
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _edit(path: str, change: Callable[[str], str], expected: Callable[[dict[str, object]], None], by_hand: str) -> None:
    """Replace the file by its changed text, if that holds what `expected` makes of the servers of before."""
    real = os.path.realpath(path)  # the file behind a link is replaced, not the link
    os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
    with _locked(os.path.dirname(real)):
        old = _read(real)
        before, settings = _settings(path, old)
        expected(settings)
        new = change(old)
        try:
            after, changed = _settings(path, new)
        except ConfigError:
            after, changed = {}, {}
        if (after, changed) != (before, settings):
            raise EditRefused(f"{path} cannot be changed safely: {by_hand}")
        _replace(real, new)


def _read(path: str) -> str:
    try:
        return read_bounded(path).decode()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _settings(path: str, text: str) -> tuple[Values, dict[str, object]]:
    """The settings of a file without its servers, and the servers. Raises ConfigError."""
    try:
        settings = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    mcp = settings.pop("mcp", {})
    servers = mcp.pop("servers", {}) if isinstance(mcp, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: mcp.servers holds a table for each server: [mcp.servers.NAME]")
    return {**settings, "mcp": mcp}, servers


def _without_table(text: str, name: str) -> str:
    """The text without the tables of this server. What only looks like a header, inside of a string or a list, makes
    a wrong text of it, which `_edit` notices."""
    lines = text.split("\n")
    headers = [(number, header) for number, line in enumerate(lines) if (header := _header(line))]
    ends = [*(number for number, _ in headers[1:]), len(lines)]
    for (first, header), end in reversed(list(zip(headers, ends, strict=False))):
        if header[:3] != ["mcp", "servers", name]:
            continue
        while end > first + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):  # comments below belong to what follows
            end -= 1
        del lines[first:end]
        while first < len(lines) and not lines[first].strip() and (first == 0 or not lines[first - 1].strip()):
            del lines[first]
    return "\n".join(lines)


def _header(line: str) -> list[str]:
    """The keys of a table's header; empty if the line is none."""
    line = line.rstrip("\r")
    if not _HEADER.fullmatch(line):
        return []
    try:
        table: object = tomllib.loads(line)
    except (ValueError, RecursionError):
        return []
    keys: list[str] = []
    while isinstance(table, dict | list) and table:
        if isinstance(table, list):
            table = table[0]
            continue
        [(key, table)] = table.items()
        keys.append(key)
    return keys


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Two edits at the same time wait for each other, so that none is lost."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: str, text: str) -> None:
    """Write the file as a whole, so that nobody ever reads half of it. It keeps its mode and owner; a new one is for
    the user alone, because settings of servers may hold secrets."""
    descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".config-")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            with suppress(FileNotFoundError):
                now = os.stat(path)
                os.fchown(file.fileno(), now.st_uid, now.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(now.st_mode))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
