"""NotebookEdit: replaces, inserts or deletes a cell of a Jupyter notebook. See `worker/notebooks.py`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, display_argument
from polylect.tools.files.file_access import change_file
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Changes one cell of a Jupyter notebook (.ipynb) that you have read: replaces its source, inserts a new cell after it (at
the beginning without cell_id), or deletes it. A cell is named by its id or its number, as Read shows them. The outputs
of a changed code cell are removed. The answer is the change as a unified diff."""


class Arguments(Struct, frozen=True):
    notebook_path: Annotated[str, Meta(description="The notebook, absolute or relative to the workspace.")]
    new_source: Annotated[str, Meta(description="The source of the cell; empty to delete one.")]
    cell_id: Annotated[str, Meta(description="The id or number of the cell; the new one comes after it.")] = ""
    cell_type: Annotated[
        Literal["", "code", "markdown"], Meta(description="What kind of cell it is; as before, or code, if left out.")
    ] = ""
    edit_mode: Annotated[Literal["replace", "insert", "delete"], Meta(description="What to do with the cell.")] = (
        "replace"
    )


class NotebookEdit(TypedTool[Arguments]):
    name = "NotebookEdit"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments
    path_argument = "notebook_path"
    other_parameters: Mapping[str, str] = {"path": "notebook_path", "file_path": "notebook_path"}

    def describe(self, args: dict[str, Any]) -> str:
        what = f"{display_argument(args, 'edit_mode', 'replace')} cell {display_argument(args, 'cell_id')}".rstrip()
        return f"Edit {display_argument(args, 'notebook_path')} ({what})"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        request = {
            "cell": args.cell_id,
            "source": args.new_source,
            "kind": args.cell_type,
            "how": args.edit_mode,
            "workspace": context.workspace,
        }
        value = await change_file("edit_notebook", args.notebook_path, request, context)
        metadata = {"file_path": args.notebook_path, "cell_id": value["cell"]}
        return ToolReturn(value["diff"], form="diff", metadata=metadata)


def open_tool(setup: ToolSetup) -> Tool:
    return NotebookEdit()
