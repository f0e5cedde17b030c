"""Skills: folders with a SKILL.md, which says how some kind of work is done here."""

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from polylect.system.plain_files import real_path
from polylect.system.repository import folders_from_root
from polylect.tools.files.paths import PROC, is_inside
from polylect.tools.files.regular_files import opened_file
from polylect.vocab.errors import ToolError
from polylect.wire.front_matter import split_front

MOST_FRONT = 16 * 1024
MOST_BODY = 1024 * 1024
MOST_SKILLS = 500
_NAME = "SKILL.md"
_PROJECT = (".polylect/skills", ".claude/skills")


class SkillFile(Struct, frozen=True):
    """One SKILL.md. What comes with a project has to lie in it: `bound` is that project's folder."""

    name: str
    description: str
    path: str
    bound: str = ""


def skill_folders(workspace: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Folders that exist and may hold skills, the nearest first, and for each what it must not lead out of."""
    folders = folders_from_root(workspace)
    found = [(os.path.join(folder, name), folders[0]) for folder in reversed(folders) for name in _PROJECT]
    home = env.get("HOME") or os.path.expanduser("~")
    config = env.get("XDG_CONFIG_HOME") or ""
    config = config if os.path.isabs(config) else os.path.join(home, ".config")
    found += [(os.path.join(config, "polylect", "skills"), ""), (os.path.join(home, ".claude", "skills"), "")]
    return [(path, bound) for path, bound in found if os.path.isdir(path)]


def find_skills(folders: Sequence[tuple[str, str]], *, trusted: bool = False) -> dict[str, SkillFile]:
    """By name; of two with the same name the nearer one, but the user's own where the project is not trusted."""
    found: dict[str, SkillFile] = {}
    for folder, bound in folders:
        for name in _names(folder):
            skill = _described(os.path.join(folder, name, _NAME), name, bound)
            if skill and len(found) < MOST_SKILLS:
                nearer = found.setdefault(skill.name, skill)
                if nearer.bound and not (skill.bound or trusted):
                    found[skill.name] = skill
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _described(path: str, folder: str, bound: str) -> SkillFile | None:
    """Nothing if it cannot be read, or is not meant for the model to choose."""
    try:
        front, _ = split_front(_read(path, bound, MOST_FRONT))
    except (OSError, ToolError):
        return None
    if front.get("disable-model-invocation", "").lower() == "true":
        return None
    return SkillFile(front.get("name") or folder, front.get("description", ""), path, bound)


def read_body(skill: SkillFile, fault: Callable[[str], str]) -> str:
    """Its instructions. `fault` says why a file must not be told to the model. Raises ToolError."""
    return split_front(_read(skill.path, skill.bound, MOST_BODY, fault))[1]


def _read(path: str, bound: str, most: int, fault: Callable[[str], str] = lambda path: "") -> str:
    """A repository may hold a link to anything; what it links to outside of itself is not its skill."""
    real = real_path(path)
    if is_inside(real, (PROC,)) or (bound and not is_inside(real, (os.path.realpath(bound),))):
        raise ToolError(f"{path} leads out of the project.")
    if why := fault(real):
        raise ToolError(f"{path} is not read: {why}.")
    with opened_file(path, real) as file:
        return os.pread(file, most, 0).decode(errors="replace")
