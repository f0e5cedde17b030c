"""Glob: lists the files whose path matches a pattern, the newest first. The worker searches (`worker/searching.py`).

What the call touches is the folder that the fixed beginning of the pattern names: `src/**/*.py` searches only `src`.
"""

import os
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument, text_argument
from polylect.tools.files.file_access import search_folder
from polylect.tools.files.paths import admit, real_paths
from polylect.tools.setup import ToolSetup
from polylect.tools.text.glob_pattern import fixed_folder
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

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
        return f"Search for {display_argument(args, 'pattern')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        start = os.path.join(text_argument(args, "path") or ".", fixed_folder(text_argument(args, "pattern")))
        return real_paths({"path": start}, "path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        real = admit(os.path.join(args.path, fixed_folder(args.pattern)), context)
        request = {"pattern": args.pattern, "path": args.path, "most": args.head_limit}
        return ToolReturn(await search_folder("glob", real, request, context))


def open_tool(setup: ToolSetup) -> Tool:
    return Glob()
