"""Glob: files by the pattern of their path."""

import os
import re
from heapq import nsmallest
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, given, shown
from polylect.tools.paths import admit, real_path, real_paths, relative
from polylect.tools.patterns import compile_pattern, fixed_folder
from polylect.tools.ripgrep import search
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Lists files whose path matches a pattern, the most recently changed first, the first 100 of them.
`*` matches within one folder, `**` across folders: `**/*.py` finds every Python file, `src/*.py` only those directly in
src. Files that git ignores are left out."""

DEFAULT = 100
MOST = 1000


class Arguments(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The pattern, relative to path.")]
    path: Annotated[str, Meta(description="The folder to look in; the workspace if left out.")] = "."
    head_limit: Annotated[int, Meta(ge=1, le=MOST, description="How many files to list at most.")] = DEFAULT


class Glob(TypedTool[Arguments]):
    name = "Glob"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Search for {shown(args, 'pattern')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        start = os.path.join(given(args, "path") or ".", fixed_folder(given(args, "pattern")))
        return real_paths({"path": start}, "path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        start = _start(args, context)
        listing = Listing(start, _matcher(args.pattern), args.head_limit)
        if complaint := await search(("--files", "--null", *_prefilter(args.pattern)), start, context, listing.add):
            raise ToolError(f"Could not list {args.path}: {complaint}")
        lines = [relative(path, context.workspace) for path in listing.newest()]
        if listing.total > len(lines):
            lines.append(f"({listing.total - len(lines)} more files match: use a narrower pattern to see them)")
        return ToolReturn("\n".join(lines) or "No files matched the pattern")


def _prefilter(pattern: str) -> tuple[str, ...]:
    """Lets ripgrep leave out most others by name: as a type, because its globs would bring back what git ignores."""
    name = pattern.rpartition("/")[2]
    if not name or "**" in name or not re.fullmatch(_PLAIN, name, re.ASCII):
        return ()
    return (f"--type-add=wanted:{name}", "--type=wanted")


_PLAIN = r"[\w.*?-]*(\{[\w.,-]+\})?[\w.*?-]*"  # compiled when it is used: a start does not pay for it


def _start(args: Arguments, context: ToolContext) -> str:
    """The folder that holds every match. If only the pattern names a missing one, it merely has no matches."""
    if not os.path.isdir(real_path(args.path, context.workspace)):
        raise ToolError(f"{args.path} is not a folder.")
    return admit(os.path.join(args.path, fixed_folder(args.pattern)), context)


def _matcher(pattern: str) -> re.Pattern[str]:
    """For paths below the pattern's own fixed folder."""
    fixed = fixed_folder(pattern)
    try:
        return compile_pattern(pattern[len(fixed) :].lstrip("/") if fixed or pattern.startswith("/") else pattern)
    except re.error as fault:
        raise ToolError(f"Not a pattern: {pattern} ({fault})") from None


class Listing:
    """The newest matches of a list of paths that comes in pieces, and how many there are."""

    def __init__(self, start: str, matcher: re.Pattern[str], most: int) -> None:
        self.total = 0
        self._found: list[tuple[int, str]] = []
        self._most = most
        self._prefix = start.rstrip("/") + "/"
        self._matcher = matcher
        self._rest = b""

    def add(self, data: bytes) -> None:
        whole, _, self._rest = (self._rest + data).rpartition(b"\0")
        match, start = self._matcher.match, len(self._prefix)
        found = [name for name in os.fsdecode(whole).split("\0") if match(name, start)]
        self.total += len(found)
        self._found += [(_age(name), name) for name in found]
        if len(self._found) > 10 * MOST:
            self._found = nsmallest(self._most, self._found)

    def newest(self) -> list[str]:
        return [name for _, name in nsmallest(self._most, self._found)]


def _age(path: str) -> int:
    """Sorts the newest first."""
    try:
        return -os.lstat(path).st_mtime_ns
    except OSError:
        return 0  # gone meanwhile
