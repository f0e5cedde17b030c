"""What is known of models: abilities and prices."""

from collections.abc import AsyncGenerator

from polylect.vocab.ports import ModelEvent, ModelInfo


def info(model: str) -> ModelInfo:
    return ModelInfo(model)


async def priced(replies: AsyncGenerator[list[ModelEvent], None], model: str) -> AsyncGenerator[list[ModelEvent], None]:
    async for events in replies:
        yield events
