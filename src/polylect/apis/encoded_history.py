"""Keeps the encoded messages of a conversation between two requests of one turn, and the encoded list of tools.

After a reply with calls, the next request repeats all messages and adds the results. Encoding a long conversation
again costs milliseconds each time, so a provider stores its `EncodedHistory` after such a reply and gets it back by
the messages of the next request. The body is the same with and without it. Memory is bounded by `MOST`.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder

from polylect.apis.history import Normalizer
from polylect.vocab.content import Message

EncodeMessage = Callable[[Message], Iterable[dict[str, Any]]]
"""Encodes a normalized message for a vendor. What else depends on the request, such as caching marks, may only be
added to the last three messages.
"""

LONGEST = 64 * 1024
"""Bytes. A longer message is not kept: copying it takes about as long as encoding it."""
MOST = 4 * 1024 * 1024
"""Bytes that are kept at most. Further messages are encoded each time."""
_WAITING = 8
_OPEN = 3
"""So many messages at the end are not kept: the last one can still change, and others may get caching marks."""
_encode = Encoder().encode


class EncodedHistory:
    """The encoded messages of one conversation, as far as they cannot change any more."""

    def __init__(self, encode_message: EncodeMessage) -> None:
        self._encode_message = encode_message
        self._messages: tuple[Message, ...] = ()
        self._normalizer = Normalizer()
        self._written: list[Raw | Message] = []
        """Encoded messages; one that is too long to be kept stays a message."""
        self._long = False
        self.size = 0

    def is_prefix_of(self, messages: Sequence[Message]) -> bool:
        """Whether the messages begin with those seen so far. Compares by identity, which is fast and safe."""
        return len(self._messages) <= len(messages) and all(map(is_, self._messages, messages))

    def write(self, messages: Sequence[Message]) -> tuple[list[Any], list[Message]]:
        """The encoded beginning of a conversation, and the normalized messages after it, not encoded."""
        for message in messages[len(self._messages) :]:
            self._normalizer.add(message)
        self._messages = tuple(messages)
        messages = self._normalizer.messages
        for message in messages[:-_OPEN]:
            self._written += self._final(message)
        del messages[:-_OPEN]
        return self._items(), self._normalizer.end()

    def _items(self) -> list[Any]:
        if not self._long:
            return list(self._written)
        return [
            item
            for entry in self._written
            for item in (self._encode_message(entry) if isinstance(entry, Message) else (entry,))
        ]

    def _final(self, message: Message) -> list[Raw | Message]:
        items = [_encode(item) for item in self._encode_message(message)]
        size = sum(map(len, items))
        if size > min(LONGEST, MOST - self.size):
            self._long = True
            return [message]
        self.size += size
        return [Raw(item) for item in items]


class BodyEncoder:
    """Encodes the bodies of requests. Their tools, most of a short body, are encoded again only when they change."""

    def __init__(self) -> None:
        self._tools: list[Any] = []
        self._written = Raw()

    def encode(self, body: dict[str, Any]) -> bytes:
        tools = body.get("tools")
        if not tools:
            return _encode(body)
        if tools != self._tools:
            self._tools, self._written = tools, Raw(_encode(tools))
        return _encode({**body, "tools": self._written})


class EncodedHistories:
    """The encoded histories of conversations whose next request is expected, because the model has called tools."""

    def __init__(self, encode_message: EncodeMessage) -> None:
        self._encode_message = encode_message
        self._waiting: list[EncodedHistory] = []

    def pop(self, messages: Sequence[Message]) -> EncodedHistory:
        """Take out the one whose messages these continue; a new one if there is none."""
        for encoded in self._waiting:
            if encoded.is_prefix_of(messages):
                self._waiting.remove(encoded)
                return encoded
        return EncodedHistory(self._encode_message)

    def store(self, encoded: EncodedHistory) -> None:
        """Keep one for the next request. The oldest are dropped: a stopped turn never sends another request."""
        self._waiting.append(encoded)
        while len(self._waiting) > _WAITING or sum(waiting.size for waiting in self._waiting) > MOST:
            del self._waiting[0]
