"""`make newest`: install the newest version of each peer from its registry and run the interop tests with it.

Shows what has changed in the programs that we drive and that drive us, before a user meets it. A version that cannot be
installed or does not start is named with the reason, and the one before it is tried. Nothing in the tree is changed:
the environment names the other versions to the tests. After a green run, set the pins (bench/peers.py,
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
from bench.peers import PINS, CannotInstall, Pin, installed, program  # noqa: E402
from scripts.interop import FROM_NPM, PINNED_BY  # noqa: E402


def main() -> int:
    pinned = {name: PINS[name].version for name in FROM_NPM}
    pinned |= {NODE_SDK: json.loads((NODE / "package.json").read_text())["dependencies"][NODE_SDK]}
    pinned |= {PYTHON_SDK: _first(r"(?m)^claude-agent-sdk==(\S+)", (ROOT / f"{PINNED_BY}claude.txt").read_text())}
    newest = {name: _newest(name, only_listed="--list" in sys.argv) for name in FROM_NPM}
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


def _newest(name: str, *, only_listed: bool) -> str:
    """The newest version of a peer that starts, or with `only_listed` the newest that the registry lists."""
    versions = newer_versions(PINS[name], json.loads(_output("npm", "view", PINS[name].package, "versions", "--json")))
    if only_listed:
        return next(iter(versions), PINS[name].version)
    for version in versions:
        if not (why_not := _why_not(name, version)):
            return version
        print(f"{name:<32} {version} does not start: {why_not}", flush=True)
    return PINS[name].version


def newer_versions(pin: Pin, versions: Sequence[str]) -> list[str]:
    """Those that are newer than the pinned one, the newest first. The major number is the same: peers that are pinned
    twice stand for two wires."""
    major = pin.version.partition(".")[0]
    released = [version for version in versions if re.fullmatch(rf"{major}(\.\d+)+", version)]
    return sorted((one for one in released if _numbers(one) > _numbers(pin.version)), key=_numbers, reverse=True)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _why_not(name: str, version: str) -> str:
    """Why a version of a peer cannot be used; empty if it can. Only omp and pi are started; tests tell of others."""
    pinned = PINS[name]
    PINS[name] = pinned._replace(version=version)
    try:
        installed(name)
        if not name.startswith(("omp", "pi")):
            return ""
        done = subprocess.run(
            [*program(name), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return done.stderr.strip()[-300:] or "it said nothing" if done.returncode else ""
    except CannotInstall as error:
        return str(error)
    finally:
        PINS[name] = pinned


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
