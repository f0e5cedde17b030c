"""Install the peers that tests/interop needs, outside the tree, and run those tests.

Each interop-constraints-NAME.txt pins a set of Python packages. scripts/pinned.py installs it, and tests find it as
$POLYLECT_INTEROP_NAME. Peers from npm are those of bench/peers.py. A peer that cannot be installed fails the run: what
was not tried is never passed over in silence.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "interop"
ALL_EXAMPLES = ("--hypothesis-profile", "full")
PINNED_BY = "interop-constraints-"
FROM_NPM = (
    *("omp 13", "omp 18", "omp 18.3", "pi", "pi 0.87", "pi 1.5", "typescript"),
    *("acp sdk", "acpx", "claude-acp", "codex-acp", "copilot", "gemini", "goose", "kimi-code", "opencode", "qwen"),
    *("mcp sdk", "mcp filesystem", "mcp conformance"),
)

sys.path.insert(0, str(ROOT))
from bench import peers  # noqa: E402
from scripts.pinned import installed  # noqa: E402


def main() -> int:
    for pins in sorted(ROOT.glob(f"{PINNED_BY}*.txt")):
        name = pins.stem.removeprefix(PINNED_BY)
        variable = f"POLYLECT_INTEROP_{name.upper()}"
        if variable not in os.environ:  # scripts/newest.py names another folder
            os.environ[variable] = str(installed(name, pins))
    if sys.argv[1:] == ["--record"]:
        return record()
    for name in FROM_NPM:  # before the tests, which may not take that long
        try:
            peers.installed(name)
        except peers.CannotInstall as error:
            sys.exit(f"interop: {name} cannot be installed ({error}), so nothing was tried")
    return subprocess.call([sys.executable, "-m", "pytest", *ALL_EXAMPLES, str(FOLDER), *sys.argv[1:]], cwd=ROOT)


def record() -> int:
    """Ask the oracles about every recorded stream and write down what they say."""
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.environ["POLYLECT_INTEROP_ORACLES"]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.call([sys.executable, str(FOLDER / "record.py")], env=env)


if __name__ == "__main__":
    sys.exit(main())
