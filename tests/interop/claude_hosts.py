"""What the tests with the vendor's own hosts share: polylect under the name of claude, beside a model on loopback."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from interop.claude_model import Model, Step
from machine import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = os.environ["POLYLECT_INTEROP_CLAUDE"]
T = TypeVar("T")


def link(place: Path) -> Path:
    """The executable that a host is pointed at, made as a user would make it, once for all places beside this one."""
    folder = place.parent / "bin"
    if not folder.exists():
        argv = [sys.executable, "-m", "polylect", "link", "claude", str(folder)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=PATIENCE)
    return folder / "claude"


def env(place: Path, model: Model) -> dict[str, str]:
    """Nothing of the machine's own settings gets in."""
    return {
        "HOME": str(place),
        "POLYLECT_HOME": str(place / "state"),
        "XDG_CONFIG_HOME": str(place / "config"),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model.url,
    }


def play(script: dict[str, list[Step]], talk: Callable[[Model], Awaitable[T]]) -> T:
    """A conversation with a model that follows this script."""

    async def main() -> T:
        async with Model(script) as model:
            return await talk(model)

    return asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))
