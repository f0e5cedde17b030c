"""`polylect link NAME FOLDER`: a link through which polylect stands where a host expects another engine."""

import os
import sys

_NAMES = ("aionrs", "wayland-core", "wcore")


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in _NAMES:
        print(f"usage: polylect link NAME FOLDER, where NAME is one of {', '.join(_NAMES)}", file=sys.stderr)
        return 2
    name, folder = words
    target, link = os.path.realpath(sys.argv[0]), os.path.join(folder, name)
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.islink(link):
            os.unlink(link)
        os.symlink(target, link)
    except OSError as error:
        print(f"polylect: cannot make {link}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{link} -> {target}\nPut {folder} first on the host's PATH.")
    return 0
