"""MultiEdit: several changes of one file, all or none."""

from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext, use
from polylect.vocab.ports import ToolReturn


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\ntwo\r\n")
    context = FolderContext(tmp_path)
    use(context, "Read", file_path="a.txt")
    return context


def edit(context: FolderContext, *edits: dict[str, Any]) -> ToolReturn:
    return use(context, "MultiEdit", file_path="a.txt", edits=list(edits))


def change(old: str, new: str, **more: bool) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, **more}


def test_each_change_is_made_on_what_the_one_before_left(context: FolderContext, tmp_path: Path) -> None:
    result = edit(context, change("one", "uno\nmas"), change("mas\nt", "T"), change("two", "dos", replace_all=True))
    assert result.ok, result.output
    assert (tmp_path / "a.txt").read_bytes() == b"\xef\xbb\xbfuno\r\nTwo\r\nthree\r\ndos\r\n"
    assert result.form == "diff"
    assert result.metadata == {"file_path": "a.txt"}
    assert result.output.count("--- a/a.txt") == 1
    assert edit(context, change("three", "tres")).ok, "it was seen as it is now"


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([change("one", "1"), change("four", "4")], "Edit 2 of 2: old_string not found in file. It has to match"),
        ([change("two", "2"), change("one", "1")], "Edit 1 of 2: Multiple matches found (2)."),
        ([change("one", "1"), change("one", "2")], "Edit 2 of 2: old_string not found"),
        ([change("", "1"), change("one", "2")], "Edit 1 of 2: old_string is empty."),
        ([change("one", "1"), change("1", "one")], "The edits undo each other: nothing to change."),
        ([change("one", "\ud800"), change("three", "3")], "new_string holds half a character"),
        ([], "Wrong parameter: Expected `array` of length >= 1"),
        ([{"old_string": "one"}], "Wrong parameter: Object missing required field `new_string`"),
    ],
)
def test_P3_if_one_cannot_be_made_none_is(
    context: FolderContext, tmp_path: Path, edits: list[dict[str, Any]], words: str
) -> None:
    before = (tmp_path / "a.txt").read_bytes()
    result = edit(context, *edits)
    assert not result.ok
    assert result.output.startswith(words), result.output
    assert (tmp_path / "a.txt").read_bytes() == before


def test_P3_a_file_that_changed_since_it_was_read_is_refused(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one, by someone else\n")
    result = edit(context, change("one", "1"))
    assert not result.ok
    assert "has changed since it was read" in result.output
