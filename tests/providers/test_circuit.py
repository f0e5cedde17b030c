"""A service that keeps failing is left alone, others answer, and every move is said."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from polylect.providers.circuit import Breaker, Chain, Fallback
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import CircuitChanged
from polylect.vocab.ports import ModelEvent, ModelRequest, ReplyDone, TextChunk
from providers.loopback import CUT, STALL, Loopback, Step, reply, run
from providers.wires import WIRES

REQUEST = ModelRequest("first", "be good", [Message("user", (Text("hello"),))], thinking=1000, effort="high")
PRIMARY = "anthropic:first"
WELL = WIRES["anthropic"].answer()
OTHER = WIRES["chat"].answer()
DOWN = reply(b"{}", status=503, kind="application/json")
FAULT = "anthropic: the service is overloaded (503)"
OPENED = CircuitChanged(PRIMARY, "open", error=FAULT)
SKIPPED = CircuitChanged(PRIMARY, "open", "openai:second", f"{PRIMARY} keeps failing and is skipped for now")
ENGAGED = CircuitChanged(PRIMARY, "open", "openai:second")


class Stage:
    """A primary and a fallback on loopback, and a clock that is moved by hand."""

    def __init__(
        self, primary: list[list[Step]], fallback: list[list[Step]], threshold: int = 1, *, third: bool = False
    ) -> None:
        self.primary, self.fallback = Loopback(primary), Loopback(fallback)
        self.now = 0.0
        self._threshold = threshold
        self._third = third

    async def act(self, main: "Callable[[Stage], Coroutine[Any, Any, None]]") -> None:
        async with self.primary, self.fallback:
            behind = [Fallback("openai:second", "second", lambda: WIRES["chat"].open(self.fallback.url))]
            if self._third:
                behind.append(Fallback("openai:third", "third", lambda: WIRES["chat"].open(self.primary.url)))
            breaker = Breaker(self._threshold, 30.0, lambda: self.now)
            self.chain = Chain(WIRES["anthropic"].open(self.primary.url), behind, breaker)
            await main(self)
            await self.chain.close()

    async def ask(self) -> list[ModelEvent]:
        """What was said, with one word for a whole reply."""
        async with aclosing(self.chain.stream(REQUEST)) as batches:
            events = [event async for batch in batches for event in batch]
        return [event for event in events if isinstance(event, CircuitChanged | ReplyDone)]

    async def circuits(self) -> list[ModelEvent]:
        *circuits, done = await self.ask()
        assert isinstance(done, ReplyDone)
        return circuits


def play(stage: Stage, main: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    run(lambda: stage.act(main))


def test_a_circuit_opens_is_tried_again_and_closes() -> None:
    async def main(stage: Stage) -> None:
        assert await stage.circuits() == []
        assert await stage.circuits() == [OPENED, ENGAGED]
        assert await stage.circuits() == [SKIPPED, ENGAGED]
        assert len(stage.primary.requests) == 2
        stage.now = 30.0
        assert await stage.circuits() == [CircuitChanged(PRIMARY, "half_open"), OPENED, ENGAGED]
        stage.now = 59.0
        assert await stage.circuits() == [SKIPPED, ENGAGED]
        stage.now = 60.0
        assert await stage.circuits() == [CircuitChanged(PRIMARY, "half_open"), CircuitChanged(PRIMARY, "closed")]
        assert await stage.circuits() == []
        assert (len(stage.primary.requests), len(stage.fallback.requests)) == (5, 4)

    play(Stage([WELL, DOWN, DOWN, WELL], [OTHER]), main)


def test_below_the_threshold_a_fallback_answers_and_the_primary_stays_first() -> None:
    async def main(stage: Stage) -> None:
        once = CircuitChanged(PRIMARY, "closed", "openai:second", FAULT)
        assert await stage.circuits() == [once]
        assert await stage.circuits() == []
        assert await stage.circuits() == [once]
        assert await stage.circuits() == [OPENED, ENGAGED]

    play(Stage([DOWN, WELL, DOWN, DOWN], [OTHER], threshold=2), main)


def test_once_something_was_shown_nobody_else_is_asked() -> None:
    async def main(stage: Stage) -> None:
        with pytest.raises(ProviderError, match="connection"):
            await stage.ask()
        assert stage.fallback.requests == []
        assert await stage.circuits() == [SKIPPED, ENGAGED]

    play(Stage([[*WELL[:5], CUT]], [OTHER]), main)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (404, "bad_request"), (413, "overflow")])
def test_what_a_person_has_to_mend_is_not_worked_around(status: int, kind: str) -> None:
    async def main(stage: Stage) -> None:
        for _ in range(3):
            with pytest.raises(ProviderError) as caught:
                await stage.ask()
            assert caught.value.kind == kind
        assert stage.fallback.requests == []

    play(Stage([reply(b"{}", status=status, kind="application/json")], [OTHER]), main)


def test_with_all_of_them_down_the_last_fault_is_raised() -> None:
    async def main(stage: Stage) -> None:
        with pytest.raises(ProviderError, match="openai: the service is overloaded"):
            await stage.ask()

    play(Stage([DOWN], [DOWN]), main)


def test_a_second_fallback_answers_where_the_first_fails() -> None:
    async def main(stage: Stage) -> None:
        result = "openai:second failed as well: openai: the service is overloaded (503)"
        assert await stage.circuits() == [OPENED, CircuitChanged(PRIMARY, "open", "openai:third", result)]

    play(Stage([DOWN, OTHER], [DOWN], third=True), main)


def test_a_try_that_is_cancelled_decides_nothing() -> None:
    async def main(stage: Stage) -> None:
        await stage.ask()
        stage.now = 30.0
        stage.primary.asked.clear()
        trying = asyncio.create_task(stage.ask())
        await stage.primary.asked.wait()
        assert await stage.circuits() == [SKIPPED, ENGAGED], "only one request tries again at a time"
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        await stage.primary.hung_up.wait()
        assert await stage.circuits() == [CircuitChanged(PRIMARY, "half_open"), CircuitChanged(PRIMARY, "closed")]

    play(Stage([DOWN, [STALL], WELL], [OTHER]), main)


def test_a_fallback_is_asked_only_for_what_it_offers() -> None:
    async def main(stage: Stage) -> None:
        async with aclosing(stage.chain.stream(REQUEST)) as batches:
            assert TextChunk("Hel") in [event async for batch in batches for event in batch]
        body = stage.fallback.requests[0].body
        assert b'"model":"second"' in body
        assert b"effort" not in body

    play(Stage([DOWN], [OTHER]), main)
