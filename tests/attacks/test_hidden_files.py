"""File tools ask for what the sandbox hides from commands. In the mode force nobody is asked, so they do not reach it.

The engines are real processes whose workspace is the home of a person with an ssh key.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import Engine, Place, message
from polylect.tools.process.programs import find_program

SECRET = "-----BEGIN KEY-----"


def _landlock() -> bool:
    try:
        from polylect.tools.sandbox.landlock import OLDEST, version

        return version() >= OLDEST
    except (ImportError, AttributeError, OSError):
        return False


SANDBOXES = [*(["landlock"] if _landlock() else []), *(["bwrap"] if find_program("bwrap", os.environ) else [])]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        (place.workspace / ".ssh").mkdir()
        (place.workspace / ".ssh" / "id_rsa").write_text(SECRET)
        yield place


def calls(*tools: tuple[str, dict[str, str]]) -> str:
    listed = ", ".join(
        f'{{ call = "{name}", args = {{ {", ".join(f"{key} = {json.dumps(args[key])}" for key in args)} }} }}'
        for name, args in tools
    )
    return f'[[reply]]\nwhen.step = 1\nsay = [{listed}]\n\n[[reply]]\ntext = "done"\n'


def started(place: Place, *tools: tuple[str, dict[str, str]], mode: str = "force") -> Engine:
    engine = place.started(*("--approval-mode", mode), script=calls(*tools), env={"HOME": str(place.workspace)})
    engine.send(message("go"))
    return engine


READ = ("Read", {"file_path": ".ssh/id_rsa"})


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_force_neither_reads_nor_writes_what_the_sandbox_hides(place: Place, sandbox: str) -> None:
    place.configure(f'[sandbox]\nmode = "{sandbox}"\n')
    write = ("Write", {"file_path": ".ssh/authorized_keys", "content": "mine"})
    edit = ("Edit", {"file_path": ".ssh/id_rsa", "old_string": "KEY", "new_string": "X"})
    inside = ("Write", {"file_path": "plain.txt", "content": "mine"})
    frames = started(place, READ, write, edit, inside).until("stream_end")
    denied = [frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"]
    assert len(denied) == 3
    for reason in denied:
        assert reason.startswith(f"the sandbox hides {place.workspace}/.ssh/")
        assert "[sandbox]" in reason
    assert SECRET not in json.dumps(frames)
    assert not (place.workspace / ".ssh" / "authorized_keys").exists()
    assert (place.workspace / ".ssh" / "id_rsa").read_text() == SECRET
    assert (place.workspace / "plain.txt").read_text() == "mine"


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("opened", ['sandbox.hidden = ["!~/.ssh"]', '[tools]\nallow = ["Read(~/.ssh/id_rsa)"]'])
def test_force_reads_what_the_settings_open(place: Place, sandbox: str, opened: str) -> None:
    place.configure(f'sandbox.mode = "{sandbox}"\n{opened}\n')
    assert SECRET in json.dumps(started(place, READ).until("stream_end"))


HIDDEN = {
    "Read": READ,
    "Read through a link": ("Read", {"file_path": "link/id_rsa"}),
    "Write": ("Write", {"file_path": ".ssh/authorized_keys", "content": "mine"}),
    "Edit": ("Edit", {"file_path": ".ssh/id_rsa", "old_string": "KEY", "new_string": "x"}),
    "Grep": ("Grep", {"pattern": "KEY", "path": ".ssh"}),
    "Glob": ("Glob", {"pattern": "*", "path": ".ssh"}),
}


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("tool", HIDDEN.values(), ids=HIDDEN.keys())
def test_another_mode_asks_for_what_the_sandbox_hides(
    place: Place, sandbox: str, tool: tuple[str, dict[str, str]]
) -> None:
    place.configure(f'[sandbox]\nmode = "{sandbox}"\n')
    (place.workspace / "link").symlink_to(".ssh")
    request = started(place, tool, mode="auto_edit").until("tool_request")[-1]
    assert request["tool"]["name"] == tool[0]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_search_of_all_finds_what_lies_beside_it_and_asks_for_nothing(place: Place, sandbox: str) -> None:
    place.configure(f'[sandbox]\nmode = "{sandbox}"\n')
    (place.workspace / "notes.txt").write_text("a KEY of mine\n")
    search = ("Grep", {"pattern": "KEY", "output_mode": "content"})
    frames = started(place, search, mode="auto_edit").until("stream_end")
    assert not [frame for frame in frames if frame["type"] == "tool_request"]
    assert "a KEY of mine" in json.dumps(frames)
    assert SECRET not in json.dumps(frames)
