"""Read: numbered lines, in parts, of files only."""

import os
import socket
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use
from polylect.tools.read import MOST


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


def test_lines_have_numbers_and_tabs_and_no_final_newline(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


@pytest.mark.parametrize(
    ("offset", "limit", "numbers"),
    [(0, 2, [1, 2]), (2, 0, [3, 4, 5]), (3, 1, [4]), (4, 9, [5]), (0, 0, [1, 2, 3, 4, 5])],
)
def test_a_part_is_shown_with_its_own_numbers(
    context: FolderContext, tmp_path: Path, offset: int, limit: int, numbers: list[int]
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5")
    output = use(context, "Read", file_path="a.txt", offset=offset, limit=limit).output
    assert output == "\n".join(f"{number:6d}\t{number}" for number in numbers)


def test_an_offset_past_the_end_says_how_long_the_file_is(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    result = use(context, "Read", file_path="a.txt", offset=2)
    assert (result.ok, result.output) == (False, "a.txt has only 2 lines: offset 2 is past its end.")


def test_a_byte_order_mark_and_carriage_returns_are_not_shown(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\tone\n     2\ttwo"


def test_broken_utf8_is_replaced_and_other_separators_are_text(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\xffb\nx\xe2\x80\xa8y\x0cz\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\ta\ufffdb\n     2\tx\u2028y\x0cz"


def test_a_binary_file_is_named_and_not_shown(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"ab\0cd")
    assert use(context, "Read", file_path="a.bin").output == "(binary file, 5 bytes)"


def test_an_empty_file_says_so(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert use(context, "Read", file_path="a").output == "(empty file)"


def test_a_long_file_is_read_part_by_part_without_a_gap(context: FolderContext, tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 80}" for number in range(5000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    found: list[str] = []
    while len(found) < len(lines):
        output = use(context, "Read", file_path="a.txt", offset=len(found)).output
        assert len(output) < MOST + 200
        text, _, note = output.partition("\n\n(")
        found += [line.split("\t", 1)[1] for line in text.split("\n")]
        assert note == ("" if len(found) == len(lines) else f"There is more: go on with offset {len(found)}.)")
    assert found == lines


def test_a_huge_file_is_skipped_through_in_little_memory(context: FolderContext, tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.write(b"first\n")
        for _ in range(30):
            file.write(b"y" * 1_000_000 + b"\n")
        file.write(b"last")
    assert use(context, "Read", file_path="a.txt", offset=31).output == "    32\tlast"
    result = use(context, "Read", file_path="a.txt", offset=1)
    assert result.output.endswith("(Line 2 is cut here. The next one is at offset 2.)")
    assert MOST <= len(result.output) < MOST + 200


def test_a_missing_file_is_answered_with_what_is_there(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    result = use(context, "Read", file_path="src/mian.py")
    assert not result.ok
    assert result.output == f"Failed to read file src/mian.py: there is none. Did you mean {tmp_path}/src/main.py?"
    assert f"{tmp_path}/src?" in use(context, "Read", file_path="scr/main.py").output
    assert f"what is in {tmp_path}." in use(context, "Read", file_path="zzzzzzz").output


def test_what_is_not_a_file_is_refused_at_once(context: FolderContext, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
    (tmp_path / "loop").symlink_to("loop")
    context.roots = (*context.roots, "/dev")
    words = {"pipe": "is a pipe", "sock": "is a socket", "/dev/zero": "is a device", ".": "use Glob", "loop": "symlink"}
    for path, part in words.items():
        result = use(context, "Read", file_path=path)
        assert not result.ok
        assert part in result.output, result.output


def test_reading_is_remembered_by_real_path(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to("a.txt")
    use(context, "Read", file_path="link")
    status = (tmp_path / "a.txt").stat()
    assert context.seen == {str(tmp_path / "a.txt"): (status.st_mtime_ns, status.st_size)}
