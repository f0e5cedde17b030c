"""Write constraints.txt: one version of everything `make` installs, with the hashes of all its files.

    .venv/bin/python scripts/pin.py            keep what is pinned, add or drop what pyproject.toml says
    .venv/bin/python scripts/pin.py --upgrade  take the newest versions

The resolver is uv, fetched by pip into a temporary folder; `make` itself never needs it.
"""

import subprocess
import sys
import tempfile
import venv
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
HEADER = "# Written by scripts/pin.py. Versions and hashes for every platform; Python 3.11 and later.\n"
COMPILE = [
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
    *("--extra", "dev", "pyproject.toml", "--output-file", str(TARGET)),
]
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "x86_64-apple-darwin", "aarch64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        subprocess.run([f"{folder}/bin/uv", *COMPILE, *sys.argv[1:]], cwd=ROOT, check=True)
        for platform, python in product(PLATFORMS, PYTHONS):
            check_wheels(f"{folder}/bin/uv", platform, python)
    pins = TARGET.read_text()
    if "://" in pins:
        sys.exit("constraints.txt has an address in it: it must install from wherever pip is told to look")
    TARGET.write_text(HEADER + pins)
    packages = [line for line in pins.splitlines() if not line.startswith(" ")]
    print(f"{len(packages)} packages, {pins.count('--hash')} hashes in {TARGET.name}")


def check_wheels(uv: str, platform: str, python: str) -> None:
    """Fail where something would have to be built from source: a plain machine has no compiler."""
    install = [uv, "pip", "install", "--quiet", "--dry-run", "--require-hashes", "--only-binary", ":all:"]
    where = ["--python-platform", platform, "--python-version", python, "--target", f"{uv}-target"]
    subprocess.run([*install, *where, "-r", str(TARGET)], check=True)


if __name__ == "__main__":
    main()
