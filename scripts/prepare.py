"""Make or refresh a virtual environment with everything constraints.txt pins and polylect itself, editable.

Only the standard library, and syntax that an old Python can read, so that it can say what is wrong with that Python.
"""

import fcntl
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INPUTS = ["pyproject.toml", "constraints.txt", "packaging/polylect", "scripts/prepare.py"]
# Kernels cut the first line of a script at 127 bytes (older Linux), 255 (Linux) or 512 (macOS), and at a space.
LONGEST_SHEBANG = 127


def main():
    if sys.version_info < (3, 11):
        sys.exit(
            "polylect needs Python 3.11 or later, this is %s; try: make PYTHON=python3.12" % sys.version.split()[0]
        )
    venv = os.path.abspath(sys.argv[1])
    os.makedirs(os.path.join(ROOT, ".make"), exist_ok=True)
    with open(os.path.join(ROOT, ".make", "lock"), "w") as lock:
        # Two makes at once: the second waits here and then finds the work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_fresh(venv):
            prepare(venv)


def is_fresh(venv):
    stamp = os.path.join(venv, ".ready")
    if not os.path.exists(stamp) or not os.path.exists(os.path.join(venv, "bin", "python")):
        return False
    made = os.path.getmtime(stamp)
    return all(os.path.getmtime(os.path.join(ROOT, name)) <= made for name in INPUTS)


def prepare(venv):
    began = time.time()
    python = os.path.join(venv, "bin", "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    name = os.path.relpath(venv, ROOT)
    if not works(python):
        say("making %s with Python %s" % (name, sys.version.split()[0]))
        run([sys.executable, "-m", "venv", "--clear", venv])
    say("installing the pinned dependencies (the first time takes a minute)")
    run(pip + ["install", "--require-hashes", "-r", "constraints.txt"])
    say("installing polylect, editable")
    run(pip + ["install", "--no-deps", "--no-build-isolation", "--force-reinstall", "--editable", "."])
    # Its .pth file runs code at every start of Python in this environment, and nothing here needs it.
    run(pip + ["uninstall", "--yes", "setuptools"], stderr=subprocess.DEVNULL)
    mend_launcher(os.path.join(venv, "bin", "polylect"), python)
    with open(os.path.join(venv, ".ready"), "w"):
        pass
    say("%s is ready after %.0f s" % (name, time.time() - began))


def works(python):
    try:
        return subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def mend_launcher(launcher, python):
    """pip gives a plain script the interpreter's path as it is; where no kernel can read that, go through sh."""
    if " " not in python and len(os.fsencode(python)) + 3 <= LONGEST_SHEBANG:
        return
    with open(launcher, encoding="utf-8") as script:
        body = script.read().split("\n", 1)[1]
    quoted = python.replace("'", "'\\''")
    with open(launcher, "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\n'''exec' '%s' \"$0\" \"$@\"\n' '''\n%s" % (quoted, body))


def run(command, **options):
    code = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL, **options)
    if code != 0:
        sys.exit("setting up failed (exit %d): %s" % (code, " ".join(command)))


def say(text):
    print("setup: " + text, flush=True)


if __name__ == "__main__":
    main()
