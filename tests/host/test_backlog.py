"""Events that wait for a reader that is slow."""

import asyncio
import time

from machine import cpu
from polylect.host.backlog import Backlog
from polylect.host.results import Result, update
from polylect.vocab.events import Event, StepStarted, TextDelta, ThinkingDelta, ToolOutput


def read(*events: Event) -> list[Event]:
    async def main() -> list[Event]:
        backlog = Backlog()
        for event in events:
            backlog.put(event)
        backlog.end()
        actual = []
        while (event := await backlog.get()) is not None:
            actual.append(event)
        return actual

    return asyncio.run(main())


FULL = (StepStarted(),) * 256


def test_up_to_a_length_all_is_kept_as_it_came() -> None:
    events = [TextDelta(str(number)) for number in range(256)]
    assert read(*events) == events


def test_beyond_it_pieces_of_one_text_are_one() -> None:
    result = [
        TextDelta("a"),
        TextDelta("b"),
        TextDelta("c"),
        ThinkingDelta("d"),
        TextDelta("e", agent="x"),
        TextDelta("f"),
    ]
    actual = [TextDelta("abc"), ThinkingDelta("d"), TextDelta("e", agent="x"), TextDelta("f")]
    assert read(*FULL, *result)[256:] == actual


def test_output_that_replaces_what_came_before_it_does_so_here_too() -> None:
    result = [ToolOutput("c", "a"), ToolOutput("c", "b"), ToolOutput("c", "z", replace=True), ToolOutput("c", "y")]
    assert read(*FULL, *result, ToolOutput("d", "x"))[256:] == [
        ToolOutput("c", "zy", replace=True),
        ToolOutput("d", "x"),
    ]


def test_what_is_read_in_between_is_whole() -> None:
    async def main() -> None:
        backlog = Backlog()
        for event in (*FULL, TextDelta("a"), TextDelta("b")):
            backlog.put(event)
        assert [await backlog.get() for _ in range(257)][-1] == TextDelta("ab")
        backlog.put(TextDelta("c"))
        assert await backlog.get() == TextDelta("c")

    asyncio.run(main())


def test_a_long_text_in_small_pieces_costs_no_more_than_its_length() -> None:
    """Joined one by one, a hundred thousand pieces are moved for gigabytes."""
    began, pieces, result = time.process_time(), [TextDelta("0123456789")] * 100_000, Result()
    [actual] = read(*FULL, *pieces)[256:]
    for piece in pieces:
        update(result, piece)
    assert actual == TextDelta(result.text)
    assert len(result.text) == 1_000_000
    assert time.process_time() - began < cpu(2.0)
