"""Keeps a frame below the longest line that a dialect may write, by leaving out the middle of long texts.

Readers in use drop lines above their limit, or end the connection. A shortened frame is valid JSON of the same shape,
and the ids that a peer matches by are never shortened. Used by the engine sides; what a host sends is never shortened.

    {"type": "tool_result", "output": "aaaa...zzzz"}  ->  {..., "output": "aa\\n... [n characters left out] ...\\nzz"}
"""

from typing import Any

import msgspec

from polylect.vocab.text_size import lengths
from polylect.wire import jsonl

_NAMES = frozenset({"type", "id", "msg_id", "call_id", "sessionId", "toolCallId", "sessionUpdate"})
"""Keys whose values are never shortened, because a peer matches by them."""

_SHORT = 1024
"""Down to this length of texts, `line` can tell from their number that they do not fit."""


def line(frame: object, limit: int, *, large: bool = False) -> bytes:
    """The frame as a line of JSON with its newline, of at most `limit` bytes.

    large   the frame may be many times as long, so its texts are measured before anything is encoded
    """
    sizes = lengths(frame) if large else []
    if sum(sizes) <= limit and len(text := jsonl.dump(frame)) <= limit:
        return text
    fields, longest = msgspec.to_builtins(frame), limit // 8
    while longest > _SHORT and longest * sum(size > longest for size in sizes) > limit:
        longest //= 2
    while len(text := jsonl.dump(_shorter(fields, longest))) > limit and longest > 1:
        longest //= 2
    return text


def pieces(text: str, size: int) -> list[str]:
    """The text in parts of at most this many characters: deltas are split, never shortened."""
    return [text[start : start + size] for start in range(0, len(text), size)] if len(text) > size else [text]


def _shorter(value: Any, longest: int) -> Any:
    match value:
        case str() if len(value) > longest:
            half = longest // 2
            head, tail = value[:half], value[len(value) - half :]
            return f"{head}\n... [{len(value) - 2 * half} characters left out] ...\n{tail}"
        case dict():
            items = list(value.items())[:longest]
            return {_shorter(key, longest): item if key in _NAMES else _shorter(item, longest) for key, item in items}
        case list():
            return [_shorter(item, longest) for item in value[:longest]]
        case _:
            return value
