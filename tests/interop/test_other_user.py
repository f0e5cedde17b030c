"""Some attacks once more, as a user who is not root: rights that only root has must not be what holds.

`setpriv` becomes the other user. It gets a home and a folder for temporary files of its own, and a virtual environment
of a Python that it can run: that of the tests may lie in a home that is closed to others. What cannot be tried is
skipped with a warning, which pytest prints at the end.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine import PATIENCE

pytestmark = pytest.mark.interop

OTHER = 65534
ROOT = Path(__file__).resolve().parents[2]
FILES = (
    *(
        "test_link_races.py",
        "test_hook_input.py",
        "test_hidden_files.py",
        "test_instruction_files.py",
        "test_session_gone.py",
    ),
    *("test_child_environment.py", "test_tool_arguments.py", "test_terminal_escapes.py"),
)
VERSION = "{}.{}".format(*sys.version_info)
BECOME = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "/bin/sh", "-c", 'exec "$0" "$@"')
"""The shell is there because setpriv itself is still root when it starts a program."""


def skip(why: str) -> None:
    warnings.warn(f"NOT TRIED as another user: {why}", stacklevel=2)
    pytest.skip(why)


def run_as_other(folder: Path, *argv: str | Path) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary")}
    words = [*BECOME, *map(str, argv)]
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)


def interpreter(folder: Path) -> str:
    """A Python of this version that the other user can run, standard library and all; empty if there is none."""
    named = (sys.executable, f"/usr/bin/python{VERSION}", f"/usr/local/bin/python{VERSION}", "/usr/bin/python3")
    same = f"import json, sys, venv; sys.exit('{{}}.{{}}'.format(*sys.version_info) != {VERSION!r})"
    return next((path for path in named if run_as_other(folder, path, "-c", same).returncode == 0), "")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the other user. pytest's own folder is closed to others."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        skip("it takes root and setpriv to become somebody else")
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="other-")))
    try:
        for path in (folder, folder / "home", folder / "temporary"):
            path.mkdir(exist_ok=True)
            os.chown(path, OTHER, OTHER)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_attacks_hold_for_who_is_not_root(folder: Path) -> None:
    packages = sysconfig.get_path("purelib")
    for needed in (ROOT / "tests" / "attacks", packages):
        if run_as_other(folder, "/bin/ls", needed).returncode:
            skip(f"uid {OTHER} cannot read {needed}; let others read the tree, or keep it elsewhere")
    python = interpreter(folder)
    if not python:
        skip(f"uid {OTHER} can run no Python {VERSION}; install one in /usr or /usr/local")
    made = run_as_other(folder, python, "-m", "venv", "--without-pip", folder / "venv")
    assert made.returncode == 0, made.stderr
    own = folder / "venv" / "lib" / f"python{VERSION}" / "site-packages"
    (own / "borrowed.pth").write_text(f"{packages}\n")
    tests = [ROOT / "tests" / "attacks" / file for file in FILES]
    options = ("-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal", "-v", "--tb=short")
    done = run_as_other(folder, folder / "venv" / "bin" / "python", "-m", "pytest", *options, *tests)
    print(done.stdout[-300:])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
