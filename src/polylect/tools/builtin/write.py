"""Write: creates a file or replaces its whole content. The file is written in the worker (`worker/changing.py`)."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import change_file
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Writes a file with exactly this content, in the place of what was there. Missing folders are made.
To change part of a file, use Edit. A file that changed since you read it has to be read again first."""


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    content: Annotated[str, Meta(description="All of the file's text.")]


class Write(TypedTool[Arguments]):
    name = "Write"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments
    path_argument = "file_path"
    other_parameters: Mapping[str, str] = {"path": "file_path"}

    def describe(self, args: dict[str, Any]) -> str:
        return f"Write to {display_argument(args, 'file_path')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        path, content = args.file_path, args.content
        value = await change_file("write", path, {"content": content}, context)
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        verb = "Updated" if value["updated"] else "Created"
        return ToolReturn(f"{verb} {path} ({lines} lines)", metadata={"file_path": path})


def open_tool(setup: ToolSetup) -> Tool:
    return Write()
