"""`polylect link NAME FOLDER`: creates polylect under the name by which a host looks for another engine.

With `--bridge NAME=ENGINE` the program of that name is a bridge to another engine (`cli/bridge/command.py`). A program
that is started under that name accepts the flags of the original (module `start` of its dialect). An existing link, or
a script that an earlier `polylect link` wrote, is replaced; any other file is left alone.
"""

import os
import sys

import polylect
from polylect import plug
from polylect.app.cli.terminal import print_error, print_line

_NAMES: list[str] = [program for name in plug.dialects() for program in plug.load("dialects", name).PROGRAMS]
_LONGEST_SHEBANG = 120


USAGE = f"""\
usage: polylect link NAME FOLDER                    makes FOLDER/NAME, which takes the flags of the program of that name
       polylect link --bridge NAME=ENGINE FOLDER   makes FOLDER/NAME, behind which ENGINE works; see docs/bridges.md
  NAME is one of {", ".join(_NAMES)}. Put FOLDER first on the host's PATH."""


def main(words: list[str]) -> int:
    engine = ""
    if words[:1] == ["--bridge"] and len(words) == 3:
        name, _, engine = words[1].partition("=")
        words = [name, words[2]]
        if name in _NAMES and not _is_engine(engine):
            return 2
    if len(words) == 2 and words[0] not in _NAMES:
        from polylect.app.startup.nearest_word import hint  # only for an error

        print_error(f"there is no name {words[0]!r} to link; {hint(words[0], _NAMES, 'choose one of these')}")
    if len(words) != 2 or words[0] not in _NAMES:
        print(USAGE, file=sys.stderr)
        return 2
    name, folder = words[0], os.path.abspath(words[1])
    link = os.path.join(folder, name)
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.islink(link) or _is_ours(link):
            os.unlink(link)
        target = _create_bridge(link, name, engine) if engine else _create_program(link)
    except OSError as error:
        print_error(f"cannot make {link}: {error.strerror}")
        return 1
    print_line(f"{link} -> {target}")
    print_line(f"Put {folder} first on the host's PATH.")
    return 0


def _is_engine(name: str) -> bool:
    """Whether there is such an engine. If not, it is said."""
    from polylect.host.engine_registry import engine_spec
    from polylect.host.errors import UnknownEngine

    try:
        return bool(engine_spec(name))
    except UnknownEngine as error:
        print_error(error)
        return False


def _create_bridge(link: str, name: str, engine: str) -> str:
    """Creates a script that starts a bridge. Returns what it starts."""
    words = ["bridge", "--front", name, "--engine", engine]
    with open(link, "x", encoding="utf-8") as file:
        file.write(_script(words))
    os.chmod(link, 0o755)
    return f"polylect {' '.join(words)}"


def _create_program(link: str) -> str:
    """Creates a symbolic link to the program, or a script if polylect was started as a module. Returns the target."""
    program = os.path.realpath(sys.argv[0])
    if os.access(program, os.X_OK) and not program.endswith("__main__.py"):
        os.symlink(program, link)
        return program
    with open(link, "x", encoding="utf-8") as file:
        file.write(_script())
    os.chmod(link, 0o755)
    return f"{sys.executable} -m polylect"


def _script(words: list[str] | None = None) -> str:
    """A script that needs nothing of the environment: some hosts remove PYTHONPATH. `words` come before its flags."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(polylect.__file__)))
    lines = [f"import sys; sys.path.insert(0, {place!r})", "from polylect.app.main import main", "sys.exit(main())"]
    if words:
        lines.insert(1, f"sys.argv[:1] = {['polylect', *words]!r}")
    return "\n".join([_shebang(sys.executable), *lines, ""])


def _shebang(python: str) -> str:
    if " " not in python and len(python) < _LONGEST_SHEBANG:
        return f"#!{python}"
    # The kernel cannot start such a path, but a shell can. To Python these two lines are a string.
    return f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"


def _is_ours(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return "from polylect.app.main import main" in file.read(1000)
    except (OSError, ValueError):
        return False
