"""The arguments of a call, as models write them."""

from typing import Any

import msgspec

from polylect.vocab.content import UNPARSED, ToolCall


def tool_call(call: str, name: str, text: str, whole: Any = None, extra: dict[str, Any] | None = None) -> ToolCall:
    """`whole` is for servers that send the arguments at once instead of as text."""
    extra = extra or {}
    try:
        args = msgspec.json.decode(text) if text.strip() else whole or {}
    except msgspec.DecodeError:
        args = None
    if not isinstance(args, dict):
        return ToolCall(call, name, {}, {**extra, UNPARSED: text})
    return ToolCall(call, name, args, extra)
