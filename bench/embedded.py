"""A hundred conversations in one process: prints what each of them adds to its memory, in KiB, after one turn."""

import asyncio
from contextlib import AsyncExitStack

from bench import footprint

from polylect.embed import run_engine
from polylect.providers.scripted.provider import Scripted
from polylect.vocab.commands import Prompt
from polylect.vocab.events import Event

COUNT = 100


def forget(event: Event) -> None:
    """A host that keeps nothing."""


async def converse(stack: AsyncExitStack) -> None:
    engine = await stack.enter_async_context(run_engine(forget, Scripted.in_order({"text": ["Hello!"]})))
    engine.handle(Prompt("m1", "Hello"))
    await engine.settled()


async def main() -> None:
    async with AsyncExitStack() as stack:
        await converse(stack)
        before = footprint.own()
        for _ in range(COUNT):
            await converse(stack)
        print((footprint.own() - before) * 1024 / COUNT)


if __name__ == "__main__":
    asyncio.run(main())
