"""Glob and Grep, with ripgrep and with what takes its place."""

import os
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use
from polylect.tools import ripgrep
from polylect.tools.programs import find_program

SEARCHERS = ["ours", *(["ripgrep"] if find_program("rg", os.environ) else [])]


@pytest.fixture(params=SEARCHERS)
def context(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderContext:
    if request.param == "ours":
        monkeypatch.setattr(ripgrep, "find_program", lambda name, env: "")
    files = {
        "a.py": "import os\nprint('Hello')\n",
        "b.txt": "hello\r\n-dash\n",
        "src/c.py": "hello = 1\n",
        "src/deep/d.ts": "x\n",
        "src/deep/e.tsx": "y\n",
        ".hidden/f.py": "hidden\n",
        ".git/g.py": "hello\n",
        "built/h.py": "hello\n",
        ".gitignore": "built/\n*.log\n!keep.log\n",
        "x.log": "hello\n",
        "keep.log": "kept\n",
    }
    for age, (name, text) in enumerate(files.items()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (10_000 - age, 10_000 - age))
    return FolderContext(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/c.py", ".hidden/f.py"]),
        ("src/**/*.{ts,tsx}", ["src/deep/d.ts", "src/deep/e.tsx"]),
        ("src/*", ["src/c.py"]),
        ("src/**", ["src/c.py", "src/deep/d.ts", "src/deep/e.tsx"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("?.txt", ["b.txt"]),
        ("**/*.log", ["keep.log"]),
        ("a.py", ["a.py"]),
        ("src/deep/d.ts", ["src/deep/d.ts"]),
    ],
)
def test_glob_lists_newest_first_relative_to_the_workspace(
    context: FolderContext, pattern: str, names: list[str]
) -> None:
    result = use(context, "Glob", pattern=pattern)
    assert (result.ok, result.output.split("\n")) == (True, names)


def test_glob_below_a_folder_still_names_files_from_the_workspace(context: FolderContext) -> None:
    assert use(context, "Glob", pattern="deep/*.ts", path="src").output == "src/deep/d.ts"
    assert use(context, "Glob", pattern="*.ts", path=f"{context.workspace}/src/deep").output == "src/deep/d.ts"
    assert use(context, "Glob", pattern=f"{context.workspace}/src/*.py").output == "src/c.py"


@pytest.mark.parametrize("pattern", ["*.none", "missing/*.py", "-x", "{"])
def test_glob_without_a_match_is_no_fault(context: FolderContext, pattern: str) -> None:
    if pattern == "{":
        assert not use(context, "Glob", pattern=pattern).ok
        return
    result = use(context, "Glob", pattern=pattern)
    assert (result.ok, result.output) == (True, "No files matched the pattern")


def test_glob_in_a_missing_folder_is_one(context: FolderContext) -> None:
    assert not use(context, "Glob", pattern="*", path="missing").ok


def test_glob_shows_a_hundred_and_says_how_many_more(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(130):
        (tmp_path / "many" / f"{number}.x").touch()
    lines = use(context, "Glob", pattern="many/*.x").output.split("\n")
    assert len(lines) == 101
    assert lines[-1] == "(30 more files match: use a narrower pattern to see them)"


def test_grep_shows_file_line_and_text(context: FolderContext) -> None:
    assert use(context, "Grep", pattern="hello").output == "b.txt:1:hello\nsrc/c.py:1:hello = 1"
    assert use(context, "Grep", pattern="^hel+o", path="src").output == "src/c.py:1:hello = 1"
    assert use(context, "Grep", pattern="hello", path="b.txt").output == "b.txt:1:hello"


def test_grep_can_ignore_case_and_keep_to_some_files(context: FolderContext) -> None:
    everything = use(context, "Grep", pattern="HELLO", case_insensitive=True).output
    assert everything == "a.py:2:print('Hello')\nb.txt:1:hello\nsrc/c.py:1:hello = 1"
    assert use(context, "Grep", pattern="hello", glob="*.py").output == "src/c.py:1:hello = 1"
    assert use(context, "Grep", pattern="y", glob="src/**/*.{ts,tsx}").output == "src/deep/e.tsx:1:y"


def test_grep_can_name_files_or_count(context: FolderContext) -> None:
    assert use(context, "Grep", pattern="hello", output_mode="files_with_matches").output == "b.txt\nsrc/c.py"
    assert use(context, "Grep", pattern="hello", output_mode="count").output == "b.txt:1\nsrc/c.py:1"


@pytest.mark.parametrize("pattern", ["-dash", "--files", "-"])
def test_a_pattern_that_looks_like_an_option_is_a_pattern(context: FolderContext, pattern: str) -> None:
    result = use(context, "Grep", pattern=pattern)
    assert result.ok
    assert result.output in ("b.txt:2:-dash", "No matches found")


def test_grep_without_a_match_is_no_fault(context: FolderContext) -> None:
    result = use(context, "Grep", pattern="nowhere to be found")
    assert (result.ok, result.output) == (True, "No matches found")


def test_grep_with_a_broken_pattern_or_a_missing_folder_is_one(context: FolderContext) -> None:
    result = use(context, "Grep", pattern="(")
    assert not result.ok
    assert "regex parse error" in result.output
    assert use(context, "Grep", pattern="x", path="missing").output == "missing does not exist."


def test_grep_cuts_long_lines_and_long_answers(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("z" * 5000 + "\n" + "q\n" * 400)
    assert use(context, "Grep", pattern="zzz").output == f"long.txt:1:{'z' * 498} ... [line cut]"
    lines = use(context, "Grep", pattern="q", path="long.txt").output.split("\n")
    assert len(lines) == 251
    assert lines[0] == "long.txt:2:q"
    assert lines[-1] == "(150 more lines: search a smaller folder or a narrower pattern to see them)"


def test_a_pattern_that_never_ends_is_ended(
    context: FolderContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "TIMEOUT", 0.5)
    (tmp_path / "evil.txt").write_text("a" * 5000 + "!\n")
    result = use(context, "Grep", pattern="(a|aa)+$", path="evil.txt")
    assert "took longer" in result.output or result.output == "No matches found"  # ripgrep cannot be lured
