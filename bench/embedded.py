"""A hundred conversations in one process: prints what each of them adds to its memory, in KiB, after one turn."""

import asyncio
from contextlib import AsyncExitStack

from bench import footprint

from polylect.embed import open_engine
from polylect.providers.scripted.provider import Scripted

COUNT = 100


async def converse(stack: AsyncExitStack) -> None:
    agent = await stack.enter_async_context(open_engine(Scripted.in_order({"text": ["Hello!"]})))
    await agent.ask("Hello")


async def main() -> None:
    async with AsyncExitStack() as stack:
        await converse(stack)
        before = footprint.own()
        for _ in range(COUNT):
            await converse(stack)
        print((footprint.own() - before) * 1024 / COUNT)


if __name__ == "__main__":
    asyncio.run(main())
