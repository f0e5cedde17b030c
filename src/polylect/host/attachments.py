"""Turns the paths that a host attaches to a prompt into what the wire can carry.

Most wires carry paths, and the engine reads the files. Where a wire carries only images, an image file is read here and
sent as base64. `Agent.prompt` calls it.
"""

import os
from binascii import b2a_base64
from collections.abc import Callable, Iterable

from polylect.host.errors import InvalidType, UnreadableFile
from polylect.vocab.content import File, Image

_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def as_attachments(paths: Iterable[str | os.PathLike[str]], can: Callable[[str], bool]) -> list[File | Image]:
    """Returns an attachment for each path.

    Args:
        paths: Paths, relative to the folder in which this program runs.
        can: Whether the wire can express a word (`files`, `images`).

    Raises:
        InvalidType: `paths` is one path and no list.
        UnreadableFile: An image cannot be read.
    """
    if isinstance(paths, str | os.PathLike):
        raise InvalidType(f"files is a list of paths, not one: [{paths!r}]")
    return [_as_attachment(os.path.abspath(path), can) for path in paths]


def _as_attachment(path: str, can: Callable[[str], bool]) -> File | Image:
    media = _PICTURES.get(os.path.splitext(path)[1].lower())
    if media is None or can("files") or not can("images"):
        return File(path)
    try:
        with open(path, "rb") as file:
            return Image(media, b2a_base64(file.read(), newline=False).decode())
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror, path) from None
