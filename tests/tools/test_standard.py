"""What every tool owes the model and the person who is asked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext, use
from polylect.tools.standard import standard_tools
from polylect.tools.text.truncate import Capture
from polylect.vocab.ports import Tool
from polylect.wire.cut_text import cut_middle

REQUIRED = {
    "Read": ["file_path"],
    "Write": ["file_path", "content"],
    "Edit": ["file_path", "old_string", "new_string"],
    "MultiEdit": ["file_path", "edits"],
    "NotebookEdit": ["notebook_path", "new_source"],
    "Bash": ["command"],
    "BashOutput": [],
    "KillBash": ["bash_id"],
    "Glob": ["pattern"],
    "Grep": ["pattern"],
    "WebFetch": ["url"],
    "WebSearch": ["query"],
    "TodoWrite": ["todos"],
    "AskUserQuestion": [],
    "ToolSearch": ["query"],
    "Skill": ["skill"],
}
CATEGORIES = {
    "Write": "edit",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Bash": "exec",
    "WebFetch": "mcp",
    "WebSearch": "mcp",
}


@pytest.fixture
def all_tools(tmp_path: Path) -> dict[str, Tool]:
    """Also those that are there only where there is something for them."""
    (tmp_path / ".polylect" / "skills").mkdir(parents=True)
    return standard_tools(str(tmp_path))


def test_names_and_categories_are_those_of_the_catalogues(all_tools: dict[str, Tool]) -> None:
    expected = {name: CATEGORIES.get(name, "info") for name in REQUIRED}
    assert list(all_tools) == list(REQUIRED), "models and hosts see them in this order"
    assert {name: tool.category for name, tool in all_tools.items()} == expected
    assert set(all_tools) - set(standard_tools()) == {"Skill"}


def test_schemas_are_plain_and_complete(all_tools: dict[str, Tool]) -> None:
    for name, tool in all_tools.items():
        assert tool.spec.name == name
        assert tool.spec.description
        assert tool.spec.schema["type"] == "object"
        assert tool.spec.schema["required"] == REQUIRED[name]
        check_fields(tool.spec.schema)
        assert "$" not in str(tool.spec.schema)


def check_fields(schema: dict[str, Any]) -> None:
    for name, field in schema["properties"].items():
        assert field["type"] in ("string", "integer", "boolean", "array"), name
        assert field["description"], name
        if field["type"] == "array" and field["items"] != {"type": "string"}:
            check_fields(field["items"])


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        ("Read", {"file_path": "/a/b"}, "Read /a/b"),
        ("Write", {"file_path": "x", "content": "y"}, "Write to x"),
        ("Edit", {"file_path": "x"}, "Edit x"),
        ("Bash", {"command": "ls\n  -l"}, "Execute: ls -l"),
        ("Bash", {"command": "x" * 100}, "Execute: " + "x" * 80 + "…"),
        ("Glob", {"pattern": "**/*.py"}, "Search for **/*.py"),
        ("Grep", {"pattern": "a", "path": "src"}, "Grep 'a' in src"),
        ("Grep", {"pattern": "a"}, "Grep 'a' in ."),
        ("MultiEdit", {"file_path": "x", "edits": [{}, {}]}, "Edit x (2 changes)"),
        ("BashOutput", {"bash_id": "bash_1"}, "Output of bash_1"),
        ("KillBash", {"bash_id": "bash_1"}, "End bash_1"),
        ("WebFetch", {"url": "https://x.org/a"}, "Fetch https://x.org/a"),
        ("TodoWrite", {"todos": [{}]}, "Plan of 1 steps"),
        ("ToolSearch", {"query": "issues"}, "Search tools: issues"),
        ("AskUserQuestion", {"question": "Which\none?" + "x" * 99}, "ask_user: Which one?" + "x" * 70),
        ("AskUserQuestion", {"questions": [{"question": "Why?"}]}, "ask_user: Why?"),
        ("AskUserQuestion", {"questions": ["Why?"]}, "ask_user: "),
        ("Skill", {"skill": "deploy", "args": "now"}, "Skill deploy now"),
        ("Read", {"file_path": 7}, "Read "),
        ("Bash", {}, "Execute: "),
        ("Read", {"file_path": "a\nb\u202ec\t "}, "Read a\\nb\\u202ec\\t "),
        ("Read", {"file_path": "x" * 600}, "Read " + "x" * 500 + "..."),
    ],
)
def test_a_call_is_described_in_one_line(
    all_tools: dict[str, Tool], name: str, args: dict[str, Any], line: str
) -> None:
    assert all_tools[name].describe(args) == line


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("value", [None, 3, "x", [], [3], {}, {"a": [{}]}, [{"question": 3}]])
def test_whatever_a_model_sends_is_described_and_answered(
    all_tools: dict[str, Tool], tmp_path: Path, name: str, value: Any
) -> None:
    tool = all_tools[name]
    args = {field: value for field in tool.spec.schema["properties"] if field not in ("command", "url")}
    assert "\n" not in tool.describe(args)
    tool.touches(args, str(tmp_path))

    async def run() -> None:
        context = FolderContext(tmp_path)
        await tool.run(args, context)
        await context.processes.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("Read", {}, "Missing required parameter: file_path"),
        ("Read", {"file_path": None}, "Missing required parameter: file_path"),
        ("Write", {"file_path": "x"}, "Missing required parameter: content"),
        ("Bash", {"timeout": 5}, "Missing required parameter: command"),
        ("Read", {"file_path": 3}, "Wrong parameter: Expected `str`, got `int` - at `$.file_path`"),
        ("Read", {"file_path": "x", "limit": -1}, "Wrong parameter: Expected `int` >= 0 - at `$.limit`"),
        ("Bash", {"command": "ls", "timeout": "x"}, "Wrong parameter: Expected `int`, got `str` - at `$.timeout`"),
        (
            "Write",
            {"file_path": "x", "content": "", "append": True},
            "Unknown parameter: append. Known ones: file_path, content",
        ),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_wrong(
    tmp_path: Path, name: str, args: dict[str, Any], words: str
) -> None:
    result = use(FolderContext(tmp_path), name, **args)
    assert (result.ok, result.output) == (False, words)


def test_a_command_with_a_parameter_that_could_matter_does_not_run(tmp_path: Path) -> None:
    refused = use(FolderContext(tmp_path), "Bash", command="touch here", cwd="/elsewhere")
    known = "command, timeout, description, run_in_background"
    assert (refused.ok, refused.output) == (False, f"Unknown parameter: cwd. Known ones: {known}")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_parameter_that_does_no_harm_is_ignored_and_the_result_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    read = use(FolderContext(tmp_path), "Read", file_path="a", pages="1-5", allow_large=None)
    assert (read.ok, read.output) == (True, "     1\tx\n\n(Read has no parameter pages: ignored.)")
    ran = use(FolderContext(tmp_path), "Bash", command="true", dangerouslyDisableSandbox=True)
    assert ran.ok
    assert ran.output.endswith("(Bash has no parameter dangerouslyDisableSandbox: ignored.)")


def test_numbers_may_come_as_strings(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\n")
    assert use(FolderContext(tmp_path), "Read", file_path="a", limit="1").output == "     1\tx"


def test_null_means_not_given(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert use(FolderContext(tmp_path), "Read", file_path="a", offset=None, limit=None).ok


def test_a_text_is_cut_in_the_middle_and_the_count_is_right() -> None:
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdefgh", 4) == "ab\n\n... [truncated 4 chars] ...\n\ngh"
    assert cut_middle("abcdefgh", 4, "f") == "ab\n\n... [truncated 4 chars; all of it is in f] ...\n\ngh"


@pytest.mark.parametrize("size", [1, 3, 7, 200])
def test_a_capture_keeps_both_ends_of_any_chunking(size: int) -> None:
    data = bytes(range(97, 123)) * 4
    capture = Capture(20)
    for at in range(0, len(data), size):
        capture.add(data[at : at + size])
    assert capture.text() == "abcdefghij\n\n... [truncated 84 bytes] ...\n\nqrstuvwxyz"
    assert capture.text(6, "see x") == "abc\n\n... [truncated 98 bytes; see x] ...\n\nxyz"
    assert capture.text(1000) == capture.text(), "what was not kept cannot be shown"


def test_a_short_capture_is_whole() -> None:
    capture = Capture(8)
    for data in (b"abcd", b"", b"efgh"):
        capture.add(data)
    assert capture.text() == "abcdefgh"
    assert capture.text(4) == "ab\n\n... [truncated 4 bytes] ...\n\ngh"
    capture.add(b"i")
    assert capture.text() == "abcd\n\n... [truncated 1 bytes] ...\n\nfghi"


def test_a_cut_never_shows_half_a_character() -> None:
    capture = Capture(9)
    capture.add("äöü€€€äöü".encode())
    assert capture.text() == "äö\n\n... [truncated 13 bytes] ...\n\nöü"
