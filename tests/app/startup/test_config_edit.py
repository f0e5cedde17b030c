"""A server is added to a config.toml and removed from it, and nothing else in the file changes."""

import os
import stat
import threading
import tomllib
from pathlib import Path

import pytest

from polylect.app.startup.config import ConfigError
from polylect.app.startup.config_edit import EditRefused, add_server, remove_server, server_block

OWN = """\
# My settings.
[default]
model = "m"  # the cheap one

[mcp]
wait = 20

# The files.
[mcp.servers.files]
command = "npx"
args = [
    "server",  # of npm
]
# cwd = "private"

[mcp.servers.files.env]
KEY = "${KEY}"

# The tracker.
[mcp.servers."my tracker"]
url = "https://tracker.example/mcp"
"""
WITHOUT_FILES = """\
# My settings.
[default]
model = "m"  # the cheap one

[mcp]
wait = 20

# The files.
# cwd = "private"

# The tracker.
[mcp.servers."my tracker"]
url = "https://tracker.example/mcp"
"""
STRANGE = {"command": 'a "b" \\ \n\x7f é 😀', "args": ["", "${X}"], "env": {"A B": "1", "c": "'"}, "deferred": True}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_a_server_is_appended_and_all_else_stays(path: Path) -> None:
    path.write_text(OWN)
    add_server(str(path), "new", {"command": "x"})
    assert path.read_text() == f'{OWN}\n[mcp.servers.new]\ncommand = "x"\n'
    remove_server(str(path), "new")
    assert path.read_text() == OWN


def test_any_text_can_be_written(path: Path) -> None:
    add_server(str(path), "a.b", STRANGE)
    assert tomllib.loads(path.read_text()) == {"mcp": {"servers": {"a.b": STRANGE}}}
    remove_server(str(path), "a.b")
    assert path.read_text().strip() == ""


def test_a_server_is_removed_with_the_tables_below_it_and_comments_stay(path: Path) -> None:
    path.write_text(OWN)
    remove_server(str(path), "files")
    assert path.read_text() == WITHOUT_FILES
    remove_server(str(path), "my tracker")
    assert path.read_text() == WITHOUT_FILES.partition('[mcp.servers."my')[0]


def test_line_ends_of_another_system_stay(path: Path) -> None:
    path.write_bytes(OWN.replace("\n", "\r\n").encode())
    add_server(str(path), "new", {"command": "x"})
    remove_server(str(path), "files")
    text = path.read_bytes().decode()
    assert text == f'{WITHOUT_FILES}\n[mcp.servers.new]\ncommand = "x"\n'.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'mcp = { servers = { files = { command = "x" } } }\n',
        '[mcp]\nservers = { files = { command = "x" } }\n',
        '[mcp.servers]\nfiles.command = "x"\n',
        'mcp.servers.files.command = "x"\n',
        '[default]\nsystem_prompt = """\n[mcp.servers.files]\n"""\n[mcp.servers]\nfiles = { command = "x" }\n',
        '[mcp.servers.files]\ncommand = "x"\nargs = [\n  [1]\n]\nurl = "y"\n',
    ],
)
def test_what_cannot_be_removed_safely_is_left_to_the_person(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(EditRefused, match="remove it there yourself"):
        remove_server(str(path), "files")
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["mcp = { wait = 5 }\n", '[mcp]\nservers = { files = { command = "x" } }\n'])
def test_what_cannot_be_added_safely_is_shown_to_be_written_by_hand(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(EditRefused) as refused:
        add_server(str(path), "new", {"command": "x"})
    assert server_block("new", {"command": "x"}) in str(refused.value)
    assert path.read_text() == text


def test_names_that_are_taken_or_not_there_are_refused(path: Path) -> None:
    path.write_text(OWN)
    with pytest.raises(EditRefused, match="there is a server files"):
        add_server(str(path), "files", {"command": "x"})
    with pytest.raises(EditRefused, match="there is no server fils"):
        remove_server(str(path), "fils")
    path.write_text("not toml")
    with pytest.raises(ConfigError):
        add_server(str(path), "new", {"command": "x"})
    assert path.read_text() == "not toml"


def test_a_new_file_is_the_users_alone_and_an_old_one_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    add_server(str(path), "a", {"command": "x"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    add_server(str(link), "b", {"command": "x"})
    assert (link.is_symlink(), stat.S_IMODE(path.stat().st_mode)) == (True, 0o640)
    assert list(tomllib.loads(path.read_text())["mcp"]["servers"]) == ["a", "b"]
    assert os.listdir(path.parent) == ["config.toml"]


def test_edits_at_the_same_time_are_all_there(path: Path) -> None:
    threads = [
        threading.Thread(target=add_server, args=(str(path), f"s{number}", {"command": "x"})) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tomllib.loads(path.read_text())["mcp"]["servers"]) == 20
