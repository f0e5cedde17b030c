"""Puts scripted peers on PATH, under the names of the programs that they stand for."""

import os
import shlex
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MODULES = {"aionrs": "peers.aionrs", "wayland-core": "peers.wayland_core"}


def path_with(name: str, folder: Path) -> str:
    """A PATH on which `name` is the scripted peer. Its launcher is written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / name
    python, tests = shlex.quote(sys.executable), shlex.quote(str(TESTS))
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={tests} exec {python} -m {MODULES[name]} "$@"\n')
    launcher.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
