"""Read: shows a page of a text file, an image or a notebook. The file is read in the worker (`worker/reading.py`)."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import read_file
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category, Image
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Shows a text file of the workspace, each line with its number (from 1) and a tab before it.
A long file is shown in parts: the answer then says which offset to go on with. A negative offset counts from the end:
-100 shows the last 100 lines, numbered from the end, however large the file is. Pictures (PNG, JPEG, GIF, WebP) are
shown as such, notebooks as their cells. Read a file before you change it with Edit. For a folder use Glob."""


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    offset: Annotated[
        int, Meta(description="The number of the first line to show; if negative, where to begin from the end.")
    ] = 1
    limit: Annotated[int, Meta(ge=0, description="How many lines to show at most; 0 for as many as fit.")] = 0


class Read(TypedTool[Arguments]):
    name = "Read"
    category: Category = "info"
    text = TEXT
    arguments = Arguments
    path_argument = "file_path"
    other_parameters: Mapping[str, str] = {"path": "file_path", "notebook_path": "file_path"}

    def describe(self, args: dict[str, Any]) -> str:
        return f"Read {display_argument(args, 'file_path')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        try:
            value = await read_file(args.file_path, args.offset, args.limit, context)
        except OSError as error:
            raise ToolError(f"Failed to read file {args.file_path}: {error.strerror}") from None
        images = (Image(*value["image"]),) if "image" in value else ()
        return ToolReturn(value["output"], form=value.get("form", "text"), images=images)


def open_tool(setup: ToolSetup) -> Tool:
    return Read()
