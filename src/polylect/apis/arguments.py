"""The arguments of a call, as models write them."""

from typing import Any

import msgspec

from polylect.vocab.content import UNPARSED, ToolCall

_DEEPEST = 100


def tool_call(call: str, name: str, text: str, whole: Any = None, extra: dict[str, Any] | None = None) -> ToolCall:
    """`whole` is for servers that send the arguments at once instead of as text."""
    extra = extra or {}
    try:
        args = msgspec.json.decode(text) if text.strip() else whole or {}
    except (msgspec.DecodeError, RecursionError):
        args = None
    if not isinstance(args, dict) or is_deep(args):
        return ToolCall(call, name, {}, {**extra, UNPARSED: text})
    return ToolCall(call, name, args, extra)


def is_deep(value: Any, left: int = _DEEPEST) -> bool:
    """Whether it is nested so deeply that writing it to a log or a wire might fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left == 0 or any(is_deep(one, left - 1) for one in inner)
