"""Skill: instructions in folders, listed in a line each and loaded when asked."""

import asyncio
import os
from pathlib import Path

import pytest

from doubles_tools import FolderContext
from polylect.tools.builtin.skill import MOST_LISTED
from polylect.tools.standard import standard_tools
from polylect.vocab.ports import Tool, ToolReturn
from repositories import make_repository


class Home:
    """A repository with a workspace in it, and a person's own folder."""

    def __init__(self, path: Path) -> None:
        self.user = path / "home"
        self.repository = path / "repository"
        self.workspace = self.repository / "packages" / "one"
        self.workspace.mkdir(parents=True)
        make_repository(self.repository)
        self.user.mkdir()

    def skill(self, folder: Path, name: str, text: str) -> Path:
        path = folder / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    def tools(self) -> dict[str, Tool]:
        return standard_tools(str(self.workspace), {"HOME": str(self.user)})

    def listed(self) -> list[str]:
        return [line for line in self.tools()["Skill"].spec.description.split("\n") if line.startswith("- ")]

    def load(self, name: str, args: str = "") -> ToolReturn:
        return asyncio.run(self.tools()["Skill"].run({"skill": name, "args": args}, FolderContext(self.workspace)))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_a_folder_for_them_there_is_no_such_tool(home: Home) -> None:
    assert "Skill" not in home.tools()


def test_skills_are_found_from_the_workspace_up_to_the_repository_and_at_home(home: Home) -> None:
    home.skill(home.workspace / ".polylect/skills", "near", "---\nname: near\ndescription: The nearest.\n---\nN")
    home.skill(home.repository / ".claude/skills", "far", "---\ndescription: >\n  Further\n  up.\n---\nF")
    home.skill(home.repository / ".claude/skills", "near", "---\ndescription: Not this one.\n---\nX")
    home.skill(home.repository.parent / ".claude/skills", "outside", "---\ndescription: Above.\n---\nX")
    home.skill(home.user / ".config/polylect/skills", "own", "---\nname: \"mine\"\ndescription: 'My own'\n---\nM")
    home.skill(home.user / ".claude/skills", "bare", "Just words.")
    home.skill(home.user / ".claude/skills", "manual", "---\ndisable-model-invocation: true\n---\nX")
    assert home.listed() == ["- near: The nearest.", "- far: Further up.", "- mine: My own", "- bare: "]
    assert home.load("near").output.endswith("\n\nN")
    assert home.load("/mine").output.endswith("\n\nM")


def test_a_skill_says_where_its_files_are_and_takes_arguments(home: Home) -> None:
    folder = home.workspace / ".polylect/skills"
    home.skill(folder, "deploy", "---\ndescription: Deploys.\n---\n\nDeploy $ARGUMENTS with run.sh.\n")
    home.skill(folder, "test", "---\ndescription: Tests.\n---\nTest it.")
    where = f"Skill deploy. Files that it names are in {folder}/deploy.\n\n"
    assert home.load("deploy", "all of it").output == where + "Deploy all of it with run.sh."
    assert home.load("test", "now").output.endswith("Test it.\n\nArguments: now")
    missing = home.load("nothing")
    assert (missing.ok, missing.output) == (False, "There is no skill 'nothing'. The skills are: deploy, test.")


def test_the_list_is_bounded(home: Home) -> None:
    for number in range(60):
        text = f"---\ndescription: {'long ' * 100}\n---\nWords of {number}."
        home.skill(home.workspace / ".polylect/skills", f"skill-{number:03}", text)
    listed = home.listed()
    assert sum(map(len, listed)) < MOST_LISTED + 100
    assert listed[-1] == f"- ({60 - (len(listed) - 1)} more, which can be loaded by name)"
    assert home.load("skill-059").output.endswith("Words of 59.")


def test_P2_a_repository_cannot_make_a_skill_of_a_file_outside(home: Home, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("---\nname: key\n---\nsecret")
    folder = home.workspace / ".polylect/skills"
    (folder / "file").mkdir(parents=True)
    (folder / "file" / "SKILL.md").symlink_to(tmp_path / "key")
    home.skill(tmp_path / "elsewhere", "folder", "---\nname: folder\n---\nsecret")
    (folder / "folder").symlink_to(tmp_path / "elsewhere" / "folder")
    (home.user / ".claude" / "skills" / "process").mkdir(parents=True)
    (home.user / ".claude" / "skills" / "process" / "SKILL.md").symlink_to("/proc/self/environ")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "SKILL.md")
    assert home.listed() == []
    assert not home.load("key").ok


def test_a_person_may_keep_their_own_skills_elsewhere(home: Home, tmp_path: Path) -> None:
    home.skill(tmp_path / "dotfiles", "mine", "---\ndescription: Mine.\n---\nM")
    (home.user / ".claude").mkdir()
    (home.user / ".claude" / "skills").symlink_to(tmp_path / "dotfiles")
    assert home.listed() == ["- mine: Mine."]
