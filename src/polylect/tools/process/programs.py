"""Finds the programs that polylect starts by itself: a shell, bubblewrap, ripgrep, and its own small programs.

None of them may come from the workspace, which a command can write to: what is started here runs with the user's rights
and mostly outside the sandbox.
"""

import os
import sys
from collections.abc import Mapping

from polylect.system.search_paths import program_on

# Our own folder comes last, so that nothing installed beside polylect can take the place of a standard module.
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from polylect.tools.{} import main; main()"


def find_program(name: str, env: Mapping[str, str], workspace: str = "") -> str:
    """The absolute path of a program that we start ourselves: looked for where the environment says, then beside our
    interpreter, but not in the workspace. A name with a slash is the path itself. Empty if there is none."""
    if "/" in name:
        return name
    places = os.pathsep.join((env.get("PATH", os.defpath), os.path.dirname(sys.executable)))
    return program_on(places, name, outside=workspace)


def find_ripgrep() -> str:
    """The `rg` that was installed with polylect, or the system's. Never one that PATH names: a project may write there.

    pip puts it beside the interpreter of a virtual environment, or into the `bin` of the place our package is in.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    folders = [os.path.dirname(sys.executable)]
    if os.path.basename(package) in ("site-packages", "dist-packages"):
        folders.append(os.path.join(os.path.dirname(package), "..", "..", "bin"))
    for folder in (*folders, "/usr/local/bin", "/usr/bin"):
        path = os.path.normpath(os.path.join(folder, "rg"))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def own_program(module: str) -> list[str]:
    """The command line that runs `main` of one of our modules on a bare interpreter, from its compiled form."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return [sys.executable, "-I", "-S", "-c", _BOOT.format(module), package]
