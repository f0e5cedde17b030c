"""What every tool owes the model and the person who is asked."""

from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext, use
from polylect.tools.limits import Capture, cut_middle
from polylect.tools.standard import standard_tools


def test_names_and_categories_are_those_of_the_catalogues() -> None:
    assert {name: tool.category for name, tool in standard_tools().items()} == {
        "Read": "info",
        "Write": "edit",
        "Edit": "edit",
        "Bash": "exec",
        "Glob": "info",
        "Grep": "info",
    }


def test_schemas_are_plain_and_complete() -> None:
    required = {
        "Read": ["file_path"],
        "Write": ["file_path", "content"],
        "Edit": ["file_path", "old_string", "new_string"],
        "Bash": ["command"],
        "Glob": ["pattern"],
        "Grep": ["pattern"],
    }
    for name, tool in standard_tools().items():
        assert tool.spec.name == name
        assert tool.spec.description
        assert tool.spec.schema["type"] == "object"
        assert tool.spec.schema["required"] == required[name]
        for field in tool.spec.schema["properties"].values():
            assert field["type"] in ("string", "integer", "boolean")
            assert field["description"]


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        ("Read", {"file_path": "/a/b"}, "Read /a/b"),
        ("Write", {"file_path": "x", "content": "y"}, "Write to x"),
        ("Edit", {"file_path": "x"}, "Edit x"),
        ("Bash", {"command": "ls\n  -l"}, "Execute: ls -l"),
        ("Bash", {"command": "x" * 100}, "Execute: " + "x" * 80),
        ("Glob", {"pattern": "**/*.py"}, "Search for **/*.py"),
        ("Grep", {"pattern": "a", "path": "src"}, "Grep 'a' in src"),
        ("Grep", {"pattern": "a"}, "Grep 'a' in ."),
        ("Read", {"file_path": 7}, "Read "),
        ("Bash", {}, "Execute: "),
    ],
)
def test_a_call_is_described_in_one_line(name: str, args: dict[str, Any], line: str) -> None:
    assert standard_tools()[name].describe(args) == line


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("Read", {}, "Missing required parameter: file_path"),
        ("Read", {"file_path": None}, "Missing required parameter: file_path"),
        ("Write", {"file_path": "x"}, "Missing required parameter: content"),
        ("Bash", {"timeout": 5}, "Missing required parameter: command"),
        ("Read", {"file_path": 3}, "Wrong parameter: Expected `str`, got `int` - at `$.file_path`"),
        ("Read", {"file_path": "x", "offset": -1}, "Wrong parameter: Expected `int` >= 0 - at `$.offset`"),
        ("Bash", {"command": "ls", "timeout": "5"}, "Wrong parameter: Expected `int`, got `str` - at `$.timeout`"),
        ("Glob", {"pattern": "*", "root": "/"}, "Unknown parameter: root. Known ones: pattern, path"),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_wrong(
    tmp_path: Path, name: str, args: dict[str, Any], words: str
) -> None:
    result = use(FolderContext(tmp_path), name, **args)
    assert (result.ok, result.output) == (False, words)


def test_null_means_not_given(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert use(FolderContext(tmp_path), "Read", file_path="a", offset=None, limit=None).ok


def test_a_text_is_cut_in_the_middle_and_the_count_is_right() -> None:
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdefgh", 4) == "ab\n\n... [truncated 4 chars] ...\n\ngh"
    assert cut_middle("abcdefgh", 4, "f") == "ab\n\n... [truncated 4 chars; all of it is in f] ...\n\ngh"


def test_a_capture_keeps_both_ends_of_any_chunking() -> None:
    data = bytes(range(97, 123)) * 4
    for size in (1, 3, 7, 200):
        capture = Capture(10, 5)
        for at in range(0, len(data), size):
            capture.add(data[at : at + size])
        assert capture.text() == "abcdefghij\n\n... [89 bytes not kept] ...\n\nvwxyz"
    short = Capture(3, 5)
    short.add(b"abcdefg")
    assert short.text() == "abcdefg"
