"""Build the documentation site from docs/ into site/: `make docs`.

MkDocs and its theme are installed outside the tree (docs-constraints.txt, scripts/pinned.py). The build is strict: a
link or an anchor that leads nowhere fails it. mkdocs.yml has the settings, scripts/docs_hooks.py the code of our own.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT))
from scripts.pinned import installed  # noqa: E402


def main() -> int:
    packages = installed("docs", ROOT / "docs-constraints.txt")
    env = {**os.environ, "PYTHONPATH": str(packages), "NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: with it, MkDocs does not count warnings, and a strict build passes with all of them.
    mkdocs = [sys.executable, "-P", "-m", "mkdocs", "build"]
    done = subprocess.run(mkdocs, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.stderr.buffer.write(done.stderr)
        (ROOT / "site" / "index.html").unlink(missing_ok=True)  # so that the next make builds it again
    else:
        print("the site is in site/; look at it with: python3 -m http.server -d site")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
