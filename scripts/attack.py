"""Attack polylect for long: tests/attacks with as many tries as people trust, where `make test` has few. `make attack`.

Each part is one run of pytest with its own `POLYLECT_ATTACK_TRIES`. A part that fails does not keep the others from
running; the exit code is 1 then. `-k NAME` and other words are handed on to pytest, for every part.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "attacks"
NOTHING_CHOSEN = 5
"""pytest's exit code where `-k` leaves nothing of a part."""
LANDLOCK = "from polylect.tools.sandbox.landlock import OLDEST, version; raise SystemExit(version() < OLDEST)"


class Part(NamedTuple):
    file: str
    tries: int
    unit: str
    """What one try is."""


PARTS = (
    Part("test_command_lines.py", 100_000, "allowed command lines, each run in a real bash"),
    Part("test_model_servers.py", 1000, "behaviours of model servers at most: all that there are"),
    Part("test_link_races.py", 2000, "tries of each race, in each sandbox"),
    Part("test_instruction_files.py", 2000, "tries of each race"),
    Part("test_mcp_servers.py", 1, "large answers of every kind over HTTP, and the rest of the file"),
    Part("test_hook_input.py", 2000, "calls judged while their input is attacked"),
    Part("test_large_replies.py", 100, "calls, or megabytes of text, in one reply"),
    Part("test_deafness.py", 100, "times three replies of generated calls; each hostile call is watched for 5 s"),
)


def main() -> int:
    print_sandboxes()
    began, failed = time.monotonic(), list[str]()
    others = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in {part.file for part in PARTS})
    for part in PARTS:
        held = run([part.file], f"{part.tries:,} {part.unit}", {"POLYLECT_ATTACK_TRIES": str(part.tries)})
        failed += [] if held else [part.file]
    held = run(others, f"{len(others)} files that have no number of tries", {})
    failed += [] if held else ["the others"]
    took = time.monotonic() - began
    print(f"attack: {took / 60:.1f} min in all; " + (f"FAILED: {', '.join(failed)}" if failed else "everything held"))
    return bool(failed)


def print_sandboxes() -> None:
    """What was not there was not attacked; that is said before anything else."""
    if shutil.which("bwrap"):
        print("attack: bubblewrap is there")
    else:
        print("attack: bubblewrap is NOT there, so nothing is tried in it; apt, dnf or apk install bubblewrap")
    there = sys.platform == "linux" and subprocess.run([sys.executable, "-c", LANDLOCK], check=False).returncode == 0
    print(f"attack: Landlock is {'there' if there else 'NOT there: it takes Linux 6.2 or later'}")
    other = os.name == "posix" and os.geteuid() == 0 and shutil.which("setpriv")
    print(f"attack: another user is {'there' if other else 'NOT there: that takes root and setpriv'}")


def run(files: list[str], what: str, env: dict[str, str]) -> bool:
    """Whether everything held."""
    name = files[0] if len(files) == 1 else "the others"
    print(f"attack: {name}: {what} ...", flush=True)
    began = time.monotonic()
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "auto",
        "--maxprocesses",
        "4",
        "--dist",
        "worksteal",
        "-v",
        "--no-header",
    ]
    argv += ["--hypothesis-profile", "search", *(str(FOLDER / file) for file in files), *sys.argv[1:]]
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    held = done.returncode in (0, NOTHING_CHOSEN)
    if not held:
        print(done.stdout[-20_000:] + done.stderr[-5000:])
    last = done.stdout.strip().rpartition("\n")[2]
    summary = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", last) or ["nothing"]
    print(f"attack: {name}: {', '.join(summary)} in {time.monotonic() - began:.0f} s", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main())
