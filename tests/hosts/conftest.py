"""What the hosts' tests share: programs made by `polylect link`, and a place of one's own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place

_SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `aionrs`, `wayland-core` and `wcore` in it, as a user would make it."""
    folder = tmp_path_factory.mktemp("programs")
    env = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": _SOURCES}
    for name in ("aionrs", "wayland-core", "wcore"):
        argv = [sys.executable, "-m", "polylect", "link", name, str(folder)]
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=PATIENCE)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place
