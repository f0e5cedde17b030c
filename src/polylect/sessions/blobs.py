"""Images and checkpointed files beside a log, each named by the hash of its content.

The log holds only the name, so equal content is stored once. A blob is on disk before the line that names it. A crash
between the two leaves a blob without a name in the log; the next process that opens the session removes it. A fork
reads the blobs of the sessions it came from.
"""

import base64
import os
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from polylect.system.plain_files import names_in
from polylect.vocab.content import Block, Image, Message, ToolResult
from polylect.vocab.entries import Entry, FileSaved, MessageAdded

_PREFIX = "sha256:"
_HEX = frozenset("0123456789abcdef")
_DRAFT = ".draft"


class Blobs:
    """The blobs of a session. `folders` are its own blob folder first, then those of the sessions it came from."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._unsynced: list[str] = []

    def store_images(self, message: Message) -> Message:
        """The message for the log: images are stored as blobs and replaced by their names. Raises OSError."""
        return _mapped(message, self._stored_image)

    def fill(self, message: Message) -> Message:
        """The message with its images loaded. An image whose blob is missing stays empty."""
        return _mapped(message, self._filled_image)

    def store(self, data: bytes) -> str:
        """Store these bytes and return their name. Raises OSError."""
        blob = blob_name(data)
        paths = self._paths(blob)
        if not any(_size(path) == len(data) for path in paths):
            _write(paths[0], data)
            self._unsynced.append(paths[0])
        return blob

    def find(self, blob: str) -> bytes | None:
        """The bytes of a blob, or None if it is missing."""
        for path in self._paths(blob):
            try:
                with open(path, "rb") as file:
                    return file.read()
            except FileNotFoundError:
                continue
        return None

    def sync(self) -> None:
        """Flush all new blobs to disk, so that they survive a power cut."""
        while self._unsynced:
            file = os.open(self._unsynced.pop(), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def sweep(self, entries: Iterable[Entry]) -> list[str]:
        """Remove our own blobs that these entries do not name. Returns their paths."""
        folder = self._folders[0]
        names = [] if os.path.islink(folder) else names_in(folder)  # not ours, where a link leads
        known = named(entries) if names else set()
        orphans = [os.path.join(folder, name) for name in names if _PREFIX + name not in known]
        for path in orphans:
            os.unlink(path)
        return orphans

    def _stored_image(self, image: Image) -> Image:
        if not image.data:
            return image
        try:
            data = base64.b64decode(image.data, validate=True)
        except ValueError:
            return image  # not ours to judge: the vendor will
        return Image(image.media_type, blob=self.store(data))

    def _filled_image(self, image: Image) -> Image:
        if image.data or not image.blob:
            return image
        return replace(image, data=base64.b64encode(self.find(image.blob) or b"").decode())

    def _paths(self, blob: str) -> list[str]:
        name = blob.removeprefix(_PREFIX)
        if len(name) != 64 or not _HEX.issuperset(name):  # it could lead elsewhere (P6)
            return []
        return [os.path.join(folder, name) for folder in self._folders]


def images(message: Message) -> list[Image]:
    """All images of a message, those of tool results included."""
    result: list[Image] = []
    for block in message.content:
        if isinstance(block, Image):
            result.append(block)
        elif isinstance(block, ToolResult):
            result += block.images
    return result


def named(entries: Iterable[Entry]) -> set[str]:
    """The names of all blobs that these entries refer to."""
    blobs: set[str] = set()
    for entry in entries:
        match entry.body:
            case MessageAdded(message):
                blobs.update(image.blob for image in images(message))
            case FileSaved(blob=blob):
                blobs.add(blob)
    return blobs - {""}


def blob_name(data: bytes) -> str:
    """The name of these bytes."""
    from hashlib import sha256  # OpenSSL: 3 ms and 2 MiB, and only for pictures and checkpoints

    return _PREFIX + sha256(data).hexdigest()


def _mapped(message: Message, change: Callable[[Image], Image]) -> Message:
    """The message with each image changed; the same object if it has none."""
    if not images(message):
        return message
    return replace(message, content=tuple(_mapped_block(block, change) for block in message.content))


def _mapped_block(block: Block, change: Callable[[Image], Image]) -> Block:
    match block:
        case Image():
            return change(block)
        case ToolResult() if block.images:
            return replace(block, images=tuple(map(change, block.images)))
        case _:
            return block


def _write(path: str, data: bytes) -> None:
    """Write the file completely or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = path + _DRAFT
    try:
        with open(draft, "wb") as file:
            file.write(data)
        os.rename(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1
