"""The operation that reads one file: what Read shows of it.

It runs in the worker process. The request has a descriptor of the file if the engine had to open it, else its real
path. A text is read in pieces, so a large file costs little memory.
"""

import os
from _collections_abc import Iterator

from polylect.system.bare_contextlib import contextmanager
from polylect.tools.files.paths import opened_folder
from polylect.tools.files.regular_files import MOST_EDITED, Stamp, opened_file, regular
from polylect.tools.text.line_pages import Page, find_last_lines
from polylect.vocab.errors import NoSuchFile, ToolError
from polylect.wire.image_type import image_type

MOST_IMAGE = 3_750_000
"""Bytes of a picture; as base64 they are 5 MB, which is what vendors take."""
_HEAD_SIZE = 8192
_CHUNK = 256 * 1024


@contextmanager
def opened(path: str, real: str, file: int) -> Iterator[int]:
    """The descriptor that came with the request, or the file at the real path. It has to be a regular one."""
    if file < 0:
        with opened_file(path, real) as own:
            yield own
    else:
        regular(path, os.fstat(file))
        yield file


def read(*, path: str, real: str, offset: int, limit: int, file: int = -1) -> dict[str, object]:
    """What Read shows from line `offset` on: `output`, `form`, an `image` as (media type, base64), and a `stamp`.

    `text` is there if the file is a plain text.
    """
    try:
        with opened(path, real, file) as descriptor:
            status = os.fstat(descriptor)
            return {**_content(descriptor, status.st_size, path, offset, limit), "stamp": Stamp(status).packed}
    except (FileNotFoundError, NotADirectoryError):
        raise NoSuchFile(f"Failed to read file {path}: there is none. {_suggestion(real)}") from None


def _content(file: int, size: int, path: str, offset: int, limit: int) -> dict[str, object]:
    head = os.pread(file, _HEAD_SIZE, 0)
    if media := image_type(head):
        return _picture(file, size, media, path)
    if head.startswith(b"%PDF-"):
        return {"output": f"(binary file, {size} bytes: a PDF. Bash may have a program that shows its text.)"}
    if b"\0" in head:
        return {"output": f"(binary file, {size} bytes)"}
    if path.endswith(".ipynb") and size <= MOST_EDITED and (cells := _notebook(file, size)):
        return _shown(_page_of(cells, offset, limit), path, offset)
    return {**_shown(_text(file, size, offset, limit), path, offset), "text": True}


def _shown(page: Page, path: str, offset: int) -> dict[str, object]:
    page.end()
    if page.lines:
        return {"output": "\n".join(page.lines) + page.note}
    if offset > 1:
        raise ToolError(f"{path} has only {page.number} lines: offset {offset} is past its end.")
    return {"output": "(empty file)"}


def _picture(file: int, size: int, media: str, path: str) -> dict[str, object]:
    if size > MOST_IMAGE:
        raise ToolError(
            f"{path} is a picture of {size} bytes; at most {MOST_IMAGE} can be shown. Make it smaller first."
        )
    from binascii import b2a_base64  # only for pictures

    data = b2a_base64(os.pread(file, size, 0), newline=False).decode()
    return {"output": f"({media}, {size} bytes)", "form": "image", "image": (media, data)}


def _notebook(file: int, size: int) -> str:
    from polylect.tools.text.notebook import cells_as_text  # only for notebooks

    return cells_as_text(os.pread(file, size, 0))


def _text(file: int, size: int, offset: int, limit: int) -> Page:
    at, page = 0, Page(offset, limit)
    if offset < 0:
        at, count = find_last_lines(file, size, -offset)
        page = Page(0, limit, from_end=count)
    while not page.full and (data := os.pread(file, min(_CHUNK, size - at), at)):
        at += len(data)
        page.add(data)
    return page


def _page_of(text: str, offset: int, limit: int) -> Page:
    lines = text.count("\n") + 1
    page = Page(offset if offset >= 0 else lines + offset + 1, limit)
    page.add(text.encode(errors="replace"))
    return page


def _suggestion(real: str) -> str:
    """A suggestion for a missing file: similar names in the nearest folder that exists. Follows no link."""
    from difflib import get_close_matches  # 5 ms, only when something is missing

    folder, name = os.path.split(real)
    names: list[str] | None = None
    while names is None and folder != "/":
        try:
            with opened_folder(folder) as descriptor:
                names = sorted(_list_folder(descriptor))
        except (FileNotFoundError, NotADirectoryError):
            folder, name = os.path.split(folder)
        except OSError:
            names = []
    if close := get_close_matches(name, names or [], n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(os.path.join(folder, other) for other in close)}?"
    return f"Look with Glob what is in {folder}."


def _list_folder(folder: int) -> list[str]:
    file = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(file)
    finally:
        os.close(file)
