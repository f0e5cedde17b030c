"""The operation that changes a cell of a Jupyter notebook: what NotebookEdit does.

It runs in the worker process. A notebook is JSON; it is written as it was found: the order of its keys, its indentation
and whether it ends with a line end stay. A changed code cell loses its outputs, which were those of the old source.
"""

import json
import os
import re

from polylect.tools.files.paths import relative
from polylect.tools.files.regular_files import read_for_change, refuse_if_changed
from polylect.tools.text.diff import unified_diff
from polylect.tools.text.notebook import parse_notebook
from polylect.tools.worker.changing import MOST_SHOWN, known_stamp, written
from polylect.tools.worker.reading import opened
from polylect.vocab.errors import ToolError
from polylect.wire.cut_text import cut_middle
from polylect.wire.line_endings import as_crlf, is_crlf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Cell = dict[str, Any]

_NUMBER = re.compile(r"(?:cell[ -]?)?(\d{1,9})")
_INDENT = re.compile(r"\{\r?\n([ \t]*)")


def edit_notebook(
    *,
    path: str,
    real: str,
    cell: str,
    source: str,
    kind: str,
    how: str,
    known: list[int] | None,
    workspace: str,
    handed_back: bool = False,
    file: int = -1,
) -> "dict[str, Any]":
    """Replace, insert or delete a cell. `cell` is an id or a number, `kind` is `code`, `markdown` or empty for the one
    that the cell has. The answer has a `diff` and the `cell` that is there now."""
    try:
        with opened(path, real, file) as descriptor:
            data, status = read_for_change(path, descriptor)
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist. Use Write to create it.") from None
    if known is None:
        raise ToolError(f"Read {path} first: a notebook can only be edited once you have seen it.")
    refuse_if_changed(path, status, known_stamp(known))
    notebook = parse_notebook(data)
    if notebook is None:
        raise ToolError(f"{path} is not a notebook with cells (nbformat 4). Change it with Edit or Write.")
    old = data.decode()
    named = _changed(notebook, cell, source, kind, how)
    new = _dumped(old, notebook)
    try:
        changed = new.encode()
    except UnicodeEncodeError:
        raise ToolError("The notebook would hold half a character (a lone surrogate), which no file can.") from None
    diff = cut_middle(unified_diff(relative(real, workspace), old, new), MOST_SHOWN)
    return {"diff": diff, "cell": named, **written(path, real, changed, status, handed_back)}


def _dumped(old: str, notebook: "dict[str, Any]") -> str:
    """JSON with the indentation, the line endings and the last line end of the old text."""
    indent = _INDENT.match(old)
    text = json.dumps(notebook, ensure_ascii=False, indent=indent[1] if indent else None)
    text = text + "\n" if old.endswith("\n") else text
    return as_crlf(text) if is_crlf(old) else text


def _changed(notebook: "dict[str, Any]", cell: str, source: str, kind: str, how: str) -> str:
    """Make the change. Returns what the cell is called now, empty if it is gone."""
    cells: list[Cell] = notebook["cells"]
    if how == "insert":
        at = _find(cells, cell) + 1 if cell else 0
        cells.insert(at, _new_cell(notebook, source, kind or "code"))
    elif not cell:
        raise ToolError(f"Name the cell to {how} with cell_id: its id or its number, as Read shows them.")
    else:
        at = _find(cells, cell)
        if how == "delete":
            del cells[at]
            return ""
        _replace(cells[at], source, kind)
    return str(cells[at].get("id") or at + 1)


def _find(cells: "list[Cell]", named: str) -> int:
    """The place of a cell by its id, else by its number from 1."""
    for at, cell in enumerate(cells):
        if cell.get("id") == named:
            return at
    number = _NUMBER.fullmatch(named.strip().lower())
    if number and 0 < int(number[1]) <= len(cells):
        return int(number[1]) - 1
    raise ToolError(
        f"There is no cell {named!r}: the notebook has {len(cells)} cells. Read shows their ids and numbers."
    )


def _new_cell(notebook: "dict[str, Any]", source: str, kind: str) -> "Cell":
    major, minor = notebook.get("nbformat"), notebook.get("nbformat_minor")
    has_ids = isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)
    cell: Cell = {"cell_type": kind, **({"id": os.urandom(4).hex()} if has_ids else {}), "metadata": {}}
    _replace(cell, source, kind)
    return cell


def _replace(cell: "Cell", source: str, kind: str) -> None:
    cell["cell_type"] = kind = kind or cell.get("cell_type", "code")
    cell["source"] = source.splitlines(keepends=True)
    if kind == "code":
        cell.update(execution_count=None, outputs=[])
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)
