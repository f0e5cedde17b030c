"""Makes the tool calls of a reply, with arguments that are bounded.

Arguments are checked, copied, logged and encoded on the engine's event loop, so the arguments of all calls of one reply
together have a limit that no model's output reaches. Arguments that are no JSON object, too deep, or beyond the limit
are not used: the call has none, keeps the beginning of their text as `UNPARSED`, and the model is told to call again.
Stream parsers make their calls here, and `engine/turn/reply.py` applies the same limit to every provider.
"""

from typing import Any

import msgspec

from polylect.vocab.content import UNPARSED, ToolCall

MOST_TEXT = 4 * 1024 * 1024
"""Characters in the arguments of all calls of one reply."""
MOST_VALUES = 10_000
"""Values in them."""
MOST_CALLS = 4096
"""Calls of one reply. A reply with more is an error."""
DEEPEST = 100
_MOST_NAME = 256
"""Most characters of a tool's name; vendors allow 128."""
_MOST_UNPARSED = 64 * 1024
"""Most characters of text that a call keeps as `UNPARSED`."""


class ReplyCalls:
    """Makes the calls of one reply, and counts what their arguments have used of the limit."""

    def __init__(self) -> None:
        self._text, self._values = MOST_TEXT, MOST_VALUES

    def parse(
        self, call: str, name: str, text: str, whole: Any = None, extra: dict[str, Any] | None = None
    ) -> ToolCall:
        """The call.

        call, name   its id and the tool; a long name is cut
        text         the arguments as JSON
        whole        the arguments as an object, from servers that send no text
        extra        what the vendor wants back with the call
        """
        extra, name = extra or {}, name[:_MOST_NAME]
        if len(text) > self._text:
            return self._unusable(call, name, text, extra)
        try:
            args = msgspec.json.decode(text) if text.strip() else whole or {}
        except (msgspec.DecodeError, RecursionError):
            args = None
        if isinstance(args, dict) and self._admits(args):
            return ToolCall(call, name, args, extra)
        unusable = self._unusable(call, name, text, extra)
        self._text = max(0, self._text - len(text))  # decoding it took its time
        return unusable

    def limited(self, call: ToolCall) -> ToolCall:
        """This call, or the same one without arguments if they are beyond the limit."""
        return call if self._admits(call.args) else self._unusable(call.call, call.name, "", call.extra)

    def _admits(self, args: dict[str, Any]) -> bool:
        size = _size(args)
        if size is None or size[0] > self._values or size[1] > self._text:
            return False
        self._values -= size[0]
        self._text -= size[1]
        return True

    def _unusable(self, call: str, name: str, text: str, extra: dict[str, Any]) -> ToolCall:
        text = text[: min(_MOST_UNPARSED, self._text)]
        self._text -= len(text)
        return ToolCall(call, name, {}, {**extra, UNPARSED: text})


def is_unwieldy(value: Any) -> bool:
    """Whether a value is so large or so deep that encoding it might fail or take long."""
    size = _size(value)
    return size is None or size[1] > MOST_TEXT // 16


def _size(value: Any) -> tuple[int, int] | None:
    """How many values and characters are in it; None if it is too deep or has too many values."""
    level, values, characters = [value], 0, 0
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, str):
                characters += len(one)
            elif isinstance(one, dict):
                characters += sum(map(len, one))
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        values += len(inner)
        if values > MOST_VALUES:
            return None
        if not inner:
            return values, characters
        level = inner
    return None
