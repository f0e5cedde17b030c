"""Files that go with a prompt, as a wire can carry them."""

import os
from binascii import b2a_base64
from collections.abc import Callable, Iterable

from polylect.vocab.content import File, Image

_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def attached(paths: Iterable[str | os.PathLike[str]], can: Callable[[str], bool]) -> list[File | Image]:
    """Meant from where the caller is. An engine reads them itself, but for pictures where its wire has only those."""
    if isinstance(paths, str | os.PathLike):
        raise TypeError(f"files is a list of paths, not one: [{paths!r}]")
    return [_attached(os.path.abspath(path), can) for path in paths]


def _attached(path: str, can: Callable[[str], bool]) -> File | Image:
    media = _PICTURES.get(os.path.splitext(path)[1].lower())
    if media is None or can("files") or not can("images"):
        return File(path)
    with open(path, "rb") as file:
        return Image(media, b2a_base64(file.read(), newline=False).decode())
