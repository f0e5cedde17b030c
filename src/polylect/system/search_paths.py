"""Search paths of the environment, without the entries that mean the working folder.

An empty or relative entry of PATH, PYTHONPATH or LD_LIBRARY_PATH is looked up below the folder in which a program runs.
For us that folder is a workspace, which may be a stranger's: a program, module or library in it would run with the
user's rights, before anybody was asked. The host SDK starts engines, and the engine starts
commands and servers, with `absolute_only(env)`. Hooks decide what may run, so their programs and modules do not come
from the workspace at all: `absolute_only(env, outside=workspace)`.
"""

import os
from collections.abc import Mapping

_LISTS = (
    *("PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
)
_FOLDERS = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")


def absolute_only(env: Mapping[str, str], *, outside: str = "") -> dict[str, str]:
    """The environment without relative places to load programs, modules or libraries from, and without those in the
    workspace that `outside` names."""
    clean = dict(env)
    for name in _LISTS:
        if name in clean:
            clean[name] = entries_outside(clean[name], outside)
            if not clean[name]:  # an empty list means the working folder to some programs
                del clean[name]
    for name in _FOLDERS:
        if name in clean and not entries_outside(clean[name], outside):
            del clean[name]
    return clean


def absolute_entries(search_path: str) -> str:
    """The absolute entries of a list of folders, in their order."""
    return os.pathsep.join(filter(os.path.isabs, search_path.split(os.pathsep)))


def entries_outside(search_path: str, workspace: str) -> str:
    """The absolute entries that do not lie in the workspace, in their order."""
    entries = absolute_entries(search_path).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if entry and not _is_inside(os.path.join(entry, "x"), workspace))


def program_on(search_path: str, name: str, *, outside: str = "") -> str:
    """The absolute path of a program on a list of folders; empty if none of the absolute ones has it.

    `outside` is the workspace: a program that lies in it, or is a link into it, is passed over. Commands can write
    there, and what we start ourselves (a shell, bubblewrap, an MCP server) runs with the user's rights.
    """
    for folder in absolute_entries(search_path).split(os.pathsep):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK) and not _is_inside(path, outside):
            return path
    return ""


def _is_inside(program: str, workspace: str) -> bool:
    """Where the system's own programs are in the workspace (`/`, `/usr`), no program is outside, and all are taken."""
    if not workspace:
        return False
    real = os.path.realpath(workspace).rstrip("/") + "/"
    if "/usr/bin/".startswith(real):
        return False
    folder = os.path.realpath(os.path.dirname(program)) + "/"
    return folder.startswith(real) or os.path.realpath(program).startswith(real)
