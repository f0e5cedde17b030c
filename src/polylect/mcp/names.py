"""Names of servers' tools: a full one for rules, and a short one for the model.

The full name `mcp__server__tool` is a tool's identity in rules and hooks. It is made from the name under which the
person or the host has configured the server, never from what the server says alone, so that no server can pass for
another. The name that the model uses is the tool's own where that is free, else the full one, cut to the length that
vendors accept. Called by `mcp/servers.py`.
"""

import re
from binascii import crc32
from collections.abc import Container, Iterable

from polylect.vocab.tool_names import is_reserved

LONGEST = 64
"""The shortest limit among the model vendors."""
_LONGEST_TOOL = 200
"""Characters of a tool's name in its full name. A server can choose any name, and hooks match patterns against it."""
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")


def name_for(server: str, tool: str, taken: Container[str], *, bare: bool = True) -> str:
    """The name for the model: no other tool has it and every vendor accepts it. It is the tool's own name only if that
    may be `bare`, has only plain characters and is not reserved."""
    if bare and tool and _cut(tool) == tool and tool not in taken and not is_reserved(tool):
        return tool
    full = _cut(long_name(server, tool))
    number = 2
    name = full
    while name in taken:
        name = f"{full[: LONGEST - 4]}_{number}"
        number += 1
    return name


def long_name(server: str, tool: str) -> str:
    """The full name, which rules and hooks use. The tool's own name is cut at _LONGEST_TOOL characters."""
    return f"mcp__{server_part(server)}__{_cut(tool, _LONGEST_TOOL)}"


def server_part(server: str) -> str:
    """The part of a tool's full name that names its server. It never holds two underscores in a row: they end it."""
    return re.sub("_+", "_", _NOT_PLAIN.sub("_", server)).strip("_") or "server"


def name_fault(server: str, others: Iterable[str]) -> str:
    """Why a server cannot have this name; empty if it can. `others` are the names of the other servers."""
    if "__" in server:
        return f"the name {server!r} has two underscores in a row, which separate server and tool: rename the server"
    if server.strip("_") != server:
        return f"the name {server!r} begins or ends with an underscore, so rules could mistake it: rename the server"
    for other in others:
        if other != server and server_part(other) == server_part(server):
            return f"its tools would be called like those of the server {other!r}: rename one of the two"
    return ""


def _cut(name: str, longest: int = LONGEST) -> str:
    plain = _NOT_PLAIN.sub("_", name)
    if len(plain) <= longest:
        return plain
    return f"{plain[: longest - 9]}_{crc32(name.encode()):08x}"  # two long names may differ only after the cut
