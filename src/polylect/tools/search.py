"""Takes ripgrep's place where there is none: a program of its own, so that a bad pattern cannot hold up the engine.

Knows exactly the options that Glob and Grep use, and answers in ripgrep's form and exit codes. Of `.gitignore` it
knows the files in the searched folders and the common patterns.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence

from polylect.tools.patterns import compile_pattern

Rule = tuple[re.Pattern[str], bool, bool]
"""What it matches below its folder, whether only folders, whether it takes back."""

_MOST_LINE = 100_000


def main() -> None:
    options, (root,) = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    try:
        sys.exit(_list(root) if "--files" in options else _search(root, options))
    except re.error as fault:
        sys.exit(_complain(f"regex parse error: {fault}"))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)


def _complain(words: str) -> int:
    sys.stderr.write(words + "\n")
    return 2


def _list(root: str) -> int:
    found = sorted(walk(root), key=_age, reverse=True)
    sys.stdout.buffer.write(b"".join(os.fsencode(path) + b"\0" for path in found))
    sys.stdout.flush()
    return 0 if found else 1


def _age(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _search(root: str, options: Sequence[str]) -> int:
    values = dict(option.split("=", 1) for option in options if "=" in option)
    pattern = re.compile(values["--regexp"].encode(), re.IGNORECASE if "--ignore-case" in options else 0)
    globs = [option.split("=", 1)[1] for option in options if option.startswith("--glob=") and "!" not in option]
    wanted = compile_pattern(globs[0] if "/" in globs[0] else "**/" + globs[0]) if globs else None
    found = 1
    for path in walk(root) if os.path.isdir(root) else (root,):
        if wanted and not wanted.match(os.path.relpath(path, root) if path != root else os.path.basename(path)):
            continue
        lines = list(_matches(path, pattern))
        if lines:
            found = 0
            sys.stdout.buffer.write(b"".join(_form(os.fsencode(path), lines, options)))
    sys.stdout.flush()
    return found


def _form(path: bytes, lines: Sequence[tuple[int, bytes]], options: Sequence[str]) -> Iterator[bytes]:
    if "--files-with-matches" in options:
        yield path + b"\n"
    elif "--count" in options:
        yield b"%s:%d\n" % (path, len(lines))
    else:
        for number, line in lines:
            yield b"%s:%d:%s\n" % (path, number, line)


def _matches(path: str, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    try:
        with open(path, "rb") as file:
            if b"\0" in file.peek(8192)[:8192]:
                return
            for number, line in enumerate(file, 1):
                text = line.rstrip(b"\r\n")[:_MOST_LINE]
                if pattern.search(text):
                    yield number, text
    except OSError:
        return  # unreadable, as ripgrep with --no-messages


def walk(root: str, rules: Sequence[tuple[str, Rule]] = ()) -> Iterator[str]:
    """Regular files below a folder by name, without what `.git` and `.gitignore` hide. Follows no symlink."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return
    rules = (*rules, *((root, rule) for rule in _rules(root)))
    for entry in entries:
        folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or _ignored(entry.path, folder, rules):
            continue
        if folder:
            yield from walk(entry.path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _ignored(path: str, folder: bool, rules: Sequence[tuple[str, Rule]]) -> bool:
    for base, (pattern, folders_only, takes_back) in reversed(rules):
        if (folder or not folders_only) and pattern.match(path[len(base) :].lstrip("/")):
            return not takes_back
    return False


def _rules(folder: str) -> Iterator[Rule]:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file]
    except OSError:
        return
    for line in lines:
        if not line or line.startswith("#"):
            continue
        body = line.removeprefix("!").rstrip("/")
        anchored = body.lstrip("/") if "/" in body else "**/" + body
        try:
            yield compile_pattern(anchored), line.endswith("/"), line.startswith("!")
        except re.error:
            continue  # a pattern that git would not understand either hides nothing
