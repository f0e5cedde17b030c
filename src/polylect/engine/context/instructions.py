"""Collects the instruction files that every agent gets: AGENTS.md and CLAUDE.md, and what they include with `@path`.

The user's own come first (`polylect/AGENTS.md` in the configuration folder, `~/.claude/CLAUDE.md`), then the project's,
from the root of the repository down to the workspace. A project may come from anybody. So its files can include only
files of the project, no link leads out of it, and hidden files are left out. Files that the rules deny to Read are left
out too. The file that was judged is the file that is opened. `prompt.py` puts the result into the system prompt.
"""

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct

from polylect.engine.commands.prompt_files import Fault, no_fault
from polylect.system.plain_files import read_resolved, real_path
from polylect.system.repository import folders_from_root
from polylect.system.user_folders import user_path
from polylect.wire.lazy_regex import pattern

NAMES = ("AGENTS.md", "CLAUDE.md")
MOST = 40_000
"""Characters of one file."""
MOST_OF_ALL = 120_000
MOST_PLACES = 1000
"""Places that are looked at, whether there is a file or not. Meanwhile the engine answers nothing."""
DEEPEST = 5
_INCLUDE = pattern(r"(?:^|(?<=\s))@([^\s`]+)")
_CODE = pattern(r"`[^`]*`")
_FENCE = pattern(r"\s*(```|~~~)")


class Instruction(Struct, frozen=True):
    """A file for the model, or with `fault` the reason why it is left out."""

    path: str
    text: str = ""
    whose: str = "this project"
    fault: str = ""


class InstructionFiles:
    """The instruction files of one workspace. Where to look is resolved once; the files are read at each `read`.

    `env` has HOME, XDG_CONFIG_HOME and CLAUDE_CONFIG_DIR.
    """

    def __init__(self, workspace: str, env: Mapping[str, str]) -> None:
        self._workspace = os.path.realpath(workspace)
        self._home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
        settings = env.get("XDG_CONFIG_HOME") or ""
        settings = settings if os.path.isabs(settings) else os.path.join(self._home, ".config")
        self._own = (
            os.path.join(settings, "polylect", "AGENTS.md"),
            user_path(self._home, ".claude/CLAUDE.md", env),
        )

    def read(self, fault: Fault = no_fault) -> list[Instruction]:
        """All instruction files in order. Files that do not exist are not listed.

        `fault` returns why a resolved path must not be read, or nothing.
        """
        reading = _Reading(self._home, fault)
        for path in self._own:
            reading.add_file(path, root="", whose="every project of this person")
        folders = folders_from_root(self._workspace)
        for folder in folders:
            for name in NAMES:
                reading.add_file(os.path.join(folder, name), root=folders[0])
        return reading.files


class _Reading:
    def __init__(self, home: str, fault: Fault) -> None:
        self.home = home
        self._fault = fault
        self.files: list[Instruction] = []
        self._seen: set[str] = set()
        self._left = MOST_OF_ALL
        self._places_left = MOST_PLACES

    def add_file(self, path: str, *, root: str, whose: str = "this project", depth: int = 0) -> None:
        """Add a file and what it includes. If there is a `root`, the file has to be below it."""
        self._places_left -= 1
        if self._places_left < 0 or not os.path.lexists(path):
            return
        real = real_path(path)
        if real in self._seen:
            return
        self._seen.add(real)
        fault = _obstacle(path, real, root, depth) or self._fault(real)
        fault = fault or ("there is too much of it already" if not self._left else "")
        text = "" if fault else _read(real)
        if text is None:
            fault, text = "it is not a file that can be read", ""
        if fault or (text and all(text != other.text for other in self.files)):
            self._left -= min(self._left, len(text))
            self.files.append(Instruction(path, text, whose, fault))
        for included in _includes(text):
            place = self.home + included[1:] if included.startswith("~/") else included
            self.add_file(os.path.join(os.path.dirname(real), place), root=root, whose=whose, depth=depth + 1)


def _obstacle(path: str, real: str, root: str, depth: int) -> str:
    if root and real != root and not real.startswith(root.rstrip("/") + "/"):
        return f"it leads out of the project, to {real}"
    if root and (os.path.basename(real).startswith(".") or "/.git/" in real.removeprefix(root)):
        return "hidden files cannot be included"
    return "too many files include each other" if depth > DEEPEST else ""


def _read(path: str) -> str | None:
    """The text of a plain file, cut if it is too long; None if it cannot be read."""
    try:
        text = read_resolved(path, MOST * 4).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return text if len(text) <= MOST else f"{text[:MOST]}\n[the rest of {path} is left out]"


def _includes(text: str) -> Iterator[str]:
    """The paths after an `@`, except in code."""
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            yield from (path.rstrip(".,;:!?)\"'") for path in _INCLUDE.findall(_CODE.sub("", line)))
