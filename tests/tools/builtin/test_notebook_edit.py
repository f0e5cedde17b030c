"""NotebookEdit: one cell changes, and everything else in the file stays as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from doubles import converse
from doubles_tools import FolderContext, use
from polylect.providers.scripted import Scripted
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Prompt
from polylect.vocab.events import ToolFinished
from polylect.vocab.ports import ToolReturn

OUTPUT = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Über\n", "words"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "id": "run-it",
        "metadata": {"tags": ["x"]},
        "outputs": [OUTPUT],
        "source": "print(1)",
    },
]


def notebook(*cells: dict[str, Any], minor: int = 5) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"kernel": "py"}, "nbformat": 4, "nbformat_minor": minor}


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook(*CELLS), ensure_ascii=False, indent=1) + "\n")
    return FolderContext(tmp_path)


def change(context: FolderContext, source: str, *, read: bool = True, **args: Any) -> ToolReturn:
    if read:
        use(context, "Read", file_path="a.ipynb")
    return use(context, "NotebookEdit", notebook_path="a.ipynb", new_source=source, **args)


def cells(context: FolderContext) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = json.loads((Path(context.workspace) / "a.ipynb").read_text())["cells"]
    return actual


@pytest.mark.parametrize("cell", ["run-it", "2", "cell 2", "cell-2"])
def test_a_replaced_cell_loses_its_outputs_and_nothing_else_changes(context: FolderContext, cell: str) -> None:
    before = (Path(context.workspace) / "a.ipynb").read_text()
    result = change(context, "print(2)\nprint(3)", cell_id=cell)
    assert (result.ok, result.form) == (True, "diff")
    assert result.metadata == {"file_path": "a.ipynb", "cell_id": "run-it"}
    expected = notebook(
        CELLS[0], {**CELLS[1], "execution_count": None, "outputs": [], "source": ["print(2)\n", "print(3)"]}
    )
    after = (Path(context.workspace) / "a.ipynb").read_text()
    assert after == json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
    assert result.output.startswith("--- a/a.ipynb\n+++ b/a.ipynb\n")
    assert before.split('"run-it"')[0].split('"execution_count"')[0] == after.split('"execution_count"')[0]


def test_a_cell_can_become_another_kind(context: FolderContext) -> None:
    change(context, "words", cell_id="run-it", cell_type="markdown")
    assert cells(context)[1] == {
        "cell_type": "markdown",
        "id": "run-it",
        "metadata": {"tags": ["x"]},
        "source": ["words"],
    }


def test_a_cell_is_inserted_after_another_or_at_the_beginning(context: FolderContext) -> None:
    after = change(context, "x = 1", cell_id="intro", edit_mode="insert")
    change(context, "first", edit_mode="insert", cell_type="markdown", read=False)
    now = cells(context)
    assert [cell["source"] for cell in now] == [["first"], CELLS[0]["source"], ["x = 1"], CELLS[1]["source"]]
    assert [cell["cell_type"] for cell in now] == ["markdown", "markdown", "code", "code"]
    assert len({cell["id"] for cell in now}) == 4
    assert after.metadata is not None
    assert after.metadata["cell_id"] == now[2]["id"]
    assert (now[2]["outputs"], now[2]["execution_count"]) == ([], None)


def test_a_new_cell_has_an_id_only_where_the_format_has_them(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook(minor=4)))
    result = change(context, "x", edit_mode="insert")
    assert (result.ok, result.metadata) == (True, {"file_path": "a.ipynb", "cell_id": "1"})
    assert "id" not in cells(context)[0]


def test_a_cell_is_deleted(context: FolderContext) -> None:
    assert change(context, "", cell_id="intro", edit_mode="delete").ok
    assert cells(context) == [CELLS[1]]


@pytest.mark.parametrize(("indent", "ending"), [(2, "\n"), ("\t", ""), (1, "\r\n"), (None, "")])
def test_the_layout_of_the_file_stays(context: FolderContext, tmp_path: Path, indent: Any, ending: str) -> None:
    def laid_out(value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        return (text.replace("\n", "\r\n") if ending == "\r\n" else text).encode() + ending.encode()

    (tmp_path / "a.ipynb").write_bytes(laid_out(notebook(*CELLS)))
    assert change(context, "new", cell_id="intro").ok
    assert (tmp_path / "a.ipynb").read_bytes() == laid_out(notebook({**CELLS[0], "source": ["new"]}, CELLS[1]))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "Name the cell to replace with cell_id"),
        ({"edit_mode": "delete"}, "Name the cell to delete with cell_id"),
        ({"cell_id": "nope"}, "There is no cell 'nope': the notebook has 2 cells."),
        ({"cell_id": "3"}, "There is no cell '3'"),
        ({"cell_id": "0"}, "There is no cell '0'"),
        ({"cell_id": "1", "edit_mode": "append"}, "Wrong parameter: Invalid enum value 'append'"),
        ({"cell_id": "1", "run": True}, "Unknown parameter: run."),
        ({"cell_id": "1", "new_source": "\ud800"}, "The notebook would hold half a character"),
    ],
)
def test_what_cannot_be_done_changes_nothing(context: FolderContext, args: dict[str, Any], words: str) -> None:
    before = (Path(context.workspace) / "a.ipynb").read_bytes()
    result = change(context, args.pop("new_source", "x"), **args)
    assert not result.ok
    assert words in result.output
    assert (Path(context.workspace) / "a.ipynb").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [3]}', "[" * 100_000, '{"worksheets": []}'])
def test_what_is_no_notebook_is_left_alone(context: FolderContext, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    result = change(context, "x", cell_id="1")
    assert (result.ok, "is not a notebook" in result.output) == (False, True)
    assert (tmp_path / "a.ipynb").read_text() == text


def test_it_has_to_be_read_first_and_must_not_have_changed(context: FolderContext, tmp_path: Path) -> None:
    assert change(context, "x", cell_id="1", read=False).output.startswith("Read a.ipynb first")
    use(context, "Read", file_path="a.ipynb")
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook()))
    assert not change(context, "x", cell_id="1", read=False).ok
    assert json.loads((tmp_path / "a.ipynb").read_text()) == notebook()


@pytest.mark.parametrize("rule", ["Edit(a.ipynb)", "NotebookEdit", "Read(*.ipynb)", "notebookedit"])
@pytest.mark.parametrize("parameter", ["notebook_path", "file_path"])
def test_rules_for_edit_count_for_it(context: FolderContext, tmp_path: Path, rule: str, parameter: str) -> None:
    call = {"call": "NotebookEdit", "args": {parameter: "a.ipynb", "new_source": "x", "cell_id": "1"}}
    tools = standard_tools(str(tmp_path)).values()
    model = Scripted.in_order([call, "ok"])
    talk = converse(tmp_path, model, [Prompt("t1", "x")], *tools, mode="force", deny=(rule,))
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("NotebookEdit", "denied")]


def test_reading_shows_the_ids(context: FolderContext) -> None:
    lines = use(context, "Read", file_path="a.ipynb").output.split("\n")
    headers = [line.split("\t")[1] for line in lines if "--- cell" in line]
    assert headers == ["--- cell 1 (markdown, id intro) ---", "--- cell 2 (code, run 3, id run-it) ---"]
