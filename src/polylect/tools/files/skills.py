"""Finds and reads skills: folders with a SKILL.md, which holds instructions for one kind of work.

Skills lie in folders of the user and of the project. A project may hold a symlink to any file, so a skill of a project
is read only if its real path is inside the project, and if no rule denies reading it. Called by the tool Skill.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from polylect.system.plain_files import names_in, real_path
from polylect.system.repository import folders_from_root
from polylect.system.user_folders import user_path
from polylect.tools.files.paths import PROC, is_inside
from polylect.tools.files.regular_files import opened_file
from polylect.vocab.errors import ToolError
from polylect.wire.front_matter import split_front

MOST_FRONT = 16 * 1024
MOST_BODY = 1024 * 1024
MOST_SKILLS = 500
"""Of a folder, and of all folders of a project."""
_NAME = "SKILL.md"
_PROJECT = (".polylect/skills", ".claude/skills")


class SkillFile(Struct, frozen=True):
    """One SKILL.md. `bound` is the folder of the project that it belongs to and has to lie in; empty for the user's
    own."""

    name: str
    description: str
    path: str
    bound: str = ""


def skill_folders(workspace: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The existing folders of skills, the nearest first, each with its `bound`."""
    folders = folders_from_root(workspace)
    places = [(os.path.join(folder, name), folders[0]) for folder in reversed(folders) for name in _PROJECT]
    home = env.get("HOME") or os.path.expanduser("~")
    config = env.get("XDG_CONFIG_HOME") or ""
    config = config if os.path.isabs(config) else os.path.join(home, ".config")
    places += [(os.path.join(config, "polylect", "skills"), ""), (user_path(home, ".claude/skills", env), "")]
    return [(path, bound) for path, bound in places if os.path.isdir(path)]


def find_skills(folders: Sequence[tuple[str, str]], *, trusted: bool = False) -> dict[str, SkillFile]:
    """Skills by name. Of two with one name the nearer one counts, or the user's own if the project is not trusted."""
    skills: dict[str, SkillFile] = {}
    for folder, bound in folders:
        for name in names_in(folder)[:MOST_SKILLS]:
            skill = _read_front(os.path.join(folder, name, _NAME), name, bound)
            if skill and (len(skills) < MOST_SKILLS or not bound):
                nearer = skills.setdefault(skill.name, skill)
                if nearer.bound and not (skill.bound or trusted):
                    skills[skill.name] = skill
    return skills


def _read_front(path: str, folder: str, bound: str) -> SkillFile | None:
    """The skill; None if it cannot be read, or if the model may not choose it."""
    try:
        front, _ = split_front(_read(path, bound, MOST_FRONT))
    except (OSError, ToolError):
        return None
    if front.get("disable-model-invocation", "").lower() == "true":
        return None
    return SkillFile(front.get("name") or folder, front.get("description", ""), path, bound)


def read_body(skill: SkillFile, fault: Callable[[str], str]) -> str:
    """The instructions of a skill. `fault` returns why the model must not see a file. Raises ToolError."""
    return split_front(_read(skill.path, skill.bound, MOST_BODY, fault))[1]


def _read(path: str, bound: str, most: int, fault: Callable[[str], str] = lambda path: "") -> str:
    """The beginning of a file. Raises ToolError if its real path is outside of `bound`, or `fault` objects."""
    real = real_path(path)
    if is_inside(real, (PROC,)) or (bound and not is_inside(real, (os.path.realpath(bound),))):
        raise ToolError(f"{path} leads out of the project.")
    if why := fault(real):
        raise ToolError(f"{path} is not read: {why}.")
    with opened_file(path, real) as file:
        return os.pread(file, most, 0).decode(errors="replace")
