"""Reads the files and images that come with a prompt.

A prompt is refused as a whole, before anything is stored, if one of its attachments cannot be used (T7). Files that a
rule denies to Read are refused too. The path is resolved once, and the file that was judged is the file that is opened.
`engine.py` calls `blocks` for prompts and steers.
"""

import base64
import os
from collections.abc import Sequence

from polylect.engine.commands.prompt_files import Fault, no_fault
from polylect.engine.context import images
from polylect.system.plain_files import open_resolved
from polylect.vocab.content import Attachment, Block, Document, File, Image, Link, Text
from polylect.wire.image_type import image_type

MOST_TEXT = 1024 * 1024
MOST_IMAGE = 5 * 1024 * 1024
MOST_IN_ALL = 32 * 1024 * 1024
"""Bytes of all files of a prompt. They are read at once, and the engine answers nothing meanwhile."""
MOST_FILES = 1000
_IMAGE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class AttachmentError(Exception):
    """An attachment cannot be used. The text names it and says why."""


def blocks(text: str, attachments: Sequence[Attachment], workspace: str, fault: Fault = no_fault) -> tuple[Block, ...]:
    """The content of a user message: the text, then the attachments as blocks.

    `fault` returns why a resolved path must not be read, or nothing. Raises AttachmentError.
    """
    if len(attachments) > MOST_FILES:
        raise AttachmentError(f"{len(attachments)} files are attached; at most {MOST_FILES} can be")
    content: list[Block] = [Text(text)] if text else []
    left = MOST_IN_ALL
    for attachment in attachments:
        match attachment:
            case File(path):
                content.append(block := _read(path, workspace, fault))
                left -= len(block.data) if isinstance(block, Image) else len(block.text)
                if left < 0:
                    raise AttachmentError(f"the attached files up to {path} have more than {MOST_IN_ALL} bytes in all")
            case Link(uri, name):
                content.append(Text(f"[Attached: {name or uri} ({uri})]"))
            case Image():
                content.append(_checked_image(attachment))
            case _:
                content.append(attachment)
    return tuple(content)


def _read(path: str, workspace: str, fault: Fault) -> Text | Image | Document:
    full = os.path.join(workspace, os.path.expanduser(path))
    data, size = _content(path, full, fault)
    if media_type := _image_type(path, data):
        return Image(media_type, base64.b64encode(data).decode())
    if b"\0" in data[:8192]:
        return Text(f"[Attached file: {full}, {size} bytes, not text]")
    if size > MOST_TEXT:
        message = f"the attached file {path} has {size} bytes; at most {MOST_TEXT} can be attached"
        raise AttachmentError(f"{message}. Name it in the text instead, and it will be read in parts")
    try:
        return Document(full, "text/plain", data.decode())
    except UnicodeDecodeError:
        return Text(f"[Attached file: {full}, {size} bytes, not UTF-8 text]")


def _checked_image(image: Image) -> Image:
    """An image that the host sent, with the media type of its content: vendors refuse a wrong one."""
    if not image.media_type.startswith("image/"):
        raise AttachmentError(
            f"an attached image has the media type {image.media_type!r}, which is not that of an image"
        )
    try:
        data = base64.b64decode("".join(image.data.split()), validate=True)
    except ValueError as error:
        raise AttachmentError(f"an attached image is not valid base64: {error}") from None
    if not data:
        raise AttachmentError("an attached image is empty")
    if media_type := _picture_type("an attached image", data):
        return Image(media_type, base64.b64encode(data).decode())
    raise AttachmentError(f"an attached image ({image.media_type}) is not of a kind that can be used")


def _content(path: str, full: str, fault: Fault) -> tuple[bytes, int]:
    """At most as many bytes as an image may have, and the file's size. Never blocks on a pipe or a device."""
    try:
        real = os.path.realpath(full)
        if why := fault(real):
            raise AttachmentError(f"the attached file {path} is not read: {why}")
        with open(open_resolved(real), "rb") as file:
            data = file.read(MOST_IMAGE + 1)
            return data, max(os.fstat(file.fileno()).st_size, len(data))  # what the kernel makes up has no size
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        why = getattr(error, "strerror", None) or str(error)
        raise AttachmentError(f"the attached file {path} cannot be read: {why}") from None


def _image_type(path: str, data: bytes) -> str:
    """The media type by content, whatever the file's name says; empty if it is no image."""
    media_type = _picture_type(f"the attached image {path}", data)
    if not media_type and path.lower().endswith(_IMAGE_NAMES):
        raise AttachmentError(f"the attached file {path} is not an image of a kind that can be used")
    return media_type


def _picture_type(what: str, data: bytes) -> str:
    """The media type, or nothing if it is no image. Truncated images are refused, as vendors refuse them."""
    if len(data) > MOST_IMAGE and image_type(data):
        raise AttachmentError(f"{what} is larger than {MOST_IMAGE} bytes; make it smaller")
    try:
        return images.check(data)
    except images.BadPicture as error:
        raise AttachmentError(f"{what} {error}") from None
