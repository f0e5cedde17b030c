"""Read: numbered lines, in parts, of files only."""

import asyncio
import base64
import json
import os
import socket
import time
from pathlib import Path

import pytest

from doubles_tools import FolderContext, use
from machine import cpu
from polylect.tools.standard import standard_tools
from polylect.tools.text.line_pages import MOST
from polylect.tools.worker.reading import MOST_IMAGE
from polylect.vocab.content import Image
from polylect.vocab.ports import ToolReturn


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


def test_lines_have_numbers_and_tabs_and_no_final_newline(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


@pytest.mark.parametrize(
    ("offset", "limit", "numbers"),
    [(1, 2, [1, 2]), (0, 2, [1, 2]), (3, 0, [3, 4, 5]), (4, 1, [4]), (5, 9, [5]), (1, 0, [1, 2, 3, 4, 5])],
)
def test_a_part_is_shown_with_its_own_numbers(
    context: FolderContext, tmp_path: Path, offset: int, limit: int, numbers: list[int]
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5")
    output = use(context, "Read", file_path="a.txt", offset=offset, limit=limit).output
    assert output == "\n".join(f"{number:6d}\t{number}" for number in numbers)


def test_an_offset_past_the_end_says_how_long_the_file_is(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    result = use(context, "Read", file_path="a.txt", offset=3)
    assert (result.ok, result.output) == (False, "a.txt has only 2 lines: offset 3 is past its end.")


@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize(
    ("offset", "limit", "numbers"),
    [(-1, 0, [-1]), (-2, 0, [-2, -1]), (-4, 2, [-4, -3]), (-5, 0, [-5, -4, -3, -2, -1]), (-9, 1, [-5])],
)
def test_a_negative_offset_counts_from_the_end(
    context: FolderContext, tmp_path: Path, ending: str, offset: int, limit: int, numbers: list[int]
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5" + ending)
    output = use(context, "Read", file_path="a.txt", offset=offset, limit=limit).output
    assert output == "\n".join(f"{number:6d}\t{number + 6}" for number in numbers)


def test_the_end_of_an_empty_file_is_empty(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert use(context, "Read", file_path="a.txt", offset=-5).output == "(empty file)"
    (tmp_path / "a.txt").write_text("\n\n")
    assert use(context, "Read", file_path="a.txt", offset=-5).output == "    -2\t\n    -1\t"


def test_the_end_of_a_huge_file_is_found_without_reading_it(context: FolderContext, tmp_path: Path) -> None:
    """A gigabyte takes a good part of a second to read, and 50 ms is what its end may take."""
    with (tmp_path / "a.log").open("wb") as file:
        file.write(b"first\n" * 10_000)
        file.seek(1_000_000_000)  # a hole: the size counts, not what is in it
        file.write(b"\n" + b"".join(b"line %d\n" % number for number in range(200)))
    read = standard_tools()["Read"]

    async def seconds() -> float:
        context.touched = read.touches({"file_path": "a.log"}, context.workspace)
        began = time.perf_counter()
        result = await read.run({"file_path": "a.log", "offset": -100}, context)
        assert result.output.startswith("  -100\tline 100\n")
        assert result.output.endswith("    -1\tline 199")
        return time.perf_counter() - began

    assert min(asyncio.run(seconds()) for _ in range(5)) < cpu(0.05)


def test_the_end_of_a_long_file_is_read_part_by_part_without_a_gap(context: FolderContext, tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 80}" for number in range(5000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    offset = -4000
    while offset:
        output = use(context, "Read", file_path="a.txt", offset=offset).output
        text, _, note = output.partition("\n\n(There is more: go on with offset ")
        seen += [line.split("\t", 1)[1] for line in text.split("\n")]
        offset = int(note.removesuffix(".)") or 0)
    assert seen == lines[1000:]


def test_a_long_last_line_has_no_next_one(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("y" * 200_000 + "\n" + "z" * 200_000)
    assert use(context, "Read", file_path="a.txt", offset=-1).output.endswith("z\n\n(Line -1 is cut here.)")
    cut = use(context, "Read", file_path="a.txt", offset=-2).output
    assert cut.endswith("y\n\n(Line -2 is cut here. The next one is at offset -1.)")


def test_a_byte_order_mark_and_carriage_returns_are_not_shown(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\tone\n     2\ttwo"


def test_broken_utf8_is_replaced_and_other_separators_are_text(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\xffb\nx\xe2\x80\xa8y\x0cz\n")
    assert use(context, "Read", file_path="a.txt").output == "     1\ta\ufffdb\n     2\tx\u2028y\x0cz"


def test_a_binary_file_is_named_and_not_shown(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"ab\0cd")
    assert use(context, "Read", file_path="a.bin").output == "(binary file, 5 bytes)"


def test_a_pdf_is_named_as_what_it_is(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n%text\n")
    assert use(context, "Read", file_path="a.pdf").output.startswith("(binary file, 15 bytes: a PDF.")


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_a_picture_is_known_by_its_content_and_shown(
    context: FolderContext, tmp_path: Path, data: bytes, media: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    result = use(context, "Read", file_path="a.txt")
    image = Image(media, base64.b64encode(data).decode())
    assert result == ToolReturn(f"({media}, {len(data)} bytes)", form="image", images=(image,))


def test_a_picture_that_vendors_refuse_is_refused(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * MOST_IMAGE)
    result = use(context, "Read", file_path="a.png")
    assert not result.ok
    assert not result.images
    assert "Make it smaller first" in result.output


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": "print(1)\nplot()",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mOh\x1b[0m", "  at 1"]},
                {"output_type": "execute_result", "data": {"text/plain": "z" * 10_001}},
            ],
        },
        {"cell_type": "code", "source": [], "outputs": []},
    ]
}
CELLS = f"""\
--- cell 1 (markdown) ---
# Title
words

--- cell 2 (code, run 3) ---
print(1)
plot()
--- output ---
1
--- output ---
(image/png, 4 characters, not shown)
<Figure>
--- output ---
Oh
  at 1
--- output ---
{"z" * 10_000}
... [1 more characters]

--- cell 3 (code) ---"""


def test_a_notebook_is_shown_as_its_cells(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(json.dumps(NOTEBOOK))
    output = use(context, "Read", file_path="a.ipynb").output
    assert output == "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(CELLS.split("\n"), 1))
    assert use(context, "Read", file_path="a.ipynb", offset=5, limit=1).output == "     5\t--- cell 2 (code, run 3) ---"
    assert use(context, "Read", file_path="a.ipynb", offset=-1).output == "    20\t--- cell 3 (code) ---"


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', '{"cells": [{"source": 3}]}'])
def test_a_notebook_that_is_none_is_text(context: FolderContext, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    assert use(context, "Read", file_path="a.ipynb").output == f"     1\t{text}"


def test_an_empty_file_says_so(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert use(context, "Read", file_path="a").output == "(empty file)"


def test_a_long_file_is_read_part_by_part_without_a_gap(context: FolderContext, tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 80}" for number in range(5000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        output = use(context, "Read", file_path="a.txt", offset=len(seen) + 1).output
        assert len(output) < MOST + 200
        text, _, note = output.partition("\n\n(")
        seen += [line.split("\t", 1)[1] for line in text.split("\n")]
        assert note == ("" if len(seen) == len(lines) else f"There is more: go on with offset {len(seen) + 1}.)")
    assert seen == lines


def test_a_huge_file_is_skipped_through_in_little_memory(context: FolderContext, tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.write(b"first\n")
        for _ in range(30):
            file.write(b"y" * 1_000_000 + b"\n")
        file.write(b"last")
    assert use(context, "Read", file_path="a.txt", offset=32).output == "    32\tlast"
    result = use(context, "Read", file_path="a.txt", offset=2)
    assert result.output.endswith("(Line 2 is cut here. The next one is at offset 3.)")
    assert MOST <= len(result.output) < MOST + 200


def test_a_missing_file_is_answered_with_what_is_there(context: FolderContext, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    result = use(context, "Read", file_path="src/mian.py")
    assert not result.ok
    assert result.output == f"Failed to read file src/mian.py: there is none. Did you mean {tmp_path}/src/main.py?"
    assert f"{tmp_path}/src?" in use(context, "Read", file_path="scr/main.py").output
    assert f"what is in {tmp_path}." in use(context, "Read", file_path="zzzzzzz").output


def test_what_is_not_a_file_is_refused_at_once(
    context: FolderContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")  # a whole path may be too long for it
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
