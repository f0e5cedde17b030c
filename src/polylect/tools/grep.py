"""Grep: lines of files by a regular expression."""

import os
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.limits import cut_line, cut_middle
from polylect.tools.paths import admit, real_paths
from polylect.tools.ripgrep import search
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Searches the content of files with a regular expression and shows `file:line:text` for the first 250 matching lines.
With output_mode it shows only the files that match, or how often each one does. Files that git ignores are left out."""

MOST_LINES = 250
MOST_COLUMNS = 500
MOST = 20_000

Mode = Literal["content", "files_with_matches", "count"]
_MODES: dict[Mode, str] = {
    "content": "--line-number",
    "files_with_matches": "--files-with-matches",
    "count": "--count",
}


class Arguments(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The regular expression.")]
    path: Annotated[str, Meta(description="The file or folder to search; the workspace if left out.")] = "."
    glob: Annotated[str, Meta(description="Only files like this: `*.py`, `src/**/*.{ts,tsx}`.")] = ""
    case_insensitive: Annotated[bool, Meta(description="Take capital and small letters as equal.")] = False
    output_mode: Annotated[Mode, Meta(description="What to show for each match.")] = "content"


class Grep(TypedTool[Arguments]):
    name = "Grep"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Grep '{shown(args, 'pattern')}' in {shown(args, 'path', '.')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, "path", workspace, ".")

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        root = _root(args.path, context)
        matches = Matches(context.workspace)
        complaint = await search(_options(args), root, context, matches.add)
        if complaint and not matches.total:
            raise ToolError(complaint)
        return ToolReturn(cut_middle(matches.text(), MOST) or "No matches found")


def _root(path: str, context: ToolContext) -> str:
    root = admit(path, context)
    if not os.path.exists(root):
        raise ToolError(f"{path} does not exist.")
    return root


def _options(args: Arguments) -> list[str]:
    options = [_MODES[args.output_mode], "--no-heading", "--with-filename", "--sort=path", f"--regexp={args.pattern}"]
    if args.case_insensitive:
        options.append("--ignore-case")
    if args.glob:
        options.append(f"--glob={args.glob}")
    return options


class Matches:
    """The first lines of a result that comes in pieces, and how many there are."""

    def __init__(self, workspace: str) -> None:
        self.total = 0
        self._lines: list[str] = []
        self._prefix = workspace.rstrip("/") + "/"
        self._rest = b""

    def add(self, data: bytes) -> None:
        if self.total >= MOST_LINES:
            self.total += data.count(b"\n")
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.total += len(lines)
        for line in lines[: MOST_LINES - len(self._lines)]:
            text = line.decode(errors="replace").removeprefix(self._prefix)
            self._lines.append(cut_line(text.rstrip("\r"), MOST_COLUMNS))

    def text(self) -> str:
        more = self.total - len(self._lines)
        note = [f"({more} more lines: search a smaller folder or a narrower pattern to see them)"] if more else []
        return "\n".join((*self._lines, *note))
