"""Searches files where ripgrep is not installed. Runs in a child of the worker, which can be killed.

It accepts exactly the options that Glob and Grep use, and has ripgrep's output format and exit codes. Of `.gitignore`
it applies the files in the searched folders, with the common patterns. Called by `worker/searching.py`.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from polylect.tools.text.glob_pattern import compile_pattern

Rule = tuple[re.Pattern[str], bool, bool]
"""A line of `.gitignore`: its pattern below the folder, whether it is only for folders, whether it is negated."""

TYPES = {
    "c": "c h",
    "cpp": "cpp cc cxx hpp hh hxx h",
    "css": "css scss",
    "go": "go",
    "html": "html htm",
    "java": "java",
    "js": "js jsx mjs cjs",
    "json": "json",
    "md": "md markdown",
    "py": "py pyi",
    "rust": "rs",
    "sh": "sh bash zsh",
    "toml": "toml",
    "ts": "ts tsx mts cts",
    "txt": "txt",
    "yaml": "yaml yml",
}
STDIN = "-"
_MOST_LINE = 100_000
_MOST_FILE = 32 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Search. `arguments` are those of ripgrep: options, `--`, then `./` (the working folder) or `-` (standard
    input)."""
    at = list(arguments).index("--")
    options, root = arguments[:at], arguments[at + 1].rstrip("/")
    try:
        with open(1, "wb", closefd=False) as out:
            return _list(root, options, out) if "--files" in options else _search(root, options, out)
    except re.error as error:
        return _print_error(f"regex parse error: {error}")
    except _UnknownType as error:
        return _print_error(f"unrecognized file type: {error}")
    except BrokenPipeError:
        return 1


class _UnknownType(Exception):
    pass


def _print_error(arguments: str) -> int:
    os.write(2, arguments.encode(errors="replace") + b"\n")
    return 2


def _list(root: str, options: Sequence[str], out: BinaryIO) -> int:
    code = 1
    for path in walk(root, _excluded_paths(options)):
        code = 0
        out.write(os.fsencode(path) + b"\0")
    return code


def _search(root: str, options: Sequence[str], out: BinaryIO) -> int:
    values = dict(option.split("=", 1) for option in options if "=" in option)
    flags = re.IGNORECASE if "--ignore-case" in options else 0
    multiline = "--multiline" in options
    pattern = re.compile(values["--regexp"].encode(), flags | re.MULTILINE | re.DOTALL if multiline else flags)
    context = int(values.get("--before-context", 0)), int(values.get("--after-context", 0))
    code = 1
    for path in _candidates(root, options, values):
        lines = _lines(path)
        if hits := _hits(lines, pattern, multiline=multiline):
            code = 0
            name = b"<stdin>" if path == STDIN else os.fsencode(path)
            if "--only-matching" in options:
                out.write(b"".join(b"%s\0%d:%s\n" % (name, *part) for part in _parts(lines, pattern, multiline)))
            else:
                out.write(b"".join(_format(name, lines, hits, context, options)))
    return code


def _candidates(root: str, options: Sequence[str], values: dict[str, str]) -> Iterator[str]:
    globs = [option.split("=", 1)[1] for option in options if option.startswith("--glob=") and "!" not in option]
    glob = compile_pattern(globs[0] if "/" in globs[0] else "**/" + globs[0]) if globs else None
    endings = _endings(values["--type"]) if "--type" in values else ("",)
    if root == STDIN:
        yield root
        return
    for path in walk(root, _excluded_paths(options)):
        if path.endswith(endings) and (not glob or glob.match(path.removeprefix(root + "/"))):
            yield path


def _excluded_paths(options: Sequence[str]) -> list[tuple[str, Rule]]:
    """Rules for the paths that `--glob=!/` excludes."""
    paths = [option.removeprefix("--glob=!/") for option in options if option.startswith("--glob=!/")]
    return [("/", (re.compile(re.escape(path) + r"\Z"), False, False)) for path in paths]


def _endings(kind: str) -> tuple[str, ...]:
    if kind not in TYPES:
        raise _UnknownType(kind)
    return tuple("." + ending for ending in TYPES[kind].split())


def _format(
    path: bytes, lines: Sequence[bytes], hits: set[int], around: tuple[int, int], options: Sequence[str]
) -> Iterator[bytes]:
    if "--files-with-matches" in options:
        yield path + b"\0"
    elif "--count" in options:
        yield b"%s\0%d\n" % (path, len(hits))
    else:
        before, after = around
        near = {at for hit in hits for at in range(hit - before, hit + after + 1) if 0 <= at < len(lines)}
        last = min(near) - 1
        for at in sorted(near):
            if at > last + 1:
                yield b"--\n"
            last = at
            yield b"%s\0%d%s%s\n" % (path, at + 1, b":" if at in hits else b"-", lines[at][:_MOST_LINE])


def _lines(path: str) -> list[bytes]:
    """The lines of a file. A file that is binary or cannot be read has none, as for ripgrep with --no-messages."""
    try:
        with open(0 if path == STDIN else path, "rb", closefd=path != STDIN) as file:
            data = file.read(_MOST_FILE)
    except OSError:
        return []
    if b"\0" in data[:8192]:
        return []
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _hits(lines: Sequence[bytes], pattern: re.Pattern[bytes], *, multiline: bool) -> set[int]:
    """The numbers of the lines that match, from 0."""
    if not multiline:
        return {at for at, line in enumerate(lines) if pattern.search(line[:_MOST_LINE].rstrip(b"\r"))}
    data = b"\n".join(lines)
    numbers: set[int] = set()
    for match in pattern.finditer(data):
        first = data.count(b"\n", 0, match.start())
        numbers.update(range(first, first + match[0].rstrip(b"\n").count(b"\n") + 1))
    return numbers if lines else set()


def _parts(lines: Sequence[bytes], pattern: re.Pattern[bytes], multiline: bool) -> Iterator[tuple[int, bytes]]:
    """What matches, with the number of its line. A match over several lines is one part for each."""
    if not multiline:
        for number, line in enumerate(lines, 1):
            yield from ((number, match[0]) for match in pattern.finditer(line[:_MOST_LINE].rstrip(b"\r")) if match[0])
        return
    data = b"\n".join(lines)
    for match in pattern.finditer(data):
        first = data.count(b"\n", 0, match.start()) + 1
        yield from enumerate(match[0].rstrip(b"\n").split(b"\n"), first)


def walk(root: str, rules: Sequence[tuple[str, Rule]] = ()) -> Iterator[str]:
    """The regular files below a folder, sorted by name, without `.git` and ignored files. Follows no symlink."""
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
    for base, (pattern, folders_only, negated) in reversed(rules):
        if (folder or not folders_only) and pattern.match(path[len(base) :].lstrip("/")):
            return not negated
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
