"""Install the peers that tests/interop needs, outside the tree, and run those tests.

Each interop-constraints-NAME.txt pins a set of Python packages. It is installed once, into a folder of its own below
$POLYLECT_INTEROP_CACHE (the user's cache, if that is not set), and tests find it as $POLYLECT_INTEROP_NAME. Peers
from npm are those of bench/peers.py. A peer that cannot be installed fails the run: what was not tried is never passed
over in silence.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "interop"
PINS = "interop-constraints-"
FROM_NPM = ("omp 13", "omp 18", "pi")

sys.path.insert(0, str(ROOT))
from bench import peers  # noqa: E402


def main() -> int:
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    for pins in sorted(ROOT.glob(f"{PINS}*.txt")):
        name = pins.stem.removeprefix(PINS)
        os.environ[f"POLYLECT_INTEROP_{name.upper()}"] = str(installed(name, pins, cache))
    if sys.argv[1:] == ["--record"]:
        return record()
    for name in FROM_NPM:  # before the tests, which may not take that long
        try:
            peers.installed(name)
        except peers.CannotInstall as error:
            sys.exit(f"interop: {name} cannot be installed ({error}), so nothing was tried")
    return subprocess.call([sys.executable, "-m", "pytest", str(FOLDER), *sys.argv[1:]], cwd=ROOT)


def record() -> int:
    """Ask the oracles about every recorded stream and write down what they say."""
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.environ["POLYLECT_INTEROP_ORACLES"]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.call([sys.executable, str(FOLDER / "record.py")], env=env)


def cache_folder() -> Path:
    if named := os.environ.get("POLYLECT_INTEROP_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polylect-interop"


def installed(name: str, pins: Path, cache: Path) -> Path:
    """Where the pinned packages are. Other pins and other Pythons have other folders."""
    version = ".".join(map(str, sys.version_info[:2]))
    folder = cache / f"{name}-{version}-{sha256(pins.read_bytes()).hexdigest()[:16]}"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: the second waits here and then finds the work done
        if not folder.is_dir():
            install(name, pins, folder)
    return folder


def install(name: str, pins: Path, folder: Path) -> None:
    print(f"interop: installing the {name} into {folder} (the first time may take a minute)", flush=True)
    begun = Path(tempfile.mkdtemp(dir=folder.parent, prefix="begun-"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    how = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]  # what is not pinned is not wanted
    told = [*how, "--target", str(begun), "--requirement", str(pins)]
    code = subprocess.call([*pip, *told], stdin=subprocess.DEVNULL)
    if code != 0:
        shutil.rmtree(begun)
        sys.exit(f"interop: {pins.name} cannot be installed (pip's exit code is {code}), so nothing was tried")
    begun.rename(folder)


if __name__ == "__main__":
    sys.exit(main())
