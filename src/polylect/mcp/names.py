"""What a server's tool is called here: its own name where that can be, else `mcp__server__tool`."""

import re
from collections.abc import Container
from zlib import crc32

LONGEST = 64
"""The shortest limit among the model vendors."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


def name_for(server: str, tool: str, taken: Container[str], *, bare: bool = True) -> str:
    """A name that no other tool has and that every vendor accepts; the tool's own only if it may be `bare`."""
    if bare and tool and _plain(tool) == tool and tool not in taken:
        return tool
    whole = long_name(server, tool)
    number = 2
    name = whole
    while name in taken:
        name = f"{whole[: LONGEST - 4]}_{number}"
        number += 1
    return name


def long_name(server: str, tool: str) -> str:
    """What rules call it. The server's part has no two underscores in a row: no server can pass for another."""
    part = re.sub("_+", "_", _FOREIGN.sub("_", server)).strip("_")
    return _plain(f"mcp__{part or 'server'}__{tool}")


def _plain(name: str) -> str:
    plain = _FOREIGN.sub("_", name)
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[: LONGEST - 9]}_{crc32(name.encode()):08x}"  # two long names may differ only at the end
