"""Finds the sockets of other programs on this machine, so that bubblewrap can hide them.

A socket is a way out of the sandbox: whoever may connect to a container service, a terminal multiplexer or an editor
can have programs started outside. Sockets have no fixed place, so beside the known ones (`secret_places.py`) those are
hidden that the kernel lists when the first command of a session runs. Later ones are left alone, except for known
names: they may be the session's own, such as a server that a command has started in the background.

Landlock of today's kernels does not govern who connects to a socket that has a path.
"""

import os
import stat

from polylect.system.plain_files import names_in
from polylect.tools.files.paths import is_inside
from polylect.tools.sandbox.secret_places import DISPLAYS, HARMLESS_SOCKETS, TEMPORARY_SOCKETS

_TABLE = "/proc/net/unix"


def listening_sockets() -> list[str]:
    """The paths of all bound sockets in our network namespace to which we could connect."""
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.split(maxsplit=7) for line in table]
    except OSError:
        return []
    paths = dict.fromkeys(row[7].rstrip("\n") for row in rows if len(row) == 8 and row[7].startswith("/"))
    return [path for path in paths if is_usable_socket(path) and not is_inside(path, HARMLESS_SOCKETS)]


def known_sockets() -> list[str]:
    """Sockets with well-known names in /tmp, or in folders there that have such names."""
    named = _entries("/tmp", TEMPORARY_SOCKETS)
    inside = [path for folder in (*named, *DISPLAYS) for path in _entries(folder)]
    return [path for path in named + inside if is_usable_socket(path)]


def is_usable_socket(path: str) -> bool:
    """Whether it is a socket that we may write to, which is what connecting takes."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)
    except (OSError, ValueError):
        return False


def _entries(folder: str, beginnings: str | tuple[str, ...] = "") -> list[str]:
    return [os.path.join(folder, name) for name in names_in(folder) if name.startswith(beginnings)]
