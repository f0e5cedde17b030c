"""The examples of the README run as they stand there, against the real engine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place, launcher

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NATIVE = (ROOT / "docs" / "native.md").read_text(encoding="utf-8")


def example(name: str, page: str = README) -> str:
    actual = re.search(rf"<!-- example: {name} -->\s*```\w*\n(.*?)```", page, re.DOTALL)
    assert actual, f"the page has no example: {name}"
    return actual[1]


def run(argv: list[str], folder: Path) -> str:
    """As a host author would, with `polylect` first on PATH and a file in the folder."""
    place = Place(folder)
    (place.workspace / "notes.txt").write_text("nothing much\n")
    program = folder / "bin" / "polylect"
    program.parent.mkdir()
    program.write_text(launcher())
    program.chmod(0o755)
    env = {**place.env, "PATH": f"{program.parent}{os.pathsep}{place.env['PATH']}"}
    done = subprocess.run(
        argv, cwd=place.workspace, env=env, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def reported(output: str) -> bool:
    """Text came, tools were asked for and ran, and the turn ended well."""
    steps = (r"First I look around", r"\[Glob: success\]", r"\[allow [^\]]+\]", r"\[stop")
    return bool(re.search(".*".join(steps), output, re.DOTALL)) and "error" not in output


def test_the_python_example_drives_a_whole_turn(tmp_path: Path) -> None:
    assert reported(run([sys.executable, "-c", example("python")], tmp_path))


def test_the_example_of_the_native_wire_drives_a_whole_turn(tmp_path: Path) -> None:
    output = run([sys.executable, "-c", example("python", NATIVE)], tmp_path)
    assert re.search(r"First I look around.*\[Glob: ok\].*\[allow [^\]]+\].*\[end\]", output, re.DOTALL)


def test_the_example_of_the_sdk_drives_a_whole_turn(tmp_path: Path) -> None:
    output = run([sys.executable, "-c", example("sdk")], tmp_path)
    assert re.search(r"First I look around.*\[allow [^\]]+\].*That is all", output, re.DOTALL)


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node on this machine")
def test_the_node_example_drives_a_whole_turn(tmp_path: Path) -> None:
    path = tmp_path / "example.mjs"
    path.write_text(example("node"))
    assert reported(run(["node", str(path)], tmp_path))


@pytest.mark.parametrize("name", ["python", "node"])
def test_an_example_is_about_thirty_lines(name: str) -> None:
    assert len(example(name).splitlines()) <= 36


def test_every_file_that_the_readme_points_to_exists() -> None:
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (root / link).exists()] == []
