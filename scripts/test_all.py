"""Run the tests on every Python from 3.11 found on PATH or kept by pyenv, each in an environment of its own.

Properties are tried with all examples, of which `make test` tries a quarter (`tests/thoroughness.py`).
"""

import glob
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = 11, 15
ALL_EXAMPLES = ("--hypothesis-profile", "full")
WHICH = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"


def main() -> int:
    results = {version: run_tests(version, python) for version, python in sorted(found().items())}
    for version, passed in results.items():
        print(f"python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if results and all(results.values()) else 1


def found() -> dict[str, str]:
    """The interpreters that really run, by version: a pyenv shim may be on PATH and refuse."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    pythons: dict[str, str] = {}
    for minor in range(OLDEST, NEWEST + 1):
        for candidate in (f"python3.{minor}", *sorted(glob.glob(f"{pyenv}/versions/3.{minor}.*/bin/python3"))):
            if answer := ask(candidate):
                version, executable = answer.split(" ", 1)
                pythons.setdefault(version, executable)
    return pythons


def ask(python: str) -> str:
    try:
        return subprocess.run([python, "-c", WHICH], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run_tests(version: str, python: str) -> bool:
    print(f"== python {version}", flush=True)
    venv = ROOT / ".make" / f"python{version}"
    own = [str(venv / "bin" / "python"), "-m"]
    test = [*own, "pytest", *ALL_EXAMPLES]
    commands = [[python, "scripts/prepare.py", str(venv)], [*own, "compileall", "-q", "src"], test]
    return all(subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands)


if __name__ == "__main__":
    sys.exit(main())
