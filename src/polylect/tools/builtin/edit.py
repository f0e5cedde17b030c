"""Edit: replaces a text in a file that the model has read. The change is made in the worker (`worker/changing.py`)."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import Change, edit_file
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Replaces old_string by new_string in a file that you have read. old_string has to be in the file exactly once,
spaces and all and without the line numbers that Read shows: take in a neighbouring line if it is not unique, or set
replace_all. The answer is the change as a unified diff."""


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    old_string: Annotated[str, Meta(description="The text that is there now.")]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class Edit(TypedTool[Arguments]):
    name = "Edit"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments
    path_argument = "file_path"
    other_parameters: Mapping[str, str] = {"path": "file_path"}

    def describe(self, args: dict[str, Any]) -> str:
        return f"Edit {display_argument(args, 'file_path')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        change = Change(args.old_string, args.new_string, args.replace_all)
        return await edit_file(args.file_path, [change], context)


def open_tool(setup: ToolSetup) -> Tool:
    return Edit()
