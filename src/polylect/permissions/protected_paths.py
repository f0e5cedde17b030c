"""Files that decide what runs later, on the person's behalf and outside of any sandbox.

An edit of one is asked for in every mode that asks, also inside the workspace: a git hook, settings of agents, and,
where the workspace holds the home folder or the system's own folders, shell startup files, `~/.ssh`,
`~/.config/autostart`, `/etc/profile.d` and the like. There is no list of such files, because every program has its own:
each name in the home that begins with a dot counts, and so does `~/bin`. `engine/turn/calls.py` asks for every path
that a call would change.
"""

import os
from collections.abc import Sequence

from polylect.permissions.rules import is_below

_SETTINGS = frozenset((".git", ".polylect", ".claude", ".mcp.json"))
_SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib64", "/sbin", "/usr", "/var/spool/cron")


def decides_what_runs(path: str, workspace: str, roots: Sequence[str], home: str) -> bool:
    """Whether this real path is one of them. `roots` are the workspace and what was granted beside it.

    Whoever works in `~/.dotfiles`, or grants that folder, means what is in it: places around a root do not count for
    what is in that root.
    """
    inside = path.startswith(f"{workspace}/")
    relative = path[len(workspace) + 1 :] if inside else os.path.relpath(path, workspace)
    if not _SETTINGS.isdisjoint(relative.split(os.sep)):
        return True
    place = _place(path, home)
    return bool(place) and not any(is_below(root, place) and is_below(path, root) for root in roots)


def _place(path: str, home: str) -> str:
    """The entry of the home, or the folder of the system, that the path is in; empty if it is in neither."""
    if home != "/" and path != home and is_below(path, home):
        name = os.path.relpath(path, home).split(os.sep)[0]
        return os.path.join(home, name) if name.startswith(".") or name == "bin" else ""
    return next((place for place in _SYSTEM if is_below(path, place)), "")
