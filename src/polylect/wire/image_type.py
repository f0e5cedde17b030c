"""The kind of a picture, by its first bytes.

Files lie about their endings, and vendors refuse a picture whose media type is wrong. Read, attached files, tools
of hosts and MCP servers use it.
"""

_MARKS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(data: bytes) -> str:
    """Returns the media type of a picture that vendors take; empty if `data` begins like none."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for mark, media_type in _MARKS.items() if data.startswith(mark)), "")
