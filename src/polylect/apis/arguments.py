"""The arguments of a call, as models write them.

What a model server sends here is judged, copied, logged and encoded on the engine's event loop, so its size is bounded:
arguments that are longer, deeper or of more values than any model writes are not taken. The call keeps the beginning
of their text as `UNPARSED`, and the model is told to call again.
"""

from typing import Any

import msgspec

from polylect.vocab.content import UNPARSED, ToolCall

MOST_TEXT = 8 * 1024 * 1024
"""Characters of JSON."""
MOST_VALUES = 10_000
DEEPEST = 100
_MOST_NAME = 256
"""Characters of a tool's name; vendors allow 128."""
_MOST_KEPT = 64 * 1024
"""Characters of what is not taken."""


def tool_call(call: str, name: str, text: str, whole: Any = None, extra: dict[str, Any] | None = None) -> ToolCall:
    """`whole` is for servers that send the arguments at once instead of as text."""
    extra, name = extra or {}, name[:_MOST_NAME]
    args = None
    if len(text) <= MOST_TEXT:
        try:
            args = msgspec.json.decode(text) if text.strip() else whole or {}
        except (msgspec.DecodeError, RecursionError):
            pass
    if not isinstance(args, dict) or is_unwieldy(args):
        return ToolCall(call, name, {}, {**extra, UNPARSED: text[:_MOST_KEPT]})
    return ToolCall(call, name, args, extra)


def is_unwieldy(value: Any) -> bool:
    """Whether it has so many values, or so deep ones, that writing it to a log or a wire might fail or take long."""
    level, count = [value], 0
    for _ in range(DEEPEST):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        count += sum(map(len, level))
        if count > MOST_VALUES:
            return True
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True
