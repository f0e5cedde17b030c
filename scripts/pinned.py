"""Installs sets of pinned packages that only some targets of the Makefile need, outside the tree.

Each set has a file of pins with hashes and is installed once, into a folder of its own below $POLYLECT_INTEROP_CACHE
(the user's cache, if that is not set). Other pins and other versions of Python have other folders. `make interop` and
`make docs` call this.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path


def cache_folder() -> Path:
    if named := os.environ.get("POLYLECT_INTEROP_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polylect-interop"


def installed(name: str, pins: Path) -> Path:
    """The folder with the packages that `pins` lists, to be named in PYTHONPATH. Exits if they cannot be installed."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    version = ".".join(map(str, sys.version_info[:2]))
    folder = cache / f"{name}-{version}-{sha256(pins.read_bytes()).hexdigest()[:16]}"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: the second waits here and then finds the work done
        if not folder.is_dir():
            _install(name, pins, folder)
    return folder


def _install(name: str, pins: Path, folder: Path) -> None:
    print(f"setup: installing the packages for {name} into {folder} (the first time may take a minute)", flush=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="begun-"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(unfinished)]
    code = subprocess.call([*pip, *options, "--requirement", str(pins)], stdin=subprocess.DEVNULL)
    if code != 0:
        shutil.rmtree(unfinished)
        sys.exit(f"{pins.name} cannot be installed (pip's exit code is {code}), so nothing was done")
    unfinished.rename(folder)
