"""`make newest`: install the newest version of each peer from its registry and run the interop tests with it.

Shows what has changed in the programs that we drive and that drive us, before a user meets it. Nothing in the tree is
changed: the environment names the other versions to the tests. After a green run, set the pins (bench/peers.py,
interop-constraints-claude.txt, tests/interop/claude_node) and the table in src/polylect/app/cli/tried_versions.py to
what was printed here.

    make newest                    every peer of `make interop`
    scripts/newest.py --list       only compare the pins with what is newest
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE = ROOT / "tests" / "interop" / "claude_node"
NODE_SDK = "@anthropic-ai/claude-agent-sdk"
PYTHON_SDK = "claude-agent-sdk"

sys.path.insert(0, str(ROOT))
from bench.peers import PINS, Pin  # noqa: E402
from scripts.interop import FROM_NPM, PINNED_BY  # noqa: E402


def main() -> int:
    pinned = {name: PINS[name].version for name in FROM_NPM}
    pinned |= {NODE_SDK: json.loads((NODE / "package.json").read_text())["dependencies"][NODE_SDK]}
    pinned |= {PYTHON_SDK: _first(r"(?m)^claude-agent-sdk==(\S+)", (ROOT / f"{PINNED_BY}claude.txt").read_text())}
    newest = {name: _newest_from_npm(PINS[name]) for name in FROM_NPM}
    newest |= {NODE_SDK: json.loads(_output("npm", "view", NODE_SDK, "version", "--json"))}
    newest |= {PYTHON_SDK: _first(r"\((\S+)\)", _output(*_pip("index", "versions"), PYTHON_SDK))}
    for name, version in newest.items():
        print(f"{name:<32} pinned {pinned[name]:<10} newest {version}", flush=True)
    moved = {name: version for name, version in newest.items() if version != pinned[name]}
    if "--list" in sys.argv or not moved:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, **_environment(moved, Path(folder))}
        return subprocess.call([sys.executable, str(ROOT / "scripts" / "interop.py")], env=env)


def _environment(moved: dict[str, str], folder: Path) -> dict[str, str]:
    """The variables by which the tests find the newer versions, which are installed here if nothing else does it."""
    env = {"POLYLECT_PEERS": json.dumps({name: version for name, version in moved.items() if name in PINS})}
    if version := moved.get(PYTHON_SDK):
        env["POLYLECT_INTEROP_CLAUDE"] = str(folder / "python")
        _output(*_pip("install", "--quiet", "--target", str(folder / "python")), f"{PYTHON_SDK}=={version}")
    if version := moved.get(NODE_SDK):
        env["POLYLECT_INTEROP_CLAUDE_NODE"] = str(folder / "node")
        (folder / "node").mkdir()
        package = json.loads((NODE / "package.json").read_text())
        package["dependencies"][NODE_SDK] = version
        (folder / "node" / "package.json").write_text(json.dumps(package))
        _output("npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", cwd=folder / "node")
    return env


def _newest_from_npm(pin: Pin) -> str:
    """The newest version with the same major number: peers that are pinned twice stand for two wires."""
    major = pin.version.partition(".")[0]
    versions: list[str] = json.loads(_output("npm", "view", pin.package, "versions", "--json"))
    released = [version for version in versions if re.fullmatch(rf"{major}(\.\d+)+", version)]
    return max(released, key=lambda version: [int(part) for part in version.split(".")])


def _pip(*words: str) -> Sequence[str]:
    return (sys.executable, "-m", "pip", "--disable-pip-version-check", *words)


def _output(*argv: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"newest: {' '.join(argv)} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else "?"


if __name__ == "__main__":
    sys.exit(main())
