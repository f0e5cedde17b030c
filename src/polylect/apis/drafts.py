"""What was written of a conversation that waits for the results of calls: the next request says it again, and more."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder

from polylect.apis.history import Settling
from polylect.vocab.content import Message

Put = Callable[[Message], Iterable[dict[str, Any]]]
"""A settled message in a vendor's words. Whatever else depends on the request has to be added to the last three."""

LONGEST = 64 * 1024
"""A longer message is not kept as written: it is encoded about as fast as it would be copied."""
MOST = 4 * 1024 * 1024
"""So many bytes are kept at most. Beyond, messages are written anew each time."""
_WAITING = 8
_OPEN = 3
"""The last settled message can still change, and two of the last three may be marked or looked at."""
_encode = Encoder().encode


class Draft:
    """The messages of a conversation in a vendor's words, as far as these are final."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._seen: tuple[Message, ...] = ()
        self._settling = Settling()
        self._written: list[Raw | Message] = []
        """Those that are too long to be kept stay messages."""
        self._long = False
        self.size = 0

    def begins(self, messages: Sequence[Message]) -> bool:
        """Whether these go on from what it has seen. Messages that are only equal may be written differently."""
        return len(self._seen) <= len(messages) and all(map(is_, self._seen, messages))

    def write(self, messages: Sequence[Message]) -> tuple[list[Any], list[Message]]:
        """The vendor's words for the beginning, and the settled messages that are to be put into words after it."""
        for message in messages[len(self._seen) :]:
            self._settling.add(message)
        self._seen = tuple(messages)
        settled = self._settling.settled
        for message in settled[:-_OPEN]:
            self._written += self._final(message)
        del settled[:-_OPEN]
        return self._items(), self._settling.end()

    def _items(self) -> list[Any]:
        if not self._long:
            return list(self._written)
        return [item for kept in self._written for item in (self._put(kept) if isinstance(kept, Message) else (kept,))]

    def _final(self, message: Message) -> list[Raw | Message]:
        items = [_encode(item) for item in self._put(message)]
        size = sum(map(len, items))
        if size > min(LONGEST, MOST - self.size):
            self._long = True
            return [message]
        self.size += size
        return [Raw(item) for item in items]


class Drafts:
    """Those of conversations whose next request is expected: their models have called tools."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._waiting: list[Draft] = []

    def take(self, messages: Sequence[Message]) -> Draft:
        """The one that these messages go on from, or an empty one."""
        for draft in self._waiting:
            if draft.begins(messages):
                self._waiting.remove(draft)
                return draft
        return Draft(self._put)

    def keep(self, draft: Draft) -> None:
        """The oldest go when there are too many: of a turn that was stopped nothing more may ever be heard."""
        self._waiting.append(draft)
        while len(self._waiting) > _WAITING or sum(waiting.size for waiting in self._waiting) > MOST:
            del self._waiting[0]
