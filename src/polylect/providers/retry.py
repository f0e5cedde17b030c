"""Repeats a request that failed, where that can help, and reports it by `Retrying`.

Providers wrap `exchange.py` in it. The pause doubles with each attempt, unless the service names one. A reply of which
something was shown is never repeated, because the host would see it twice.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent, ModelInfo, ModelRequest, Provider, ReplyBegun, Retrying

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_LONGEST_ASKED = 60.0
"""However long a service asks us to wait, nobody sits in front of a silent screen for longer."""


class Retries:
    """A provider that asks again, up to `most` times, with growing pauses or those the service asks for."""

    def __init__(self, provider: Provider, most: int) -> None:
        self.name = provider.name
        self._provider = provider
        self._most = most

    def info(self, model: str) -> ModelInfo:
        return self._provider.info(model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        attempt = 0
        while True:
            shown = False
            try:
                async with aclosing(self._provider.stream(request)) as replies:
                    async for events in replies:
                        shown = shown or not isinstance(events[-1], ReplyBegun)
                        yield events
                return
            except ProviderError as error:
                attempt += 1
                if shown or not error.retryable or not request.retries or attempt > self._most:
                    raise
                fault = error
            seconds = _pause(attempt, fault.retry_after)
            yield [Retrying(attempt, self._most, round(seconds * 1000), str(fault))]
            await asyncio.sleep(seconds)

    def warm(self) -> None:
        getattr(self._provider, "warm", lambda: None)()

    async def close(self) -> None:
        await self._provider.close()


def _pause(attempt: int, retry_after: float | None) -> float:
    if retry_after is not None:
        return min(retry_after, _LONGEST_ASKED)
    jitter = 0.75 + os.urandom(1)[0] / 512  # so that many engines do not come back at the same moment
    return min(_FIRST_PAUSE * 2.0 ** (attempt - 1), _LONGEST_PAUSE) * jitter
