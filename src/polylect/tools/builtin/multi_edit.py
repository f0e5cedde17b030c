"""MultiEdit: makes several edits to one file in order, or none of them. See `worker/changing.py`."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import Change, edit_file
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Makes several changes to one file that you have read, as Edit does each of them. They are made in order, each on what
the one before left; if one of them cannot be made, none is. The answer is the whole change as a unified diff."""


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    edits: Annotated[tuple[Change, ...], Meta(min_length=1, description="The changes, in order.")]


class MultiEdit(TypedTool[Arguments]):
    name = "MultiEdit"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments
    path_argument = "file_path"
    other_parameters: Mapping[str, str] = {"path": "file_path"}

    def describe(self, args: dict[str, Any]) -> str:
        edits = args.get("edits")
        return f"Edit {display_argument(args, 'file_path')} ({len(edits) if isinstance(edits, list) else 0} changes)"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        return await edit_file(args.file_path, args.edits, context)


def open_tool(setup: ToolSetup) -> Tool:
    return MultiEdit()
