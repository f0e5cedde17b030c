"""Edit: exact, unique, and never over someone else's change (P3)."""

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from doubles_tools import FolderContext, use
from polylect.tools.text.diff import unified_diff
from polylect.vocab.ports import ToolReturn
from thoroughness import up_to


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


def edit(context: FolderContext, data: bytes, old: str, new: str, *, replace_all: bool = False) -> ToolReturn:
    (Path(context.workspace) / "a.txt").write_bytes(data)
    use(context, "Read", file_path="a.txt")
    return use(context, "Edit", file_path="a.txt", old_string=old, new_string=new, replace_all=replace_all)


def test_the_result_is_a_unified_diff_with_the_path_as_given(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text("old line\nsame\n")
    path = str(tmp_path / "src" / "main.rs")
    use(context, "Read", file_path="src/main.rs")
    result = use(context, "Edit", file_path=path, old_string="old line", new_string="new line")
    diff = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,2 +1,2 @@\n-old line\n+new line\n same"
    assert result == ToolReturn(diff, form="diff", metadata={"file_path": path})


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "c", b"c\n"),
        (b"\xef\xbb\xbfa\nb", "a\nb", "c", b"\xef\xbb\xbfc"),
        (b"no newline", "no", "still no", b"still no newline"),
        (b"a\x0cb\xe2\x80\xa8c\n", "b", "d", b"a\x0cd\xe2\x80\xa8c\n"),
        (b"a\n", "a\n", "", b""),
    ],
)
def test_P3_only_what_was_asked_for_changes(
    context: FolderContext, tmp_path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    result = edit(context, before, old, new)
    assert result.ok, result.output
    assert (tmp_path / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("data", "old", "new", "words"),
    [
        (b"a a a", "a", "b", "Multiple matches found (3). Use replace_all or provide more context."),
        (b"abc", "x", "y", "old_string not found in file"),
        (b"abc", "a", "a", "nothing to change"),
        (b"abc", "", "y", "old_string is empty"),
        (b"caf\xe9", "c", "d", "not UTF-8"),
        (b"abc", "a", "\ud800", "half a character"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_changes(
    context: FolderContext, tmp_path: Path, data: bytes, old: str, new: str, words: str
) -> None:
    result = edit(context, data, old, new)
    assert not result.ok
    assert words in result.output
    assert (tmp_path / "a.txt").read_bytes() == data


def test_replace_all_replaces_all(context: FolderContext, tmp_path: Path) -> None:
    assert edit(context, b"a b a b a", "a", "c", replace_all=True).ok
    assert (tmp_path / "a.txt").read_bytes() == b"c b c b c"


def test_a_file_has_to_be_read_first(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    result = use(context, "Edit", file_path="a.txt", old_string="a", new_string="b")
    assert (result.ok, result.output) == (
        False,
        "Read a.txt first: a file can only be edited once you have seen it.",
    )


def test_a_missing_file_is_a_matter_for_write(context: FolderContext) -> None:
    result = use(context, "Edit", file_path="a.txt", old_string="", new_string="b")
    assert (result.ok, result.output) == (False, "a.txt does not exist. Use Write to create it.")


def test_P3_a_file_that_changed_since_it_was_read_is_refused(context: FolderContext, tmp_path: Path) -> None:
    assert edit(context, b"one two", "one", "1").ok
    assert use(context, "Edit", file_path="a.txt", old_string="two", new_string="2").ok
    (tmp_path / "a.txt").write_text("1 2 and more")
    result = use(context, "Edit", file_path="a.txt", old_string="1", new_string="one")
    assert not result.ok
    assert "changed since it was read" in result.output
    assert os.listdir(tmp_path) == ["a.txt"]


def test_P3_a_change_that_sets_the_time_back_is_a_change(context: FolderContext, tmp_path: Path) -> None:
    assert edit(context, b"one two", "one", "1").ok
    before = (tmp_path / "a.txt").stat()
    (tmp_path / "a.txt").write_bytes(b"1 owt")
    os.utime(tmp_path / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    for name, args in (("Edit", {"old_string": "1", "new_string": "one"}), ("Write", {"content": "mine"})):
        result = use(context, name, file_path="a.txt", **args)
        assert not result.ok, name
        assert "changed since it was read" in result.output
    assert (tmp_path / "a.txt").read_bytes() == b"1 owt"


def test_P3_new_rights_and_new_links_are_no_change(context: FolderContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert edit(context, b"one two", "one", "1").ok
    path.chmod(0o755)
    assert use(context, "Edit", file_path="a.txt", old_string="two", new_string="2").ok
    os.link(path, tmp_path / "b.txt")
    assert use(context, "Edit", file_path="a.txt", old_string="1", new_string="one").ok
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"one 2", 0o755)


def test_P3_attributes_are_kept_where_the_system_has_them(context: FolderContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one")
    expected = {}
    with suppress(OSError):
        os.setxattr(path, "user.origin", b"here")
        expected["user.origin"] = b"here"
    use(context, "Read", file_path="a.txt")
    assert use(context, "Edit", file_path="a.txt", old_string="one", new_string="two").ok
    assert use(context, "Write", file_path="a.txt", content="three").ok
    attributes = {key: os.getxattr(path, key) for key in os.listxattr(path) if key.startswith("user.")}
    assert (path.read_bytes(), attributes) == (b"three", expected)


def test_a_huge_replacement_is_shown_in_bounds(context: FolderContext) -> None:
    result = edit(context, b"ab\n" * 50_000, "a", "c", replace_all=True)
    assert result.ok
    assert len(result.output) < 10_200
    assert "truncated" in result.output


TEXTS = some.lists(some.sampled_from(["a\n", "b\n", "c\n", "d\r\n", "\n", "é \u2028\n"]), max_size=30).map("".join)


@settings(max_examples=up_to(40), deadline=None)
@given(old=TEXTS, new=TEXTS, ends=some.tuples(some.sampled_from(["", "x"]), some.sampled_from(["", "y", "x"])))
def test_a_diff_turns_the_old_text_into_the_new_one(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, ends: tuple[str, str]
) -> None:
    before, after = old + ends[0], new + ends[1]
    folder = tmp_path_factory.mktemp("diff")
    (folder / "f").write_bytes(before.encode())
    diff = unified_diff("f", before, after)
    if before == after:
        assert diff == "--- a/f\n+++ b/f"
        return
    command = ("git", "apply", "--whitespace=nowarn", "--unidiff-zero", "-")
    subprocess.run(command, input=(diff + "\n").encode(), cwd=folder, check=True)
    assert (folder / "f").read_bytes() == after.encode()
