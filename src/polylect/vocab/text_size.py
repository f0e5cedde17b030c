"""Measures the texts in a value without encoding it.

Large values come from strangers: replies, arguments, results. Whether they fit is decided before they are encoded or
copied, because that takes long. Used for the lines of a dialect and for the size of a session in memory.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import astuple


def lengths(value: object) -> list[int]:
    """The length in bytes of every text in `value`: structs, dicts, lists and tuples. Keys are texts too."""
    sizes: list[int] = []
    values: list[Any] = [value]
    for one in values:  # which grows meanwhile
        if isinstance(one, str):
            sizes.append(len(one) if one.isascii() else len(one.encode(errors="surrogatepass")))
        elif isinstance(one, dict):
            values += one
            values += one.values()
        elif isinstance(one, list | tuple):
            values += one
        elif isinstance(one, Struct):
            values += astuple(one)
    return sizes


def text_size(value: object) -> int:
    """Bytes of all texts in `value`: nearly its size as JSON, and never more."""
    return sum(lengths(value))
