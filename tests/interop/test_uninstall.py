"""An installed wheel leaves nothing behind that could be imported, when pip takes it away."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import httptools
import msgspec

from machine import PATIENCE

_SOURCES = Path(__file__).parents[2] / "src" / "polylect"


def test_nothing_can_be_imported_after_an_uninstall(tmp_path: Path) -> None:
    """From a wheel, in a venv that finds the dependencies in this one."""
    tools = Path(sys.prefix) / "bin" / "python"
    env = {"PATH": os.defpath, "HOME": str(tmp_path)}

    def do(*argv: object, cwd: Path = tmp_path, check: bool = True) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in argv]
        return subprocess.run(words, capture_output=True, text=True, env=env, cwd=cwd, timeout=PATIENCE, check=check)

    shutil.copytree(_SOURCES.parents[1], tmp_path / "tree", ignore=_not_in_a_wheel)
    do(tools, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=tmp_path / "tree")
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    packages = Path(do(python, "-c", "import site; print(site.getsitepackages()[0])").stdout.strip())
    for needed in (msgspec, httptools):
        (packages / needed.__name__).symlink_to(Path(needed.__file__).parent)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    pip = (tools, "-m", "pip", "--python", python, "--disable-pip-version-check")
    do(*pip, "install", "--no-deps", "--no-index", wheel)
    do(python, "-m", "polylect.app.startup.packed")
    assert list((packages / "__pycache__").glob("polylect.*"))
    do(*pip, "uninstall", "--yes", "polylect")
    assert "No module named 'polylect'" in do(python, "-c", "import polylect", check=False).stderr
    assert [path.name for path in packages.glob("polylect*")] == []


def _not_in_a_wheel(folder: str, names: list[str]) -> set[str]:
    if Path(folder) == _SOURCES.parents[1]:
        return set(names) - {"src", "examples", "pyproject.toml", "README.md", "LICENSE"}
    return {"__pycache__"} & set(names)
