"""The engine asks the host's program, and each call comes back exactly once."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from doubles import PATIENCE
from polylect.engine.host_calls import HostCalls, HostFault
from polylect.vocab.commands import HostReply
from polylect.vocab.events import Event, HostCall, HostCallEnded


class Desk:
    """Calls, and what was said of them."""

    def __init__(self) -> None:
        self.said: list[Event] = []
        self.calls = HostCalls(map(str, count(1)).__next__)

    def call(self, **options: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self.calls.call("tool", {"name": "t"}, self.said.append, **options))


def at_desk(work: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await work(Desk())

    asyncio.run(main())


def test_a_call_is_said_once_and_comes_back_with_the_hosts_result() -> None:
    async def work(desk: Desk) -> None:
        requested = desk.call()
        await asyncio.sleep(0)
        assert desk.said == [HostCall("host-1", "tool", {"name": "t"})]
        assert desk.calls.reply(HostReply("host-1", result={"ok": True}))
        assert await requested == {"ok": True}
        assert len(desk.said) == 1

    at_desk(work)


def test_what_the_host_has_done_so_far_is_heard_before_its_result() -> None:
    async def work(desk: Desk) -> None:
        received: list[Any] = []
        requested = desk.call(on_partial=received.append)
        await asyncio.sleep(0)
        for part in ("a", "b"):
            assert desk.calls.reply(HostReply("host-1", result=part, partial=True))
        desk.calls.reply(HostReply("host-1", result="c"))
        assert (await requested, received) == ("c", ["a", "b"])

    at_desk(work)


def test_an_error_of_the_hosts_is_a_fault_with_its_words() -> None:
    async def work(desk: Desk) -> None:
        requested = desk.call()
        await asyncio.sleep(0)
        desk.calls.reply(HostReply("host-1", error="no such tool"))
        with pytest.raises(HostFault, match="no such tool"):
            await requested

    at_desk(work)


def test_a_host_that_takes_too_long_is_told_that_nobody_waits() -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(HostFault, match=r"within 0\.01 s"):
            await desk.call(timeout=0.01)
        assert desk.said[1:] == [HostCallEnded("host-1")]
        assert not desk.calls.reply(HostReply("host-1", result="late"))

    at_desk(work)


def test_a_host_is_told_of_a_call_that_was_cancelled() -> None:
    async def work(desk: Desk) -> None:
        requested = desk.call()
        await asyncio.sleep(0)
        requested.cancel()
        await asyncio.wait([requested])
        assert requested.cancelled()
        assert desk.said[1:] == [HostCallEnded("host-1")]

    at_desk(work)


def test_a_second_reply_and_a_reply_to_nothing_are_not_taken() -> None:
    async def work(desk: Desk) -> None:
        requested = desk.call()
        await asyncio.sleep(0)
        assert not desk.calls.reply(HostReply("host-9"))
        assert desk.calls.reply(HostReply("host-1", result=1))
        assert not desk.calls.reply(HostReply("host-1", result=2))
        assert await requested == 1

    at_desk(work)


def test_once_the_input_is_closed_calls_fail_at_once_and_later_ones_are_not_even_said() -> None:
    async def work(desk: Desk) -> None:
        requested = desk.call()
        await asyncio.sleep(0)
        desk.calls.host_gone()
        for call in (requested, desk.call()):
            with pytest.raises(HostFault, match="closed its end"):
                await call
        assert len(desk.said) == 1

    at_desk(work)
