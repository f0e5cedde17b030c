"""Operations on text that came from elsewhere: lines of a command's output by a pattern, and web pages.

They run in the worker process, because a pattern of the model or a hostile page can take any time.
"""

import codecs
import os
import re

from polylect.tools.text.truncate import Capture
from polylect.vocab.errors import ToolError

_META = rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})"""
_HTML = ("text/html", "application/xhtml+xml")
_CHARSETS = frozenset(
    [
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii"),
        *(f"iso8859-{part}" for part in range(1, 17)),
        *(f"cp{page}" for page in (437, 850, 852, 855, 866, 874, 932, 949, 950, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "koi8-t", "mac-roman", "mac-cyrillic", "tis-620"),
        *("gb2312", "gbk", "gb18030", "hz", "big5", "big5hkscs"),
        *("shift_jis", "shift_jis_2004", "shift_jisx0213", "euc_jp", "euc_jis_2004", "iso2022_jp", "iso2022_jp_2"),
        *("euc_kr", "johab", "iso2022_kr"),
    ]
)
"""By the names that Python's codecs have for themselves. A page names its charset itself, and Python has codecs that
are none for text (`zlib`, `undefined`) or whose time grows with the square of the length (`punycode`, `idna`)."""


def filter_lines(*, pattern: str, start: int, stop: int, most: int, file: int) -> dict[str, object]:
    """The matching lines in a part of a file: the first and the last `most` bytes of them, and their total size."""
    try:
        expression = re.compile(pattern.encode("utf-8", "surrogatepass"))
    except re.error as error:
        raise ToolError(f"not a regular expression: {error}") from None
    except RecursionError:
        raise ToolError("not a regular expression: too deeply nested") from None
    matches = Capture(most)
    with open(os.dup(file), "rb") as stream:
        stream.seek(start)
        while (left := stop - stream.tell()) > 0:
            if not (line := stream.readline(left)):
                break
            if expression.search(line.rstrip(b"\r\n")):
                matches.add(line)
    head = matches.head(most)
    return {
        "head": len(head),
        "total": matches.total,
        "data": head + matches.tail(min(most, matches.total - len(head))),
    }


def page_text(*, content_type: str, url: str, data: bytes = b"") -> dict[str, object]:
    """The `text` of a page's body, by its media type and charset: HTML as Markdown, other text as it is."""
    text = data.decode(_charset(data, content_type), errors="replace")
    if content_type.partition(";")[0].strip().lower() in _HTML:
        from polylect.tools.text.html_text import html_to_text  # and what it imports: 8 ms

        text = html_to_text(text, url)
    return {"text": text}


def _charset(body: bytes, content_type: str) -> str:
    """The codec for what the header names, or the page itself."""
    declared = re.search(r"charset=[\"']?([\w-]+)", content_type, re.IGNORECASE)
    name = declared[1] if declared else ""
    if not name and (meta := re.search(_META, body[:4096], re.IGNORECASE)):
        name = meta[1].decode()
    return _text_codec(name)


def _text_codec(charset: str) -> str:
    """The name of the codec for this charset; UTF-8 if it is not one of a text, or not known."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _CHARSETS else "utf-8"
