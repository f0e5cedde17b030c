"""Events that wait to be read. A reader that is slow costs as much memory as what was said, and no more."""

import asyncio
from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from polylect.vocab.events import Event, TextDelta, ThinkingDelta, ToolOutput

_LONG = 256
"""Up to so many, every event is kept as it came."""


class Backlog:
    """One writer, one reader, and an end."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._more = asyncio.Event()
        self._end: BaseException | None = None
        self._ended = False

    def __iter__(self) -> Iterator[Event]:
        """What waits."""
        return iter(self._events)

    def put(self, event: Event) -> None:
        if self._ended:
            return
        last = self._events[-1] if len(self._events) >= _LONG else None
        if last is not None and (whole := _joined(last, event)) is not None:
            self._events[-1] = whole
        else:
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
        return self._events.popleft()


def _joined(last: Event, event: Event) -> Event | None:
    """Two pieces of the same text are one."""
    if type(last) is not type(event) or (last.turn, last.agent) != (event.turn, event.agent):
        return None
    match last, event:
        case (TextDelta(one), TextDelta(two)) | (ThinkingDelta(one), ThinkingDelta(two)):
            return replace(last, text=one + two)
        case ToolOutput(call, one), ToolOutput(same, two, replace=False) if call == same:
            return replace(last, text=one + two)
        case ToolOutput(call), ToolOutput(same) if call == same:
            return event
    return None
