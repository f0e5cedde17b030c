"""Write: whole files, whole or not at all (P3)."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use
from polylect.tools.files.regular_files import Stamp, replace
from polylect.vocab.errors import ToolError


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


@pytest.mark.parametrize(("content", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2)])
def test_a_new_file_is_created_with_its_folders(
    context: FolderContext, tmp_path: Path, content: str, lines: int
) -> None:
    result = use(context, "Write", file_path="x/y/z.txt", content=content)
    assert (result.ok, result.output) == (True, f"Created x/y/z.txt ({lines} lines)")
    assert (result.form, result.metadata) == ("text", {"file_path": "x/y/z.txt"})
    assert (tmp_path / "x/y/z.txt").read_bytes() == content.encode()
    assert os.listdir(tmp_path / "x/y") == ["z.txt"]


def test_P3_mode_bits_and_line_endings_are_kept(context: FolderContext, tmp_path: Path) -> None:
    path = tmp_path / "run.bat"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o4750)
    assert use(context, "Write", file_path="run.bat", content="three\nfour\n").output == "Updated run.bat (2 lines)"
    assert path.read_bytes() == b"three\r\nfour\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o4750


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"\xef\xbb\xbfold", "new", b"\xef\xbb\xbfnew"),
        (b"\xef\xbb\xbfold\r\n", "new\n", b"\xef\xbb\xbfnew\r\n"),
        (b"\xef\xbb\xbfold", "\ufeffnew", b"\xef\xbb\xbfnew"),
        (b"\xef\xbb\xbfold", "", b""),
        (b"old", "new", b"new"),
        (b"old", "\ufeffnew", b"\xef\xbb\xbfnew"),
    ],
)
def test_P3_the_mark_of_utf_8_is_kept_as_line_endings_are(
    context: FolderContext, tmp_path: Path, before: bytes, content: str, after: bytes
) -> None:
    (tmp_path / "a").write_bytes(before)
    assert use(context, "Write", file_path="a", content=content).ok
    assert (tmp_path / "a").read_bytes() == after


def test_a_new_file_gets_the_mode_that_the_umask_gives(context: FolderContext, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        use(context, "Write", file_path="a", content="")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_P3_an_open_reader_sees_the_old_file_whole(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with (tmp_path / "a").open() as reader:
        use(context, "Write", file_path="a", content="new")
        assert reader.read() == "old"
    assert (tmp_path / "a").read_text() == "new"


def test_P3_a_file_changed_since_it_was_read_is_not_overwritten(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    use(context, "Read", file_path="a")
    (tmp_path / "a").write_text("someone else's")
    result = use(context, "Write", file_path="a", content="mine")
    assert not result.ok
    assert "Read it again" in result.output
    assert (tmp_path / "a").read_text() == "someone else's"
    use(context, "Read", file_path="a")
    assert use(context, "Write", file_path="a", content="mine").ok
    assert use(context, "Write", file_path="a", content="mine again").ok


def test_P3_a_change_between_look_and_rename_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    before = Stamp(path.stat())
    path.write_text("someone else's")
    with pytest.raises(ToolError, match="just now"):
        replace("a", str(path), b"mine", before)
    with pytest.raises(ToolError, match="just now"):
        replace("a", str(path), b"mine", None)
    assert path.read_text() == "someone else's"
    assert os.listdir(tmp_path) == ["a"]


def test_P3_a_write_that_fails_leaves_nothing_behind(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path, content in (("folder", "x"), ("file/x", "x"), ("half", "\ud800"), ("y" * 300, "x")):
        assert not use(context, "Write", file_path=path, content=content).ok
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
@pytest.mark.parametrize("before", [None, "old"], ids=["new", "old"])
def test_P3_a_kill_in_the_middle_of_a_write_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, before: str | None
) -> None:
    path = tmp_path / "a"
    if before:
        path.write_text(before)
    killed = (
        "import os, signal, sys; from polylect.tools.files import regular_files as files\n"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "path = sys.argv[1]; old = files.Stamp(os.stat(path)) if os.path.exists(path) else None\n"
        "files.replace('a', path, b'new' * 100000, old)"
    )
    done = subprocess.run([sys.executable, "-c", killed, str(path)], timeout=20, check=False)
    assert done.returncode == -signal.SIGKILL
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == ({"a": before} if before else {})


def test_P3_where_files_have_to_have_a_name_a_write_is_whole_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polylect.tools.files.regular_files._NAMELESS", 0)
    path = tmp_path / "a"
    replace("a", str(path), b"one", None)
    replace("a", str(path), b"two", Stamp(path.stat()))
    with pytest.raises(ToolError, match="just now"):
        replace("a", str(path), b"three", None)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"a": "two"}


def test_through_a_symlink_the_file_is_written_and_the_link_stays(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    assert use(context, "Write", file_path="link", content="new").ok
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
