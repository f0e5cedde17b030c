"""Keeps a frame below the longest line that a dialect may write, by leaving out the middle of long texts.

Readers in use drop lines above their limit, or end the connection. A shortened frame is valid JSON of the same shape,
and the ids that a peer matches by are never shortened. Used by the engine sides; what a host sends is never shortened.

    {"type": "tool_result", "output": "aaaa...zzzz"}  ->  {..., "output": "aa\\n... [n characters left out] ...\\nzz"}
"""

from typing import Any

import msgspec

from polylect.wire import jsonl

_NAMES = frozenset({"type", "id", "msg_id", "call_id"})
"""Keys whose values are never shortened, because a peer matches by them."""


def line(frame: object, limit: int) -> bytes:
    """The frame as a line of JSON with its newline, of at most `limit` bytes."""
    text = jsonl.dump(frame)
    longest = limit // 4
    while len(text) > limit and longest > 1:
        longest //= 2
        text = jsonl.dump(_shorter(msgspec.to_builtins(frame), longest))
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
