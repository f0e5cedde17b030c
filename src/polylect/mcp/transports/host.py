"""A server that lives inside the host program.

Claude's wire and ACP let a host offer such servers. Each message to the server becomes a call to the host, and the
result of that call is the server's answer. Messages that the server sends unasked arrive at `Servers.receive`, which
passes them on by `ServerSetup.inboxes`. A request always gets an answer: where the host's result is no answer to it, it
has failed. Opened by `mcp/connection.py`.
"""

import asyncio
import logging
from typing import Any

import msgspec

from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed, Outgoing
from polylect.mcp.values import ENDED, ServerFault, ServerSetup
from polylect.system.tasks import TaskSet
from polylect.vocab.errors import PolylectError
from polylect.wire.jsonrpc import Id

_MOST_WAITING = 1000
"""Messages of the server that have not been read. Further ones are dropped, with a line in the log."""
_NO_ANSWER = "the host's answer is no answer to this request"


class HostTransport:
    """See `Transport` in `base.py`."""

    def __init__(self, server: str, setup: ServerSetup, log: ServerLog) -> None:
        self._server = server
        self._setup = setup
        self._log = log
        self._incoming: asyncio.Queue[bytes | Failed | None] = asyncio.Queue()
        self._requests: dict[Id, asyncio.Task[None]] = {}
        self._tasks = TaskSet()
        self._ended = False

    async def start(self) -> None:
        if self._setup.host is None:
            raise ServerFault("this engine cannot reach servers inside its host")
        self._setup.inboxes[self._server] = self._receive_unasked

    def send(self, message: Outgoing) -> None:
        if self._ended:
            raise ServerFault(ENDED)
        task = self._tasks.start(self._call_host(message))
        if message.id is not None:
            self._requests[message.id] = task
            task.add_done_callback(lambda _: self._requests.pop(message.id, None))

    async def receive(self) -> bytes | Failed | None:
        return await self._incoming.get()

    def cancel(self, id: Id) -> None:
        if task := self._requests.get(id):
            task.cancel()

    def negotiated(self, version: str) -> None:
        pass

    async def close(self) -> None:
        self._ended = True
        if self._setup.inboxes.get(self._server) == self._receive_unasked:
            del self._setup.inboxes[self._server]
        self._tasks.cancel()
        self._incoming.put_nowait(None)

    def _receive_unasked(self, message: Any) -> None:
        if self._incoming.qsize() >= _MOST_WAITING:
            self._log.log(logging.WARNING, "a message of the host's is lost: too many are waiting")
        else:
            self._incoming.put_nowait(msgspec.json.encode(message))

    async def _call_host(self, message: Outgoing) -> None:
        assert self._setup.host
        try:
            result = await self._setup.host(self._server, msgspec.json.decode(message.line))
            answer = result.get("mcp_response", result) if isinstance(result, dict) else result
            if message.id is not None:
                ok = _answers(answer, message.id)
                self._incoming.put_nowait(msgspec.json.encode(answer) if ok else Failed(message.id, _NO_ANSWER))
        except PolylectError as error:
            if message.id is not None:
                self._incoming.put_nowait(Failed(message.id, str(error)))


def _answers(message: Any, id: Id) -> bool:
    """Whether the host's result is an answer to the request with this id: no other one will arrive for it."""
    match message:
        case {"id": other, "result": dict()} | {"id": other, "error": {"code": int(), "message": str()}}:
            return bool(other == id) and "method" not in message
        case _:
            return False
