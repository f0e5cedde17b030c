"""Turns a Jupyter notebook into text for Read: the cells with their numbers and ids, and their output.

Images and other data are not shown, only named. Called by `worker/reading.py` for files that end in `.ipynb`, and by
`worker/notebooks.py`. The worker has only the standard library, so this uses no other.
"""

import json
import re
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Object = dict[str, Any]

MOST_OUTPUT = 10_000
"""Characters shown of one output."""
_ID = re.compile(r"[\w-]{1,64}")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def parse_notebook(data: bytes) -> "Object | None":
    """A notebook that has a list of cells, with texts or lists as their sources; None if this is none."""
    try:
        notebook = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    return notebook if isinstance(cells, list) and all(map(_is_cell, cells)) else None


def _is_cell(cell: object) -> bool:
    return isinstance(cell, dict) and isinstance(cell.get("source", ""), str | list)


def cells_as_text(data: bytes) -> str:
    """The text of all cells; empty if this is no notebook."""
    notebook = parse_notebook(data)
    cells = notebook["cells"] if notebook else ()
    return "\n\n".join(_cell(number, cell) for number, cell in enumerate(cells, 1))


def _cell(number: int, cell: "Object") -> str:
    count, id = cell.get("execution_count"), cell.get("id")
    run = f", run {count}" if isinstance(count, int) else ""
    named = f", id {id}" if isinstance(id, str) and _ID.fullmatch(id) else ""
    header = f"--- cell {number} ({cell.get('cell_type', 'code')}{run}{named}) ---"
    parts = [header, *filter(None, [_joined(cell.get("source", ""))])]
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict):
            parts += ["--- output ---", *_output(output)]
    return "\n".join(parts)


def _output(output: "Object") -> Iterator[str]:
    if output.get("output_type") == "error":
        trace = _ESCAPES.sub("", _joined(output.get("traceback", ""), "\n"))
        yield _cut(trace or f"{output.get('ename')}: {output.get('evalue')}")
    elif text := output.get("text"):
        yield _cut(_joined(text))
    data = output.get("data")
    data = data if isinstance(data, dict) else {}
    for media, value in data.items():
        if media == "text/plain":
            yield _cut(_joined(value))
        elif "text/plain" not in data or media.startswith("image/"):
            yield f"({media}, {len(_joined(value))} characters, not shown)"


def _joined(value: object, between: str = "") -> str:
    if isinstance(value, list):
        return between.join(map(str, value)).removesuffix("\n")
    return (value if isinstance(value, str) else str(value)).removesuffix("\n")


def _cut(text: str) -> str:
    return (
        text if len(text) <= MOST_OUTPUT else f"{text[:MOST_OUTPUT]}\n... [{len(text) - MOST_OUTPUT} more characters]"
    )
