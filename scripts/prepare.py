"""Make or refresh a virtual environment with everything constraints.txt pins and polylect itself, editable.

Only the standard library, and syntax that an old Python can read, so that it can say what is wrong with that Python.
"""

import fcntl
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INPUTS = ("pyproject.toml", "constraints.txt", "scripts/prepare.py")
VERSION = ".".join(map(str, sys.version_info[:3]))


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036, this is the place that finds out
        sys.exit(f"polylect needs Python 3.11 or later and this is {VERSION}; say: make PYTHON=python3.12 ...")
    venv = os.path.abspath(sys.argv[1])
    os.makedirs(f"{ROOT}/.make", exist_ok=True)
    with open(f"{ROOT}/.make/lock", "w") as lock:
        # Two makes at once: the second waits here and then finds the work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_fresh(venv):
            prepare(venv)


def is_fresh(venv: str) -> bool:
    if not os.path.exists(f"{venv}/.ready") or not os.path.exists(f"{venv}/bin/python"):
        return False
    made = os.path.getmtime(f"{venv}/.ready")
    return all(os.path.getmtime(f"{ROOT}/{name}") <= made for name in INPUTS)


def prepare(venv: str) -> None:
    began = time.time()
    name, python = os.path.relpath(venv, ROOT), f"{venv}/bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not works(python):
        say(f"making {name} with Python {VERSION}")
        run([sys.executable, "-m", "venv", "--clear", venv])
    say("installing the pinned dependencies (the first time may take a minute)")
    run([*pip, "install", "--require-hashes", "-r", "constraints.txt"])
    say("installing polylect, editable")
    run([*pip, "install", "--no-deps", "--no-build-isolation", "--force-reinstall", "--editable", "."])
    # Its .pth file runs code at every start of Python in this environment, and nothing here needs it.
    subprocess.call([*pip, "uninstall", "--yes", "setuptools"], stderr=subprocess.DEVNULL)
    with open(f"{venv}/.ready", "w"):
        pass
    say(f"{name} is ready after {time.time() - began:.0f} s")


def works(python: str) -> bool:
    try:
        return subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def run(command: list) -> None:  # type: ignore[type-arg]  # list[str] is no type before Python 3.9
    code = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    if code != 0:
        sys.exit(f"setup failed (exit {code}): {' '.join(command)}")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    main()
