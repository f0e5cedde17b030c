"""Stops asking a service that keeps failing, and asks others in its place.

It wraps a provider and its fallbacks as one provider. After some failures in a row the service is not asked for a while
(open), then tried once (half open), and used again when that works (closed). Each change is a `CircuitChanged` event. A
reply that has begun is never repeated elsewhere.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from polylect.vocab.content import CircuitState
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import CircuitChanged
from polylect.vocab.ports import ModelEvent, ModelInfo, ModelRequest, Provider, ReplyBegun, ReplyDone, Retrying

_ITS_FAULT = ("rate_limit", "overloaded", "server", "network", "timeout", "protocol")
"""What another service may do better. A wrong key or a bad request is for a person to mend, not to work around."""

Batches = AsyncGenerator[Sequence[ModelEvent], None]


class Breaker:
    """Whether a service is asked. `threshold` failures in a row open it; `recovery` seconds later one request tries."""

    def __init__(self, threshold: int, recovery: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: CircuitState = "closed"
        self._threshold = max(1, threshold)
        self._recovery = recovery
        self._clock = clock
        self._failures = 0
        self._opened = 0.0

    def admits(self) -> bool:
        """While one request tries again, no other does."""
        if self.state == "open" and self._clock() - self._opened >= self._recovery:
            self.state = "half_open"
            return True
        return self.state == "closed"

    def succeeded(self) -> bool:
        """True if that has closed it."""
        closes = self.state != "closed"
        self.state = "closed"
        self._failures = 0
        return closes

    def failed(self) -> bool:
        """True if that has opened it."""
        self._failures += 1
        opens = self.state == "half_open" or (self.state == "closed" and self._failures >= self._threshold)
        if opens:
            self.state = "open"
            self._opened = self._clock()
        return opens

    def undecided(self) -> None:
        """Nobody waited for the outcome: the next request may try."""
        if self.state == "half_open":
            self.state = "open"


class Fallback(Struct, frozen=True):
    """Another model, opened when it is first needed."""

    name: str
    model: str
    open: Callable[[], Provider]


class _Unanswered(Exception):
    """The primary failed before it had said anything."""


class Chain:
    """A provider with others behind it. Once something has been shown, nobody else is asked."""

    def __init__(self, primary: Provider, fallbacks: Sequence[Fallback], breaker: Breaker) -> None:
        self.name = primary.name
        self._primary = primary
        self._fallbacks = fallbacks
        self._breaker = breaker
        self._opened: dict[str, Provider] = {}

    def info(self, model: str) -> ModelInfo:
        return self._primary.info(model)

    def warm(self) -> None:
        getattr(self._primary, "warm", lambda: None)()

    async def stream(self, request: ModelRequest) -> Batches:
        primary = f"{self.name}:{request.model}"
        error = ""
        if self._breaker.admits():
            try:
                async with aclosing(self._ask(primary, request)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except _Unanswered as fault:
                error = str(fault)
        else:
            skipped = f"{primary} keeps failing and is skipped for now"
            yield [CircuitChanged(primary, "open", self._fallbacks[0].name, skipped)]
        async with aclosing(self._fall_back(primary, request, error)) as batches:
            async for batch in batches:
                yield batch

    async def close(self) -> None:
        for provider in (self._primary, *self._opened.values()):
            await provider.close()

    async def _ask(self, primary: str, request: ModelRequest) -> Batches:
        """It is well again only with a whole reply: a service that breaks off every time never is."""
        if self._breaker.state == "half_open":
            yield [CircuitChanged(primary, "half_open")]
        shown = False
        try:
            async with aclosing(self._primary.stream(request)) as batches:
                async for batch in batches:
                    shown = shown or not isinstance(batch[-1], Retrying | ReplyBegun)
                    if isinstance(batch[-1], ReplyDone) and self._breaker.succeeded():
                        yield [CircuitChanged(primary, "closed")]
                    yield batch
        except ProviderError as error:
            if error.kind not in _ITS_FAULT:
                raise
            if self._breaker.failed():
                yield [CircuitChanged(primary, "open", error=str(error))]
            if shown:
                raise
            raise _Unanswered(str(error)) from None
        finally:
            self._breaker.undecided()

    async def _fall_back(self, primary: str, request: ModelRequest, error: str) -> Batches:
        state: CircuitState = "closed" if self._breaker.state == "closed" else "open"
        error_text = error if state == "closed" else ""  # one that opened it was told then
        for number, fallback in enumerate(self._fallbacks, 1):
            shown = False
            try:
                if fallback.name not in self._opened:
                    self._opened[fallback.name] = fallback.open()
                provider = self._opened[fallback.name]
                async with aclosing(provider.stream(_fitted(request, fallback.model, provider))) as batches:
                    async for batch in batches:
                        if not shown and not isinstance(batch[-1], Retrying | ReplyBegun):
                            shown = True
                            yield [CircuitChanged(primary, state, fallback.name, error_text)]
                        yield batch
                return
            except ProviderError as fault:
                if shown or number == len(self._fallbacks):
                    raise
                error_text = f"{fallback.name} failed as well: {fault}"


def _fitted(request: ModelRequest, model: str, provider: Provider) -> ModelRequest:
    """Without what the other model does not offer."""
    info = provider.info(model)
    return replace(
        request,
        model=model,
        thinking=request.thinking if info.thinking else 0,
        effort=request.effort if request.effort in info.effort_levels else "",
        max_tokens=min(request.max_tokens, info.max_output) if info.max_output else request.max_tokens,
    )
