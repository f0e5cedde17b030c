"""Line endings and the UTF-8 mark of text files, which neither the model nor every editor shows.

A file that is changed keeps its own (P3). Used by the worker for files on disk, and by the engine for files of the
host, so nothing is imported here.
"""

HEAD_SIZE = 65536
"""Bytes of a file that show its line endings."""
BOM = b"\xef\xbb\xbf"


def is_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def as_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def like_existing(head: bytes, content: str) -> str:
    """The content with the line endings and the mark of the existing file. `head` are its first HEAD_SIZE bytes."""
    mark = BOM.decode()
    text = as_crlf(content) if is_crlf(head.decode("latin-1")) else content
    return mark + text if head.startswith(BOM) and text and not text.startswith(mark) else text


def plain(data: bytes) -> bytes:
    """The text without the mark and with LF only: the same for two files that differ in nothing else."""
    return data.removeprefix(BOM).replace(b"\r\n", b"\n")
