"""Glob and Grep, with ripgrep and with what takes its place."""

import os
import tracemalloc
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use, with_worker
from polylect.tools.files import file_access
from polylect.tools.process.programs import find_ripgrep
from polylect.tools.text.search_results import Matches
from polylect.tools.worker import searching

SEARCHERS = ["ours", *(["ripgrep"] if find_ripgrep() else [])]


@pytest.fixture(params=SEARCHERS)
def context(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderContext:
    if request.param == "ours":
        monkeypatch.setattr(searching, "find_ripgrep", lambda: "")
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
    assert lines[-1] == "(150 more lines: go on with offset 250, or search for something narrower)"


def test_a_pattern_that_never_ends_is_ended(
    context: FolderContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_access, "SEARCH_TIMEOUT", 0.5)
    with_worker(context)
    (tmp_path / "evil.txt").write_text("a" * 5000 + "!\n")
    result = use(context, "Grep", pattern="(a|aa)+$", path="evil.txt")
    assert "took longer" in result.output or result.output == "No matches found"  # ripgrep cannot be lured


def test_grep_shows_lines_around_a_match(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("".join(f"n{number}\n" for number in range(1, 21)))
    assert use(context, "Grep", pattern="^n10$", path="n.txt", **{"-C": 1}).output == (
        "n.txt-9-n9\nn.txt:10:n10\nn.txt-11-n11"
    )
    apart = use(context, "Grep", pattern="^n(3|4|18)$", path="n.txt", **{"-B": 1, "-A": 2}).output
    assert apart.split("\n") == [
        *("n.txt-2-n2", "n.txt:3:n3", "n.txt:4:n4", "n.txt-5-n5", "n.txt-6-n6"),
        "--",
        *("n.txt-17-n17", "n.txt:18:n18", "n.txt-19-n19", "n.txt-20-n20"),
    ]


def test_grep_has_the_flags_that_models_know(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("One two\none\nthree\n")
    base = {"pattern": "one", "path": "n.txt"}
    assert use(context, "Grep", **base, **{"-n": True}).output == "n.txt:2:one"
    assert use(context, "Grep", **base, **{"-n": False}).output == "n.txt:one"
    assert use(context, "Grep", **base, **{"-n": False, "-A": 1}).output == "n.txt:one\nn.txt-three"
    assert use(context, "Grep", **base, **{"-i": True, "-o": True}).output == "n.txt:1:One\nn.txt:2:one"
    assert use(context, "Grep", **base, context=1).output == "n.txt-1-One two\nn.txt:2:one\nn.txt-3-three"
    assert use(context, "Grep", **base, **{"-C": "500"}).output == use(context, "Grep", **base, context=1).output
    assert use(context, "Grep", pattern="t[a-z]+", path="n.txt", **{"-o": True}).output == "n.txt:1:two\nn.txt:3:three"
    assert use(context, "Grep", **base, output_mode="count", **{"-n": False}).output == "n.txt:1"


def test_grep_goes_on_where_a_page_ended(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("".join(f"word {number}\n" for number in range(600)))
    whole = [f"n.txt:{number + 1}:word {number}" for number in range(600)]
    shown: list[str] = []
    for _ in range(3):
        lines = use(context, "Grep", pattern="word", path="n.txt", offset=len(shown)).output.split("\n")
        shown += [line for line in lines if not line.startswith("(")]
        more = 600 - len(shown)
        note = f"({more} more lines: go on with offset {len(shown)}, or search for something narrower)"
        assert lines[-1] == (note if more else whole[-1])
    assert shown == whole
    assert use(context, "Grep", pattern="word", path="n.txt", head_limit=0).output.split("\n") == whole
    named = use(context, "Grep", pattern="h", output_mode="files_with_matches", offset=1, head_limit=1).output
    assert named.split("\n")[0] == "b.txt"
    past = use(context, "Grep", pattern="word", path="n.txt", offset=900)
    assert (past.ok, past.output) == (True, "(There are only 600 lines: offset 900 is past their end.)")


def test_grep_without_a_limit_still_fits_and_says_where_to_go_on(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text(f"{'w' * 400}\n" * 600)
    shown = 0
    for _ in range(30):
        output = use(context, "Grep", pattern="w", path="n.txt", head_limit=0, offset=shown).output
        assert len(output) < 20_200
        shown += sum(not line.startswith("(") for line in output.split("\n"))
        if shown == 600:
            break
        assert f"go on with offset {shown}," in output
    assert shown == 600


def test_grep_can_match_over_several_lines(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(\n    a,\n):\n    pass\nf(1)\n")
    assert use(context, "Grep", pattern=r"f\(.a").output == "No matches found"
    output = use(context, "Grep", pattern=r"def f\(.*?\):", multiline=True).output
    assert output == "m.py:1:def f(\nm.py:2:    a,\nm.py:3:):"
    counted = use(context, "Grep", pattern=r"^f\(1\)$", multiline=True, path="m.py", output_mode="count").output
    assert counted == "m.py:1"


def test_grep_can_keep_to_a_kind_of_file(context: FolderContext) -> None:
    assert use(context, "Grep", pattern="hello", type="py").output == "src/c.py:1:hello = 1"
    assert use(context, "Grep", pattern="y", type="ts").output == "src/deep/e.tsx:1:y"
    wrong = use(context, "Grep", pattern="y", type="klingon")
    assert not wrong.ok
    assert "unrecognized file type: klingon" in wrong.output


def test_grep_shows_as_many_as_it_is_asked_for_and_always_the_same(context: FolderContext, tmp_path: Path) -> None:
    """Several files are searched at once and come in any order; what is shown does not depend on it."""
    for folder in ("a", "a-b", "a.b", "b"):
        (tmp_path / "w" / folder).mkdir(parents=True)
        for name in ("x", "y"):
            (tmp_path / "w" / folder / name).write_text("word\n" * 300)
    whole = [
        f"w/{folder}/{name}:{line}:word"
        for folder in ("a", "a-b", "a.b", "b")
        for name in "xy"
        for line in range(1, 301)
    ]
    for limit in (1, 299, 301, 700):
        lines = use(context, "Grep", pattern="word", path="w", head_limit=limit).output.split("\n")
        shown = [line for line in lines if not line.startswith(("(", "\n")) and "truncated" not in line and line]
        assert lines[0] == whole[0]
        assert shown == whole[:limit]
        assert lines[-1].startswith(f"({2400 - limit} more lines")
    named = use(context, "Grep", pattern="word", path="w", head_limit=3, output_mode="files_with_matches").output
    assert named.split("\n")[:3] == ["w/a/x", "w/a/y", "w/a-b/x"]
    assert named.split("\n")[3].startswith("(5 more lines")


def test_glob_lists_as_many_as_it_is_asked_for(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(130):
        (tmp_path / "many" / f"{number}.x").touch()
        os.utime(tmp_path / "many" / f"{number}.x", (number, number))
    assert use(context, "Glob", pattern="many/*.x", head_limit=2).output.split("\n")[:2] == ["many/129.x", "many/128.x"]
    assert len(use(context, "Glob", pattern="many/*.x", head_limit=1000).output.split("\n")) == 130


def test_P5_a_search_from_above_does_not_look_at_processes(
    context: FolderContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Read may not read does not come in with the rest. A folder stands for /proc, and its parent for /."""
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "1" / "environ").write_text("KEY=secret\n")
    (tmp_path / "src" / "proc").mkdir()
    (tmp_path / "src" / "proc" / "mine").write_text("KEY=mine\n")
    assert "environ" in use(context, "Glob", pattern="**/*").output
    monkeypatch.setattr(searching, "PROC", str(tmp_path / "proc"))
    assert "environ" not in use(context, "Glob", pattern="**/*").output
    assert use(context, "Grep", pattern="KEY").output == "src/proc/mine:1:KEY=mine"


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_a_result_may_come_in_any_pieces(size: int) -> None:
    data = b"/w/b\0001:one\n--\n/w/b\0009-nine\n/w/a\0002:two\r\n/w/c\0003:" + b"z" * 50_000 + b"\n"
    matches = Matches(lambda path: path.removeprefix("/w/"), 10)
    for at in range(0, len(data), size):
        matches.add(data[at : at + size])
    lines = matches.text(0, 20_000, numbers=True).split("\n")
    assert lines[:4] == ["a:2:two", "b:1:one", "--", "b-9-nine"]
    assert lines[4] == f"c:3:{'z' * 498} ... [line cut]"
    assert matches.total == 4


def test_a_line_of_any_length_is_cut_as_it_comes() -> None:
    matches = Matches(lambda path: path.removeprefix("/w/"), 10)
    matches.add(b"/w/long.txt\0" + b"1:")
    piece = b"x" * 262_144
    tracemalloc.start()
    try:
        for _ in range(400):
            matches.add(piece)
        matches.add(b"x\n/w/short.txt\0001:y\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert matches.text(0, 20_000, numbers=True) == f"long.txt:1:{'x' * 498} ... [line cut]\nshort.txt:1:y"
    assert peak < 3 * len(piece)


def test_a_flood_of_matches_is_counted_and_not_kept() -> None:
    matches = Matches(lambda path: path.removeprefix("/w/"), 5)
    files = [b"/w/%03d" % number for number in range(200)]
    for path in reversed(files):
        matches.add(b"".join(b"%s\0%d:x\n" % (path, line) for line in range(1, 51)))
    assert matches.text(0, 20_000, numbers=True).split("\n") == [
        *(f"000:{line}:x" for line in range(1, 6)),
        "(9995 more lines: go on with offset 5, or search for something narrower)",
    ]
    assert sum(map(len, matches._files.values())) < 1100
