"""Glob: files by the pattern of their path."""

import os
import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.paths import admit, real_path, real_paths, relative
from polylect.tools.patterns import compile_pattern, fixed_folder
from polylect.tools.ripgrep import search
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Lists files whose path matches a pattern, the most recently changed first, at most 100.
`*` matches within one folder, `**` across folders: `**/*.py` finds every Python file, `src/*.py` only those directly in
src. Files that git ignores are left out."""

MOST = 100


class Arguments(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The pattern, relative to path.")]
    path: Annotated[str, Meta(description="The folder to look in; the workspace if left out.")] = "."


class Glob(TypedTool[Arguments]):
    name = "Glob"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Search for {shown(args, 'pattern')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        start = os.path.join(shown(args, "path") or ".", fixed_folder(shown(args, "pattern")))
        return real_paths({"path": start}, "path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        start = _start(args, context)
        listing = Listing(start, _matcher(args.pattern))
        if complaint := await search(LIST, start, context, listing.add):
            raise ToolError(f"Could not list {args.path}: {complaint}")
        lines = [relative(path, context.workspace) for path in listing.found]
        if listing.total > MOST:
            lines.append(f"({listing.total - MOST} more files match: use a narrower pattern to see them)")
        return ToolReturn("\n".join(lines) or "No files matched the pattern")


LIST = ("--files", "--null", "--sortr=modified")


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
    """The first matches of a list of paths that comes in pieces, and how many there are."""

    def __init__(self, start: str, matcher: re.Pattern[str]) -> None:
        self.found: list[str] = []
        self.total = 0
        self._prefix = start.rstrip("/") + "/"
        self._matcher = matcher
        self._rest = b""

    def add(self, data: bytes) -> None:
        *names, self._rest = (self._rest + data).split(b"\0")
        for name in map(os.fsdecode, names):
            if self._matcher.match(name, len(self._prefix)):
                self.total += 1
                if self.total <= MOST:
                    self.found.append(name)
