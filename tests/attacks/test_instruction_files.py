"""Files that reach the model without a call pass the same rules as Read, and cannot be swapped after the check.

`POLYLECT_ATTACK_TRIES` says how often the races are run.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks.tries import tries
from engine_process import Place
from polylect.engine.commands.prompt_files import find_prompt_files
from polylect.engine.context import attachments
from polylect.engine.context.attachments import AttachmentError
from polylect.engine.context.instructions import InstructionFiles
from polylect.permissions.rulebook import reading_fault
from polylect.permissions.rules import parse
from polylect.system.plain_files import open_resolved
from polylect.tools.sandbox.policy import git_paths
from polylect.vocab.content import File
from repositories import make_git_directory

TRIES = tries(50)
SECRET = "-----BEGIN KEY-----"
SCRIPT = f"""
[[reply]]
when.history = "{SECRET}"
text = "leaked by history"

[[reply]]
when.system = "{SECRET}"
text = "leaked by system"

[[reply]]
when.prompt = "load"
when.step = 1
say = [{{ call = "Skill", id = "c1", args = {{ skill = "key" }} }}]

[[reply]]
text = "safe: {{prompt}}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A project with a secret, and everything in it that could carry the secret to the model."""
    with Place(tmp_path) as place:
        work = place.workspace
        for folder in ("secrets", ".polylect/commands", ".polylect/agents", ".polylect/skills/key"):
            (work / folder).mkdir(parents=True)
        secret = work / "secrets" / "key.txt"
        secret.write_text(f"---\nname: key\ndescription: d\n---\n{SECRET}\n")
        for link in (".polylect/commands/key.md", ".polylect/agents/key.md", ".polylect/skills/key/SKILL.md"):
            (work / link).symlink_to(secret)
        (work / "AGENTS.md").write_text("Look at @secrets/key.txt and at @secrets/../secrets/key.txt")
        yield place


def said(place: Place, text: str, *flags: str, **more: Any) -> str:
    """What the model answers, or the error."""
    engine = place.started("--force", *flags, script=SCRIPT)
    engine.send({"type": "message", "msg_id": "m1", "content": text, **more})
    frames = engine.until("stream_end")
    return json.dumps([frame for frame in frames if frame["type"] in ("text_delta", "error", "tool_result")])


PROMPTS = {"instructions": "hello", "command": "/key", "skill": "load"}


@pytest.mark.parametrize("rule", ["Read(secrets/**)", "Read(secrets)", "Read(key.txt)", "Edit(x)"])
@pytest.mark.parametrize("way", PROMPTS)
def test_what_rules_deny_is_not_told_by_another_way(place: Place, way: str, rule: str) -> None:
    answer = said(place, PROMPTS[way], "--deny", rule)
    assert ("leaked" in answer or SECRET in answer) is (rule == "Edit(x)")


@pytest.mark.parametrize("way", PROMPTS)
def test_what_the_sandbox_hides_is_not_told_by_another_way(place: Place, way: str) -> None:
    place.configure(f"[sandbox]\nhidden = ['{place.workspace / 'secrets'}']\n")
    answer = said(place, PROMPTS[way])
    assert "leaked" not in answer
    assert SECRET not in answer


@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_rules_of_settings_count_and_what_has_to_be_asked_for_is_not_told(place: Place, effect: str) -> None:
    place.configure(f'[tools]\n{effect} = ["Read(secrets/**)"]\n')
    assert "safe" in said(place, "hello")
    shown = place.run("doctor").out.decode()
    assert "secrets/key.txt is not told to the model: the rule Read(" in shown


def test_an_attached_file_is_refused_where_rules_deny_it(place: Place) -> None:
    (place.workspace / "link.txt").symlink_to("secrets/key.txt")
    for path in ("secrets/key.txt", "link.txt", str(place.workspace / "link.txt")):
        answer = said(place, "hello", "--deny", "Read(secrets/**)", files=[path])
        assert SECRET not in answer
        assert "is against reading it" in answer
    place.configure('[tools]\nask = ["Read(secrets/**)"]\n')
    assert "leaked by history" in said(place, "hello", files=["link.txt"])  # a person has chosen it


# Races: a link is put in the place of what was checked.


def race(swap: Callable[[], None], look: Callable[[], str]) -> None:
    """Looks again and again while somebody swaps."""
    over = threading.Event()

    def swapping() -> None:
        while not over.is_set():
            swap()

    thread = threading.Thread(target=swapping)
    thread.start()
    try:
        for _ in range(TRIES):
            assert SECRET not in look()
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("way", ["instructions", "command", "attachment"])
def test_what_was_checked_is_what_is_read(tmp_path: Path, way: str, what: str) -> None:
    work = tmp_path / "work"
    for folder in (work / "secrets", work / ".polylect" / "commands", work / "part"):
        folder.mkdir(parents=True)
    name = "x.md"
    (work / "secrets" / name).write_text(SECRET)
    (work / "AGENTS.md").write_text(f"@part/{name}")
    folder = work / ".polylect" / "commands" if way == "command" else work / "part"
    (folder / name).write_text("harmless")
    target = folder / name if what == "file" else folder
    other = work / "secrets" / name if what == "file" else work / "secrets"
    link, aside = tmp_path / "link", tmp_path / "aside"

    def swap() -> None:
        link.symlink_to(other)
        target.rename(aside)
        link.rename(target)
        target.unlink()
        aside.rename(target)

    rules = parse("Read(secrets/**)", "deny", str(work), str(tmp_path))

    def fault(path: str) -> str:
        return reading_fault(rules, path)

    def look() -> str:
        if way == "instructions":
            return "".join(one.text for one in InstructionFiles(str(work), {"HOME": str(tmp_path)}).read(fault))
        if way == "command":
            files = find_prompt_files((str(tmp_path), str(work)), fault=fault)
            return "".join(file.text for file in files.values())
        try:
            return str(attachments.blocks("", [File(f"part/{name}")], str(work), fault))
        except AttachmentError:
            return ""

    race(swap, look)


def test_a_path_with_a_link_in_it_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "other").symlink_to("file")
    os.mkfifo(tmp_path / "real" / "pipe")
    root = os.path.realpath(tmp_path)
    os.close(open_resolved(f"{root}/real/file"))
    for path in ("link/file", "real/other", "real/pipe", "real", "real/missing"):
        with pytest.raises(OSError, match=r"."):
            open_resolved(f"{root}/{path}")


# What is no repository opens nothing to commands, and what lies in it is not told.


@pytest.mark.parametrize("git", ["empty", "of another user", "of a repository"])
def test_instructions_above_the_workspace_are_told_only_of_a_repository_of_the_users(place: Place, git: str) -> None:
    (place.workspace / "AGENTS.md").unlink()
    above = place.folder / ".git"
    above.mkdir()
    (place.folder / "AGENTS.md").write_text(SECRET)
    if git != "empty":
        make_git_directory(above)
    if git == "of another user":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        for path in (above, place.folder / "AGENTS.md"):
            os.chown(path, 65534, 65534)
    assert ("leaked by system" in said(place, "hello")) is (git == "of a repository")


def test_a_git_directory_that_is_none_is_not_made_writable(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / ".git").mkdir()
    assert list(git_paths(str(work))) == []
    make_git_directory(tmp_path / ".git")
    assert list(git_paths(str(work))) == [str(tmp_path / ".git")]
    if os.geteuid() == 0:
        os.chown(tmp_path / ".git", 65534, 65534)
        assert list(git_paths(str(work))) == []
