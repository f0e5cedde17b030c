"""Confines a search to its folder, by Landlock.

ripgrep opens folders by name. If a command replaces one by a link during a search, ripgrep would follow it. Confined
like this, it can open nothing outside of the searched folder. This is used inside the sandbox of the worker, and also
where there is no sandbox. Kernels without Landlock lack this protection. Called by `searching.py` in its child.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from polylect.tools.files.paths import opened_folder
from polylect.tools.sandbox.landlock import EXECUTE, READ_DIR, READ_FILE, add_rule, create_ruleset, version

_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many kinds of access to files each version of Landlock knows; later ones know at least 16."""
_TCP = 3
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")


def landlock_ruleset(folder: int, real: str, program: str) -> int:
    """A ruleset that lets a process read below this folder and run this program. -1 where there is no Landlock."""
    abi = version()
    if not abi:
        return -1
    try:
        ruleset = create_ruleset(abi, (1 << _RIGHTS.get(abi, 16)) - 1, _TCP)
    except OSError:
        return -1
    add_rule(ruleset, folder, READ_FILE | READ_DIR)
    if program:
        _allow_files(ruleset, (program,), READ_FILE | EXECUTE)
    _allow_files(ruleset, _ignore_files(real), READ_FILE)
    return ruleset


def _ignore_files(real: str) -> Sequence[str]:
    """The files in the folders above that say which files are ignored."""
    above: list[str] = []
    while real != (real := os.path.dirname(real)):
        above += (os.path.join(real, name) for name in _IGNORE_FILES)
    return above


def _allow_files(ruleset: int, paths: Sequence[str], rights: int) -> None:
    for path in paths:
        folder, name = os.path.split(path)
        with suppress(OSError), opened_folder(os.path.realpath(folder)) as place:
            file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    add_rule(ruleset, file, rights)
            finally:
                os.close(file)
