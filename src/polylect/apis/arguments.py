"""Parses the arguments of a tool call as models write them.

Arguments are checked, copied, logged and encoded on the engine's event loop, so their size is bounded. Arguments that
are no JSON object, or longer, deeper or with more values than any model writes, are not used: the call keeps the
beginning of their text as `UNPARSED`, and the model is told to call again. All stream parsers call it.
"""

from typing import Any

import msgspec

from polylect.vocab.content import UNPARSED, ToolCall

MOST_TEXT = 8 * 1024 * 1024
"""Most characters of JSON."""
MOST_VALUES = 10_000
DEEPEST = 100
_MOST_NAME = 256
"""Most characters of a tool's name; vendors allow 128."""
_MOST_KEPT = 64 * 1024
"""Most characters of text that is kept as `UNPARSED`."""


def tool_call(call: str, name: str, text: str, whole: Any = None, extra: dict[str, Any] | None = None) -> ToolCall:
    """The call.

    call, name   its id and the tool; a long name is cut
    text         the arguments as JSON
    whole        the arguments as an object, from servers that send no text
    extra        what the vendor wants back with the call
    """
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
    """Whether a value is so large or so deep that encoding it might fail or take long."""
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
