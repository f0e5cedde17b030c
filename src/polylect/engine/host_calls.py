"""What the engine asks the host's own program to do: callbacks, servers and tools inside it."""

import asyncio
from collections.abc import Callable
from typing import Any

from polylect.vocab.commands import HostReply
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, HostCall, HostCallEnded

GONE = "the host has closed its end"


class HostFault(PolylectError):
    """The host did not do it; the text says why."""


def _unheard(partial: Any) -> None:
    pass


class HostCalls:
    """Calls under way by id. Each comes back exactly once: answered, failed, too late, or because nobody is there."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[HostReply]] = {}
        self._partial: dict[str, Callable[[Any], None]] = {}
        self._gone = False

    async def ask(
        self,
        method: str,
        params: Any,
        say: Callable[[Event], None],
        *,
        timeout: float = 0.0,
        on_partial: Callable[[Any], None] = _unheard,
    ) -> Any:
        """The host's result. Raises HostFault. If nobody waits for it any more, the host is told."""
        if self._gone:
            raise HostFault(GONE)
        call = f"host-{self._new_id()}"
        answer: asyncio.Future[HostReply] = asyncio.get_running_loop().create_future()
        self._open[call] = answer  # before it is said: the reply may be quick
        self._partial[call] = on_partial
        try:
            say(HostCall(call, method, params))
            async with asyncio.timeout(timeout or None):
                reply = await answer
        except TimeoutError:
            say(HostCallEnded(call))
            raise HostFault(f"the host did not answer within {timeout:g} s") from None
        except asyncio.CancelledError:
            say(HostCallEnded(call))
            raise
        finally:
            del self._open[call], self._partial[call]
        if reply.error:
            raise HostFault(reply.error)
        return reply.result

    def reply(self, reply: HostReply) -> bool:
        """False if nobody asked that, or it is answered already."""
        answer = self._open.get(reply.call)
        if answer is None or answer.done():
            return False
        if reply.partial:
            self._partial[reply.call](reply.result)
        else:
            answer.set_result(reply)
        return True

    def nobody_listens(self) -> None:
        """Nothing will be answered any more: those that wait fail now, later ones at once."""
        self._gone = True
        for call, answer in self._open.items():
            if not answer.done():
                answer.set_result(HostReply(call, error=GONE))
