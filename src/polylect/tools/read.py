"""Read: a text file with line numbers, a notebook, or a picture."""

import asyncio
import os
from binascii import b2a_base64
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.files import MOST_EDITED, Stamp, opened_file
from polylect.tools.pages import Page, find_last_lines
from polylect.tools.paths import admit, real_paths
from polylect.vocab.content import Category, Image
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Shows a text file of the workspace, each line with its number (from 1) and a tab before it.
A long file is shown in parts: the answer then says which offset to go on with. A negative offset counts from the end:
-100 shows the last 100 lines, numbered from the end, however large the file is. Pictures (PNG, JPEG, GIF, WebP) are
shown as such, notebooks as their cells. Read a file before you change it with Edit. For a folder use Glob."""

MOST_IMAGE = 3_750_000
"""Bytes of a picture; as base64 they are 5 MB, which is what vendors take."""
_SNIFF = 8192
_CHUNK = 256 * 1024


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    offset: Annotated[
        int, Meta(description="How many lines to skip first; if negative, where to begin from the end.")
    ] = 0
    limit: Annotated[int, Meta(ge=0, description="How many lines to show at most; 0 for as many as fit.")] = 0


class Read(TypedTool[Arguments]):
    name = "Read"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Read {shown(args, 'file_path')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, "file_path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        real = admit(args.file_path, context)
        try:
            with opened_file(args.file_path, real) as file:
                status = os.fstat(file)
                returned = await _show(file, status.st_size, args)
        except (FileNotFoundError, NotADirectoryError):
            raise ToolError(f"Failed to read file {args.file_path}: there is none. {_nearby(real)}") from None
        except OSError as fault:
            raise ToolError(f"Failed to read file {args.file_path}: {fault.strerror}") from None
        context.seen[real] = Stamp(status)
        return returned


async def _show(file: int, size: int, args: Arguments) -> ToolReturn:
    head = os.pread(file, _SNIFF, 0)
    if media := _media_type(head):
        return _picture(file, size, media, args.file_path)
    if head.startswith(b"%PDF-"):
        return ToolReturn(f"(binary file, {size} bytes: a PDF. Bash may have a program that shows its text.)")
    if b"\0" in head:
        return ToolReturn(f"(binary file, {size} bytes)")
    if args.file_path.endswith(".ipynb") and size <= MOST_EDITED and (cells := _notebook(file, size)):
        return ToolReturn(_page_of(cells, args))
    return ToolReturn(await _text(file, size, args))


def _media_type(head: bytes) -> str:
    """By content: names lie, and a vendor refuses a whole conversation over a wrong type."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for mark, media in _MARKS if head.startswith(mark)), "")


_MARKS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def _picture(file: int, size: int, media: str, path: str) -> ToolReturn:
    if size > MOST_IMAGE:
        raise ToolError(
            f"{path} is a picture of {size} bytes; at most {MOST_IMAGE} can be shown. Make it smaller first."
        )
    data = b2a_base64(os.pread(file, size, 0), newline=False).decode()
    return ToolReturn(f"({media}, {size} bytes)", form="image", images=(Image(media, data),))


def _notebook(file: int, size: int) -> str:
    from polylect.tools.notebook import cells_as_text  # only for notebooks

    return cells_as_text(os.pread(file, size, 0))


async def _text(file: int, size: int, args: Arguments) -> str:
    at, page = 0, Page(args.offset, args.limit)
    if args.offset < 0:
        at, count = await find_last_lines(file, size, -args.offset)
        page = Page(0, args.limit, from_end=count)
    while not page.full and (data := os.pread(file, min(_CHUNK, size - at), at)):
        at += len(data)
        page.add(data)
        await asyncio.sleep(0)  # a file of any size, and the engine still hears its host
    return _shown(page, args)


def _page_of(text: str, args: Arguments) -> str:
    lines = text.count("\n") + 1
    page = Page(args.offset if args.offset >= 0 else max(0, lines + args.offset), args.limit)
    page.add(text.encode(errors="replace"))
    return _shown(page, args)


def _shown(page: Page, args: Arguments) -> str:
    page.end()
    if page.lines:
        return "\n".join(page.lines) + page.note
    if args.offset > 0:
        raise ToolError(f"{args.file_path} has only {page.number} lines: offset {args.offset} is past its end.")
    return "(empty file)"


def _nearby(real: str) -> str:
    """What is there instead of a missing file."""
    from difflib import get_close_matches  # 5 ms, only when something is missing

    folder, name = os.path.split(real)
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    names = sorted(os.listdir(folder)) if os.access(folder, os.R_OK) else []
    if close := get_close_matches(name, names, n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(os.path.join(folder, found) for found in close)}?"
    return f"Look with Glob what is in {folder}."
