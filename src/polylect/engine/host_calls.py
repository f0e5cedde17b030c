"""Requests from the engine to the host: running a host tool, calling a host hook, messages of in-host MCP servers.

Each call gets exactly one result: the host's answer, a failure, a timeout, or the error that the host is gone. If the
waiting task is cancelled, the host is told with `HostCallEnded`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from polylect.vocab.commands import HostReply
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, HostCall, HostCallEnded

GONE = "the host has closed its end"


class HostFault(PolylectError):
    """The host did not do it; the text says why.

    `code` is the host's word for the kind of fault (`missing`), `timeout` if it did not answer, or `gone`.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def _ignore(partial: Any) -> None:
    pass


class HostCalls:
    """The open calls by id."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[HostReply]] = {}
        self._partial: dict[str, Callable[[Any], None]] = {}
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether the host has closed its end."""
        return self._gone

    async def call(
        self,
        method: str,
        params: Any,
        emit: Callable[[Event], None],
        *,
        timeout: float = 0.0,
        on_partial: Callable[[Any], None] = _ignore,
    ) -> Any:
        """Call the host and return its result.

        `method` and `params` say what is asked; `say` emits the event; `timeout` is in seconds, zero for none;
        `on_partial` receives partial results. Raises HostFault if the host refuses, is gone or is too slow.
        """
        if self._gone:
            raise HostFault(GONE, "gone")
        call = f"host-{self._new_id()}"
        answer: asyncio.Future[HostReply] = asyncio.get_running_loop().create_future()
        self._open[call] = answer  # before it is said: the reply may be quick
        self._partial[call] = on_partial
        try:
            emit(HostCall(call, method, params))
            async with asyncio.timeout(timeout or None):
                reply = await answer
        except TimeoutError:
            emit(HostCallEnded(call))
            raise HostFault(f"the host did not answer within {timeout:g} s", "timeout") from None
        except asyncio.CancelledError:
            emit(HostCallEnded(call))
            raise
        finally:
            del self._open[call], self._partial[call]
        if reply.error:
            raise HostFault(reply.error, reply.code)
        return reply.result

    def reply(self, reply: HostReply) -> bool:
        """Deliver an answer. False if no call of this id is open."""
        answer = self._open.get(reply.call)
        if answer is None or answer.done():
            return False
        if reply.partial:
            self._partial[reply.call](reply.result)
        else:
            answer.set_result(reply)
        return True

    def host_gone(self) -> None:
        """The host is gone: open calls fail now, later ones at once."""
        self._gone = True
        for call, answer in self._open.items():
            if not answer.done():
                answer.set_result(HostReply(call, error=GONE, code="gone"))
