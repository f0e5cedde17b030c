"""Standing in for another engine: the program under its name, and the answers to that program's other flags."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place, launcher
from polylect.app.cli.link import _shebang


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def bare(place: Place, folder: Path) -> dict[str, str]:
    """Without anything of Python's, as hosts start their engines."""
    return {"PATH": f"{folder}{os.pathsep}{os.defpath}", "HOME": str(place.folder)}


def run(place: Place, *argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = bare(place, folder)
    return subprocess.run(
        ["/usr/bin/env", *argv],
        cwd=place.workspace,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("name", ["aionrs", "wayland-core", "wcore"])
def test_started_as_a_module_it_makes_a_script_that_needs_no_environment(place: Place, name: str) -> None:
    folder = place.folder / "with space"
    for _ in range(2):  # once more is no mistake
        assert place.run("link", name, str(folder)).code == 0
    done = run(place, name, "--version", folder=folder)
    assert (done.returncode, done.stdout.split()[0]) == (0, name)


def test_started_as_a_program_it_makes_a_symbolic_link(place: Place) -> None:
    program = place.folder / "polylect"
    program.write_text(launcher())
    program.chmod(0o755)
    folder = place.folder / "links"
    subprocess.run(
        [program, "link", "aionrs", folder], env=place.env, check=True, capture_output=True, timeout=PATIENCE
    )
    assert (folder / "aionrs").resolve() == program.resolve()


def test_what_is_not_ours_is_left_alone(place: Place) -> None:
    theirs = place.folder / "aionrs"
    theirs.write_text("theirs")
    done = place.run("link", "aionrs", str(place.folder))
    assert (done.code, theirs.read_text()) == (1, "theirs")
    assert "File exists" in done.errors


def test_a_python_that_the_kernel_cannot_start_is_started_by_a_shell(tmp_path: Path) -> None:
    python = tmp_path / "a folder" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = tmp_path / "script"
    script.write_text(f"{_shebang(str(python))}\nimport sys\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    done = subprocess.run([script, "a b", "c"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "['a b', 'c']\n"


def test_where_the_settings_are(place: Place) -> None:
    assert place.run("--config-path").out.decode().strip() == str(place.settings)


def test_settings_are_begun_once_and_then_left_alone(place: Place) -> None:
    assert place.run("--init-config").code == 0
    assert place.settings.read_text().startswith("# Settings of polylect")
    place.settings.write_text('[default]\nmodel = "mine"\n')
    assert "left as it is" in place.run("--init-config").out.decode()
    assert "mine" in place.settings.read_text()
    assert place.run("--json-stream").code == 0


def test_aionrs_has_subcommands_for_these(place: Place) -> None:
    folder = place.folder / "bin"
    assert place.run("link", "aionrs", str(folder)).code == 0
    settings = place.folder / ".config" / "polylect" / "config.toml"
    assert run(place, "aionrs", "config", "path", folder=folder).stdout == f"{settings}\n"
    assert run(place, "aionrs", "config", "init", folder=folder).stdout == f"{settings}\n"
    assert run(place, "aionrs", "skills", "path", folder=folder).stdout == f"{settings.parent / 'skills'}\n"
    assert run(place, "aionrs", "session", "list", folder=folder).returncode == 0
    assert run(place, "aionrs", "help", folder=folder).stdout.startswith("polylect: ")
    login = run(place, "aionrs", "auth", "login", folder=folder)
    assert (login.returncode, login.stdout) == (2, "")
    assert "run polylect login" in login.stderr


def test_which_sessions_there_are_the_latest_first(place: Place) -> None:
    assert place.run("--list-sessions").out == b""
    hello = b'{"type":"message","msg_id":"m1","content":"Hello"}\n'
    for session in ("first", "second"):
        place.run("--json-stream", "--session-id", session, given=hello)
    os.utime(place.sessions / "first" / "log.jsonl", (1, 1))
    listed = place.run("--list-sessions").out.decode().splitlines()
    assert [line.split(maxsplit=2)[1:] for line in listed] == [
        ["second", str(place.workspace)],
        ["first", str(place.workspace)],
    ]


def test_the_folder_that_is_printed_is_absolute_and_a_wrong_name_gets_the_nearest(place: Place) -> None:
    out = place.run("link", "omp", "links").out.decode()
    assert f"Put {place.workspace / 'links'} first" in out
    done = place.run("link", "cluade", "links")
    assert done.code == 2
    assert "did you mean claude?" in done.errors
