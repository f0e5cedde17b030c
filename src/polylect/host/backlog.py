"""A queue of events with one writer and one reader, which is bounded in the number of small events.

Every turn has one, and every reader of `Agent.events`. Text deltas are small and many; when more than 256 events wait,
deltas of the same text are joined, so that a slow reader costs as much memory as the text and no more. No other event
is ever joined or dropped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator

from msgspec.structs import replace

from polylect.vocab.events import Event, TextDelta, ThinkingDelta, ToolOutput

_LONG = 256
"""Up to so many, every event is kept as it came."""


class Backlog:
    """One writer, one reader, and an end."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._pieces: list[str] = []
        """They follow the last event, and belong to it."""
        self._more = asyncio.Event()
        self._end: BaseException | None = None
        self._ended = False

    def __iter__(self) -> Iterator[Event]:
        """What waits."""
        return iter(self._events)

    def put(self, event: Event) -> None:
        if self._ended:
            return
        if len(self._events) < _LONG or not self._goes_on(event):
            self._join_pieces()
            self._events.append(event)
        self._more.set()

    def end(self, why: BaseException | None = None) -> None:
        """Nothing more will come. What waits can still be read; then `why` is raised, if there is a reason."""
        if not self._ended:
            self._ended, self._end = True, why
            self._more.set()

    async def get(self) -> Event | None:
        """The next event; None at the end."""
        while not self._events:
            if self._ended:
                if self._end is not None:
                    raise self._end
                return None
            self._more.clear()
            await self._more.wait()
        if len(self._events) == 1:
            self._join_pieces()
        return self._events.popleft()

    async def read(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event

    def _goes_on(self, event: Event) -> bool:
        """Pieces of the same text as the last event's are one with it. They are joined once, when something follows."""
        last = self._events[-1]
        match event:
            case TextDelta(text) | ThinkingDelta(text) if _alike(last, event):
                self._pieces.append(text)
            case ToolOutput(call, text, again) if isinstance(last, ToolOutput) and _alike(last, event):
                if call != last.call:
                    return False
                if again:
                    self._events[-1] = event
                    self._pieces.clear()
                else:
                    self._pieces.append(text)
            case _:
                return False
        return True

    def _join_pieces(self) -> None:
        if self._pieces and isinstance(last := self._events[-1], TextDelta | ThinkingDelta | ToolOutput):
            self._events[-1] = replace(last, text=last.text + "".join(self._pieces))
            self._pieces.clear()


def _alike(one: Event, other: Event) -> bool:
    return type(one) is type(other) and (one.turn, one.agent) == (other.turn, other.agent)
