"""Skill: loads the instructions for one kind of work when the model needs them.

The description of the tool lists the skills that were there when the session began; a call reads them again, so a skill
that was changed since is loaded as it is now.
"""

import os
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.skills import SkillFile, find_skills, read_body, skill_folders
from polylect.tools.setup import ToolSetup
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Tool, ToolContext, ToolReturn
from polylect.wire.cut_text import cut_middle

TEXT = """\
Loads a skill: instructions for one kind of work that the person or the project has written down. If one of these fits
what you were asked to do, load it before you begin."""

MOST_LISTED = 8_000
"""Characters of the list that goes with every request."""
MOST_LINE = 250
MOST = 50_000


class Arguments(Struct, frozen=True):
    skill: Annotated[str, Meta(description="The skill's name.")]
    args: Annotated[str, Meta(description="What it should work on, if it takes something.")] = ""


class Skill(TypedTool[Arguments]):
    name = "Skill"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def __init__(self, folders: Sequence[tuple[str, str]], *, trusted: bool = False) -> None:
        self._folders, self._trusted = folders, trusted
        known_skills = find_skills(folders, trusted=trusted)
        self.skills = tuple(known_skills)
        """The names in the description for the model."""
        self.text = f"{TEXT}\n{_listing(list(known_skills.values()))}"
        super().__init__()

    def describe(self, args: dict[str, Any]) -> str:
        return f"Skill {display_argument(args, 'skill')} {display_argument(args, 'args')}".rstrip()

    def cards(self) -> list[CommandCard]:
        """The skills that there are now."""
        skills = find_skills(self._folders, trusted=self._trusted)
        return [CommandCard(skill.name, skill.description) for skill in skills.values()]

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        skills = find_skills(self._folders, trusted=self._trusted)
        skill = skills.get(args.skill.strip().removeprefix("/"))
        if not skill:
            raise ToolError(f"There is no skill {args.skill!r}. The skills are: {', '.join(skills) or 'none'}.")
        body = read_body(skill, context.reading_fault)
        if "$ARGUMENTS" in body:
            body = body.replace("$ARGUMENTS", args.args)
        elif args.args:
            body = f"{body}\n\nArguments: {args.args}"
        head = f"Skill {skill.name}. Files that it names are in {os.path.dirname(skill.path)}."
        return ToolReturn(f"{head}\n\n{cut_middle(body, MOST, skill.path)}")


def _listing(skills: Sequence[SkillFile]) -> str:
    lines: list[str] = []
    room = MOST_LISTED
    for skill in skills:
        line = f"- {skill.name}: {' '.join(skill.description.split())}"[:MOST_LINE]
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- ({len(skills) - len(lines)} more, which can be loaded by name)")
            break
        lines.append(line)
    return "\n".join(lines)


def open_tool(setup: ToolSetup) -> Tool | None:
    """None where neither the user nor the project has a folder for skills."""
    folders = skill_folders(setup.workspace, setup.env) if setup.workspace else ()
    return Skill(folders, trusted=setup.trusted) if folders else None
