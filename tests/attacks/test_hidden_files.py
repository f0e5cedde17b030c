"""File tools ask for what the sandbox keeps from commands. In the mode force nobody is asked, so they do not reach it.

The engines are real processes whose workspace is the home of a person with an ssh key.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.outside import folder_outside
from engine_process import Engine, Place, message
from polylect.tools.process.programs import find_program

pytestmark = pytest.mark.long

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


# What the sandbox does not let commands write.


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder of the user's where commands may not write; the temporary folders of tests are open to them."""
    with folder_outside() as folder:
        (folder / ".bashrc").write_text("clean")
        yield folder


def changes(folder: Path) -> list[tuple[str, dict[str, str]]]:
    startup = str(folder / ".bashrc")
    return [
        ("Write", {"file_path": str(folder / "new"), "content": "mine"}),
        ("Edit", {"file_path": startup, "old_string": "clean", "new_string": "mine"}),
        ("MultiEdit", {"file_path": startup, "edits": '[{"old_string": "clean", "new_string": "mine"}]'}),
    ]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_force_writes_nothing_that_a_command_could_not(place: Place, elsewhere: Path, sandbox: str) -> None:
    place.configure(f'[sandbox]\nmode = "{sandbox}"\n')
    read = ("Read", {"file_path": str(elsewhere / ".bashrc")})
    frames = started(place, read, *changes(elsewhere)).until("stream_end")
    denied = [frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"]
    assert len(denied) == 3
    for reason in denied:
        assert reason.startswith(f"the sandbox does not let commands write {elsewhere}/")
        assert "`writable` in [sandbox]" in reason
    assert [frame["status"] for frame in frames if frame["type"] == "tool_result"][:1] == ["success"]
    assert [path.name for path in elsewhere.iterdir()] == [".bashrc"]
    assert (elsewhere / ".bashrc").read_text() == "clean"


@pytest.mark.parametrize("opened", ["writable", "rule", "off"])
def test_force_writes_what_the_settings_open(place: Place, elsewhere: Path, opened: str) -> None:
    settings = {
        "writable": f'[sandbox]\nwritable = ["{elsewhere}"]\n',
        "rule": f'[tools]\nallow = ["Edit(/{elsewhere}/**)"]\n',
        "off": '[sandbox]\nmode = "off"\n',
    }
    place.configure(settings[opened])
    started(place, changes(elsewhere)[0]).until("stream_end")
    assert (elsewhere / "new").read_text() == "mine"


def test_omp_and_claude_write_nothing_either_that_a_command_could_not(place: Place, elsewhere: Path) -> None:
    played = place.script(calls(changes(elsewhere)[0]))
    omp = place.run("--mode", "rpc", *played, given=b'{"type": "prompt", "message": "go"}\n')
    assert b"does not let commands write" in omp.out
    flags = ("--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions")
    claude = place.run("-p", "go", *flags, *played)
    assert b"does not let commands write" in claude.out, claude.errors
    assert not (elsewhere / "new").exists()


# Files that run code later, where the home is the workspace.

STARTUP = (".bashrc", ".ssh/authorized_keys", ".config/autostart/a.desktop", ".config/fish/config.fish", "bin/ls")


@pytest.mark.parametrize("sandbox", ["off", *SANDBOXES])
@pytest.mark.parametrize("name", STARTUP)
@pytest.mark.parametrize("above", [False, True])
def test_a_startup_file_of_the_home_is_asked_for(place: Place, sandbox: str, name: str, above: bool) -> None:
    place.configure(f'[sandbox]\nmode = "{sandbox}"\n')
    home = place.workspace / "me" if above else place.workspace
    write = ("Write", {"file_path": str(home / name), "content": "mine"})
    plain = ("Write", {"file_path": str(home / "notes.txt"), "content": "mine"})
    flags = ("--approval-mode", "auto_edit")
    engine = place.started(*flags, script=calls(plain, write), env={"HOME": str(home)})
    engine.send(message("go"))
    requested = engine.until("tool_request")[-1]
    assert requested["tool"]["args"]["file_path"] == str(home / name)
    engine.send({"type": "tool_deny", "call_id": requested["call_id"], "reason": "no"})
    engine.until("stream_end")
    assert not (home / name).exists()
    assert (home / "notes.txt").read_text() == "mine"
