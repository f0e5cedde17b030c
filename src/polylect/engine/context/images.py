"""Recognises images by their bytes, and refuses those that vendors would refuse.

Pure. A single truncated or oversized image makes a vendor reject the whole request, so images of prompts
(`attachments.py`) and of host tools (`tools/host_tools.py`) are checked here first. `turn/loop.py` leaves images out
for a model that cannot see them.
"""

from collections.abc import Callable

from msgspec.structs import replace

from polylect.vocab.content import Block, Image, Message, Text, ToolResult
from polylect.wire.image_type import image_type

MOST_PIXELS = 8000
"""On either side: vendors refuse larger ones."""
_UNSEEN = "(A picture is left out here: this model cannot see pictures.)"


class BadPicture(Exception):
    """The image cannot be used. The text says why and is meant to follow the image's name."""


def check(data: bytes) -> str:
    """The media type of a picture; empty if it is none. Raises BadPicture for one that is truncated or too large."""
    kind = image_type(data)
    if not kind:
        return ""
    if not _WHOLE[kind](data):
        raise BadPicture(f"is not a whole {kind.removeprefix('image/')} image: it seems to be cut off")
    width, height = _SIZES[kind](data)
    if max(width, height) > MOST_PIXELS:
        raise BadPicture(f"has {width} x {height} pixels; at most {MOST_PIXELS} on either side can be used")
    return kind


def without_pictures(message: Message) -> Message:
    """The message with a text in the place of each picture."""
    return replace(message, content=tuple(map(_in_words, message.content)))


def _in_words(block: Block) -> Block:
    match block:
        case Image():
            return Text(_UNSEEN)
        case ToolResult(output=output) if block.images:
            return replace(block, output=f"{output}\n{_UNSEEN}".strip(), images=())
        case _:
            return block


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height from the first frame header."""
    index = 2
    while index + 9 <= len(data) and data[index] == 0xFF:
        marker, length = data[index + 1], int.from_bytes(data[index + 2 : index + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[index + 7 : index + 9]), int.from_bytes(data[index + 5 : index + 7])
        index += 2 + length
    raise BadPicture("is not a whole jpeg image: it has no frame")


_WHOLE: dict[str, Callable[[bytes], bool]] = {
    "image/png": lambda data: data[12:16] == b"IHDR" and b"IEND" in data[-64:],
    "image/jpeg": lambda data: b"\xff\xd9" in data[-4096:],
    "image/gif": lambda data: len(data) > 13 and b"\x3b" in data[-64:],
    "image/webp": lambda data: len(data) >= int.from_bytes(data[4:8], "little") + 8 > 20,
}
_SIZES: dict[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": lambda data: (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])),
    "image/jpeg": _jpeg_size,
    "image/gif": lambda data: (int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")),
    "image/webp": lambda data: (0, 0),  # three formats in one; none can be larger than 16383
}
