"""Turns a Jupyter notebook into text for Read: the cells with their numbers and ids, and their output.

Images and other data are not shown, only named. Called by `worker/reading.py` for files that end in `.ipynb`.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

MOST_OUTPUT = 10_000
"""Characters shown of one output."""
_ID = re.compile(r"[\w-]{1,64}")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Lines = str | list[str]


class _Output(Struct, frozen=True):
    output_type: str = ""
    text: Lines = ""
    data: dict[str, Any] = {}
    ename: str = ""
    evalue: str = ""
    traceback: Lines = ""


class _Cell(Struct, frozen=True):
    cell_type: str = "code"
    source: Lines = ""
    id: Any = ""
    execution_count: int | None = None
    outputs: list[_Output] = []


class _Notebook(Struct, frozen=True):
    cells: list[_Cell]


def cells_as_text(data: bytes) -> str:
    """The text of all cells; empty if this is no notebook."""
    try:
        notebook = msgspec.json.decode(data, type=_Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "\n\n".join(_cell(number, cell) for number, cell in enumerate(notebook.cells, 1))


def _cell(number: int, cell: _Cell) -> str:
    run = f", run {cell.execution_count}" if cell.execution_count is not None else ""
    named = f", id {cell.id}" if isinstance(cell.id, str) and _ID.fullmatch(cell.id) else ""
    parts = [f"--- cell {number} ({cell.cell_type}{run}{named}) ---", *filter(None, [_joined(cell.source)])]
    for output in cell.outputs:
        parts += ["--- output ---", *_output(output)]
    return "\n".join(parts)


def _output(output: _Output) -> Iterator[str]:
    if output.output_type == "error":
        yield _cut(_ESCAPES.sub("", _joined(output.traceback, "\n")) or f"{output.ename}: {output.evalue}")
    elif output.text:
        yield _cut(_joined(output.text))
    for media, value in output.data.items():
        if media == "text/plain":
            yield _cut(_joined(value))
        elif "text/plain" not in output.data or media.startswith("image/"):
            yield f"({media}, {len(_joined(value))} characters, not shown)"


def _joined(value: Any, between: str = "") -> str:
    if isinstance(value, list):
        return between.join(map(str, value)).removesuffix("\n")
    return (value if isinstance(value, str) else str(value)).removesuffix("\n")


def _cut(text: str) -> str:
    return (
        text if len(text) <= MOST_OUTPUT else f"{text[:MOST_OUTPUT]}\n... [{len(text) - MOST_OUTPUT} more characters]"
    )
