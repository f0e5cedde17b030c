"""JSON Lines: one JSON object a line, split on LF and nothing else (I1, I2, I3).

A trailing CR, blank lines and a byte order mark are tolerated. A line that is too long is dropped while it arrives, so
that it needs no memory, and reported once. Written lines never hold a raw newline, U+2028 or U+2029, because some
readers split there. Dialects, MCP clients and session logs read and write through this module.
"""

import json
from typing import Any

import msgspec

MAX_LINE = 64 * 1024 * 1024
MAX_DEPTH = 200
"""Deeper nesting is refused: what was read has to be written again, and encoders have limits."""
_MAX_DIGITS = 4000
"""The longest integer. Python itself reads up to 4300 digits."""
_BOM = b"\xef\xbb\xbf"


class TooLong(msgspec.Struct, frozen=True):
    """Stands for a line longer than `limit` bytes; `start` is its beginning."""

    start: bytes
    limit: int


class NotAnObject(ValueError):
    """A line holds JSON, but no object."""


class Splitter:
    """Splits bytes that arrive in pieces of any size into lines."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._first = True

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        *ended, rest = data.split(b"\n")
        lines: list[bytes | TooLong] = []
        for piece in ended:
            self._buffer(piece, lines)
            self._finish(lines)
        self._buffer(rest, lines)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """The peer has closed: a last line without a newline counts."""
        lines: list[bytes | TooLong] = []
        self._finish(lines)
        return lines

    def _buffer(self, piece: bytes, lines: list[bytes | TooLong]) -> None:
        if self._skipping or not piece:
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._max_line:
            lines.append(TooLong(b"".join(part[:200] for part in self._parts[:200])[:200], self._max_line))
            self._parts.clear()
            self._size = 0
            self._skipping = True

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._skipping:
            self._skipping = False
            return
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        line = line.strip(b" \t\r")
        if line:
            lines.append(line)


def parse(line: bytes) -> dict[str, Any]:
    """The JSON object in a line. Raises ValueError with a reason for people, also for a key that appears twice.

    What is JSON and no object raises NotAnObject.
    """
    try:
        value = _decoder.decode(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("invalid JSON: nested too deeply") from None
    if not isinstance(value, dict):
        raise NotAnObject("expected a JSON object")
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _too_deep(value):
        raise ValueError("invalid JSON: nested too deeply")
    return _without_surrogates(value) if b"\\u" in line else value


def dump(frame: object) -> bytes:
    """One frame as a line, with its newline. Lone surrogates are replaced."""
    try:
        return escape_separators(_encode(frame)) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot say
        return escape_separators(_encode(_without_surrogates(msgspec.to_builtins(frame)))) + b"\n"


def dump_lines(frames: list[Any]) -> bytes:
    """As `dump` for each of them, in a third of the time."""
    try:
        return escape_separators(_encode_lines(frames))
    except UnicodeEncodeError:
        return b"".join(map(dump, frames))


def escape_separators(text: bytes) -> bytes:
    """Escape U+2028 and U+2029, which JSON allows in strings and some readers treat as newlines."""
    if b"\xe2\x80" not in text:
        return text
    return text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} appears twice")
            seen.add(key)
    return fields


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"invalid JSON: {text} is too large a number")
    return number


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"invalid JSON: a number of {len(text)} digits is too long")
    return int(text)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _inside(outer) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _no_constant(name: str) -> None:
    raise ValueError(f"invalid JSON: {name} is not a JSON number")


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_surrogates(item) for item in value]
        case _:
            return value


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole
)
