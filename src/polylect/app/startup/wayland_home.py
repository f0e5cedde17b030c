"""The MCP servers that Wayland Desktop keeps for its engine: `[mcp.servers]` of `$WAYLAND_HOME/config.toml`.

Desktop publishes the user's connectors there, and selects those of a conversation by `--profile NAME`: the table
`[profiles.NAME]` has the list `mcp_servers`. It takes that table away after `ready`, so the file is read before. Other
settings in it are those of another program and are not read. `start.py` calls this where a host passes one of the flags
of Desktop.
"""

import os

from polylect.app.startup.config import ConfigError, Values, parse_file

_KEYS = ("transport", "command", "args", "env", "url", "headers", "deferred")


def connectors(env: dict[str, str], profile: str, notes: list[str]) -> Values:
    """The tables of the servers, by name; none if there is no such file. A broken file is a remark in `notes`."""
    home = env.get("WAYLAND_HOME", "")
    path = os.path.join(home, "config.toml")
    if not os.path.isabs(home) or not os.path.isfile(path):
        return {}
    try:
        data = parse_file(path)
    except ConfigError as error:
        notes.append(f"the connectors of Wayland Desktop are not available: {error}")
        return {}
    servers = _table(_table(data, "mcp"), "servers")
    selected = _table(_table(data, "profiles"), profile).get("mcp_servers")
    names = [str(name) for name in selected] if isinstance(selected, list) else list(servers)
    known = {name: _without_unknown_keys(_table(servers, name)) for name in names if name in servers}
    return {name: server for name, server in known.items() if _is_usable(name, server, notes)}


def _without_unknown_keys(server: Values) -> Values:
    return {key: value for key, value in server.items() if key in _KEYS}


def _is_usable(name: str, server: Values, notes: list[str]) -> bool:
    """Whether the table describes a server. One that does not is named in `notes`, and the others are used."""
    from polylect.mcp.server_config import ServerConfigError, check_servers

    try:
        check_servers({name: server}, {})
    except ServerConfigError as error:
        notes.append(f"a connector of Wayland Desktop is left out: {error}")
        return False
    return True


def _table(data: Values, name: str) -> Values:
    table = data.get(name)
    return table if isinstance(table, dict) else {}
