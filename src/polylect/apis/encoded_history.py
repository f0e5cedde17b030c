"""What was written of a conversation that waits for the results of calls: the next request says it again, and more."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder

from polylect.apis.history import Normalizer
from polylect.vocab.content import Message

EncodeMessage = Callable[[Message], Iterable[dict[str, Any]]]
"""A settled message in a vendor's words. Whatever else depends on the request has to be added to the last three."""

LONGEST = 64 * 1024
"""A longer message is not kept as written: it is encoded about as fast as it would be copied."""
MOST = 4 * 1024 * 1024
"""So many bytes are kept at most. Beyond, messages are written anew each time."""
_WAITING = 8
_OPEN = 3
"""The last settled message can still change, and two of the last three may be marked or looked at."""
_encode = Encoder().encode


class EncodedHistory:
    """The messages of a conversation in a vendor's words, as far as these are final."""

    def __init__(self, encode_message: EncodeMessage) -> None:
        self._encode_message = encode_message
        self._seen: tuple[Message, ...] = ()
        self._normalizer = Normalizer()
        self._written: list[Raw | Message] = []
        """Those that are too long to be kept stay messages."""
        self._long = False
        self.size = 0

    def is_prefix_of(self, messages: Sequence[Message]) -> bool:
        """Whether these go on from what it has seen. Messages that are only equal may be written differently."""
        return len(self._seen) <= len(messages) and all(map(is_, self._seen, messages))

    def write(self, messages: Sequence[Message]) -> tuple[list[Any], list[Message]]:
        """The vendor's words for the beginning, and the settled messages that are to be put into words after it."""
        for message in messages[len(self._seen) :]:
            self._normalizer.add(message)
        self._seen = tuple(messages)
        settled = self._normalizer.settled
        for message in settled[:-_OPEN]:
            self._written += self._final(message)
        del settled[:-_OPEN]
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


class EncodedHistories:
    """Those of conversations whose next request is expected: their models have called tools."""

    def __init__(self, encode_message: EncodeMessage) -> None:
        self._encode_message = encode_message
        self._waiting: list[EncodedHistory] = []

    def pop(self, messages: Sequence[Message]) -> EncodedHistory:
        """The one that these messages go on from, or an empty one."""
        for encoded in self._waiting:
            if encoded.is_prefix_of(messages):
                self._waiting.remove(encoded)
                return encoded
        return EncodedHistory(self._encode_message)

    def store(self, encoded: EncodedHistory) -> None:
        """The oldest go when there are too many: of a turn that was stopped nothing more may ever be heard."""
        self._waiting.append(encoded)
        while len(self._waiting) > _WAITING or sum(waiting.size for waiting in self._waiting) > MOST:
            del self._waiting[0]
