"""Which codec a web page is decoded with.

A page names its charset itself, and Python has codecs that are none for text (`zlib`, `undefined`) or whose time grows
with the square of the length (`punycode`, `idna`). So only the encodings that pages are written in are taken; all
others are read as UTF-8.
"""

import codecs

_TEXT = frozenset(
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
"""By the names that Python's codecs have for themselves."""


def text_codec(charset: str) -> str:
    """The name of the codec for this charset; UTF-8 if it is not one of a text, or not known."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _TEXT else "utf-8"
