"""Commands that wait for the engine's reply, by their refs.

Every command with a reply ends: with the reply, or with `EngineDied` when the engine is gone. The conversation sends
the commands and passes each `Reply` on.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polylect.host.errors import EngineDied, Refused, Unsupported
from polylect.host.supported_commands import UNSUPPORTED
from polylect.vocab.events import Reply


class PendingReplies:
    """Of one conversation. Belongs to its event loop."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Reply]] = {}

    @contextmanager
    def expect(self, ref: str) -> Iterator["asyncio.Future[Reply]"]:
        """The reply to the command with this `ref`, for as long as somebody waits for it."""
        future = self._futures[ref] = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            self._futures.pop(ref, None)

    def receive(self, reply: Reply) -> bool:
        """Passes a `reply` to whoever waits for it. False if nobody does."""
        future = self._futures.pop(reply.ref, None)
        if future is None:
            return False
        if not future.done():
            future.set_result(reply)
        return True

    def fail(self, death: EngineDied) -> None:
        """Raises `death` for everybody who waits."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(death)
                future.exception()  # not everyone who asked still waits
        self._futures.clear()


def data_of(reply: Reply) -> Any:
    """Returns the data of a `reply`. Raises Unsupported or Refused if it is a failure."""
    if reply.failure is None:
        return reply.data
    if reply.failure.code in UNSUPPORTED:
        unsupported = Unsupported(reply.failure.message)
        unsupported.add_note("agent.can(...) tells ahead what an engine's wire has words for")
        raise unsupported
    raise Refused(reply.failure)
