"""AGENTS.md, CLAUDE.md and what they include."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polylect.engine.context.instructions import DEEPEST, MOST, MOST_OF_ALL, MOST_PLACES, Instruction, InstructionFiles
from repositories import make_git_directory, make_repository

SECRET = "-----BEGIN KEY-----"


class House:
    """A home with a repository in it, and a workspace in that."""

    def __init__(self, folder: Path) -> None:
        self.home = Path(os.path.realpath(folder)) / "home"
        self.repository = self.home / "repository"
        self.workspace = self.repository / "part"
        self.workspace.mkdir(parents=True)
        make_repository(self.repository)
        self.write("home/.ssh/id", SECRET)

    def write(self, name: str, text: str) -> Path:
        path = self.home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def project(self, name: str, text: str) -> Path:
        return self.write(f"home/repository/{name}", text)

    @property
    def entries(self) -> list[Instruction]:
        env = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "settings")}
        return InstructionFiles(str(self.workspace), env).read()

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(os.path.relpath(one.path, self.home), one.text) for one in self.entries if one.text]

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(os.path.relpath(one.path, self.home), one.fault) for one in self.entries if one.fault]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_persons_own_come_first_then_the_projects_from_its_root_down_to_the_workspace(house: House) -> None:
    house.project("part/CLAUDE.md", "6")
    house.project("part/AGENTS.md", "5\n")
    house.project("CLAUDE.md", "4")
    house.project("AGENTS.md", "3")
    house.write("home/.claude/CLAUDE.md", "2")
    house.write("home/settings/polylect/AGENTS.md", "1")
    house.write("home/AGENTS.md", "not ours")
    house.write("home/repository/other/AGENTS.md", "not ours either")
    assert house.texts == [
        ("settings/polylect/AGENTS.md", "1"),
        (".claude/CLAUDE.md", "2"),
        ("repository/AGENTS.md", "3"),
        ("repository/CLAUDE.md", "4"),
        ("repository/part/AGENTS.md", "5"),
        ("repository/part/CLAUDE.md", "6"),
    ]
    assert [one.whose for one in house.entries] == ["every project of this person"] * 2 + ["this project"] * 4


def make_fake(place: Path, kind: str) -> None:
    """What git does not take for a repository."""
    match kind:
        case "empty":
            place.mkdir()
        case "file":
            place.write_text("gitdir: nowhere\n")
        case "broken":
            make_git_directory(place)
            (place / "HEAD").write_text("nonsense\n")
        case "pipe":
            make_git_directory(place)
            (place / "HEAD").unlink()
            os.mkfifo(place / "HEAD")
        case "head":
            place.mkdir()
            (place / "HEAD").write_text("ref: refs/heads/main\n")
        case "elsewhere":
            place.write_text("/etc\n")


@pytest.mark.parametrize("fake", ["nothing", "empty", "file", "broken", "pipe", "head", "elsewhere"])
def test_without_a_repository_only_the_workspace_is_asked(tmp_path: Path, fake: str) -> None:
    """A folder `.git` alone makes none. The folder above ends the search, whatever lies in the temporary folder."""
    (tmp_path / "above").mkdir()
    make_fake(tmp_path / ".git", fake)
    (tmp_path / "AGENTS.md").write_text("anybody may have put this here")
    (tmp_path / "above" / "AGENTS.md").write_text("ours")
    loaded = InstructionFiles(str(tmp_path / "above"), {"HOME": str(tmp_path / "home")}).read()
    assert [one.text for one in loaded] == ["ours"]


def test_the_same_file_or_the_same_text_is_told_once(house: House) -> None:
    house.project("AGENTS.md", "same")
    (house.repository / "CLAUDE.md").symlink_to("AGENTS.md")
    house.project("part/AGENTS.md", "same")
    assert house.texts == [("repository/AGENTS.md", "same")]
    assert house.faults == []


def test_files_are_included_after_the_one_that_names_them(house: House) -> None:
    house.project("AGENTS.md", "Read @docs/style.md, and (for tests) see @./docs/tests.md.\n@README")
    house.project("docs/style.md", "style @more.md")
    house.project("docs/more.md", "more")
    house.project("docs/tests.md", "tests")
    house.project("README", "readme")
    assert [text.split()[0] for _, text in house.texts] == ["Read", "style", "more", "tests", "readme"]


def test_an_at_that_is_no_file_or_stands_in_code_includes_nothing(house: House) -> None:
    house.project("docs/a.md", "included")
    house.project(
        "AGENTS.md", "ask @alice or me@docs/a.md\n`@docs/a.md`\n```\n@docs/a.md\n~~~\n@docs/a.md\n```\n@docs/b.md"
    )
    assert len(house.texts) == 1
    assert house.faults == []


def test_circles_and_long_chains_end(house: House) -> None:
    house.project("AGENTS.md", "@AGENTS.md @a0.md")
    for number in range(20):
        house.project(f"a{number}.md", f"{number} @a{number + 1}.md @AGENTS.md")
    assert len(house.texts) == DEEPEST + 1
    assert house.faults == [(f"repository/a{DEEPEST}.md", "too many files include each other")]


def test_a_thousand_places_are_looked_at_and_no_more(house: House) -> None:
    house.project("AGENTS.md", " ".join(f"@{number}.md" for number in range(MOST_PLACES + 500)))
    for number in range(0, MOST_PLACES + 500, 100):
        house.project(f"{number}.md", f"{number}")
    assert [text for _, text in house.texts][1:] == [f"{number}" for number in range(0, MOST_PLACES, 100)]


@pytest.mark.parametrize(
    "attack",
    ["@~/.ssh/id", "@../../.ssh/id", "@../.ssh/id", "@link", "@folder/id", "@.env", "@.git/config", "@/etc/passwd"],
)
def test_a_project_cannot_have_secrets_read_out_by_including_them(house: House, attack: str) -> None:
    house.project(".env", SECRET)
    house.project(".git/config", SECRET)
    (house.repository / "link").symlink_to(house.home / ".ssh" / "id")
    (house.repository / "folder").symlink_to(house.home / ".ssh")
    house.project("AGENTS.md", attack)
    assert all(SECRET not in text and "root:" not in text for _, text in house.texts)


def test_a_project_cannot_have_secrets_read_out_by_a_link_in_the_place_of_its_instructions(house: House) -> None:
    (house.repository / "AGENTS.md").symlink_to(house.home / ".ssh" / "id")
    (house.workspace / "CLAUDE.md").symlink_to("../.env")
    house.project(".env", SECRET)
    assert house.texts == []
    assert house.faults == [
        ("repository/AGENTS.md", f"it leads out of the project, to {house.home}/.ssh/id"),
        ("repository/part/CLAUDE.md", "hidden files cannot be included"),
    ]


def test_the_person_may_include_what_they_like(house: House) -> None:
    house.write("home/.claude/CLAUDE.md", "@~/notes/rules.md")
    house.write("home/notes/rules.md", "rules")
    assert house.texts[-1] == ("notes/rules.md", "rules")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "unreadable"])
def test_what_is_no_plain_file_is_passed_by_without_waiting(house: House, kind: str) -> None:
    path = house.repository / "AGENTS.md"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            house.write("home/.claude/CLAUDE.md", "@/dev/zero")
        case "folder":
            path.mkdir()
        case "unreadable":
            path.symlink_to("AGENTS.md")
    assert [fault for _, fault in house.faults] == ["it is not a file that can be read"]


def test_a_long_file_is_cut_and_many_are_not_all_told(house: House) -> None:
    house.project("AGENTS.md", "\n".join(f"@{number}.md" for number in range(9)))
    for number in range(9):
        house.project(f"{number}.md", f"{number}" + "x" * MOST * 2)
    texts = [text for _, text in house.texts]
    assert texts[1].endswith("0.md is left out]")
    assert sum(map(len, texts)) < MOST_OF_ALL + 2 * MOST
    assert [fault for _, fault in house.faults] == ["there is too much of it already"] * (9 - len(texts) + 1)


def test_bytes_that_are_no_text_do_no_harm(house: House) -> None:
    (house.repository / "AGENTS.md").write_bytes(b"tabs \xff")
    assert house.texts == [("repository/AGENTS.md", "tabs \ufffd")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("whose", [".", ".git"])
def test_a_repository_of_another_user_is_not_read(house: House, whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """W3: as git's safe.directory. Anybody can make /tmp/.git and /tmp/AGENTS.md on a shared machine."""
    house.project("AGENTS.md", "theirs")
    house.project("part/AGENTS.md", "ours")
    assert [text for _, text in house.texts] == ["theirs", "ours"]
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(house.repository / whose, 65534, 65534)
    assert [text for _, text in house.texts] == ["ours"]
    monkeypatch.setenv("SUDO_UID", "65534")
    assert [text for _, text in house.texts] == ["theirs", "ours"]


def test_a_worktree_is_a_repository_too(house: House) -> None:
    git = house.repository / ".git" / "worktrees" / "tree"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("0" * 40 + "\n")
    (git / "commondir").write_text("../..\n")
    house.write("home/tree/AGENTS.md", "root")
    house.write("home/tree/part/AGENTS.md", "part")
    (house.home / "tree" / ".git").write_text(f"gitdir: {git}\n")
    env = {"HOME": str(house.home)}
    files = InstructionFiles(str(house.home / "tree" / "part"), env)
    assert [one.text for one in files.read()] == ["root", "part"]


def test_a_repository_ends_at_the_boundary_of_a_file_system(house: House) -> None:
    """As for git. `part` is mounted where only the process that looks sees it."""
    look = f"from polylect.system.repository import find_repository as f; print(f({str(house.workspace)!r}) is None)"
    mount = f'mount -t tmpfs none {house.workspace} && exec "$@"'
    script = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", look]
    if not shutil.which("unshare") or subprocess.run([*script[:6], "-"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    assert subprocess.run(script[-3:], capture_output=True, check=True).stdout == b"False\n"
    assert subprocess.run(script, capture_output=True, check=True).stdout == b"True\n"


def test_what_changes_between_two_prompts_is_seen(house: House) -> None:
    files = InstructionFiles(str(house.workspace), {"HOME": str(house.home)})
    house.project("AGENTS.md", "root")
    house.project("part/AGENTS.md", "part")
    assert [one.text for one in files.read()] == ["root", "part"]
    house.project("part/AGENTS.md", "port")
    assert [one.text for one in files.read()] == ["root", "port"]
    head = house.repository / ".git" / "HEAD"
    head.rename(head.with_name("gone"))
    assert [one.text for one in files.read()] == ["port"]
    head.with_name("gone").rename(head)
    house.write("home/.claude/CLAUDE.md", "own")
    assert [one.text for one in files.read()] == ["own", "root", "port"]


def test_what_rules_deny_is_not_told(house: House) -> None:
    """W3: by the file that is meant, also through a link."""
    house.project("AGENTS.md", "Read @secrets/key.txt and @link.txt and @open.txt")
    secret = house.project("secrets/key.txt", SECRET)
    (house.repository / "link.txt").symlink_to(secret)
    house.project("open.txt", "open")
    env = {"HOME": str(house.home)}
    denied = str(house.repository / "secrets")
    files = InstructionFiles(str(house.workspace), env)
    loaded = files.read(lambda path: "denied" if path.startswith(denied) else "")
    assert [one.text for one in loaded] == ["Read @secrets/key.txt and @link.txt and @open.txt", "", "open"]
    assert [one.fault for one in loaded] == ["", "denied", ""]
