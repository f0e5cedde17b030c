"""One ACP connection of a client: its codec, its sessions, and the socket that carries them at the moment.

A plain client's sessions end with its socket. A client that asks for it (`_meta.polylect.resume` in `initialize`) gets
a number with each message, `{"_meta": {"polylect": {"seq": 7}}, "jsonrpc": "2.0", ...}`, and may lose its socket: its
sessions go on for a while, at most until `HIGH` bytes wait for it. When it comes back with the last number that it
has seen, it gets what it has missed. `listener.py` makes one for each `initialize`.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from websockets.frames import CloseCode

from polylect.app.serving.conversation import Conversation
from polylect.app.serving.stdio import HIGH
from polylect.dialects.acp.frames.own_meta import KEY, read_own
from polylect.dialects.native.engine.event_log import EventLog
from polylect.wire import jsonl, jsonrpc

if TYPE_CHECKING:
    from polylect.app.serving.websocket.web_socket import WebSocket
    from polylect.app.startup.start import Start

_KEPT = 8 * 1024 * 1024
"""Bytes of messages that are kept for a client that may come back: more than the buffers of a socket hold."""
_GATHER = 0.008
"""Seconds between two writes of what nobody has asked for just now: a write costs more than the deltas in it."""


class ClientConnection:
    """A connection.

    Args:
        id: Its name, by which a client comes back.
        start: The start of the process.
        resume_seconds: How long sessions wait for a client that has asked for it; 0 for a plain client.
        ended: Called with this connection when nobody waits for it any more, to `close` it.
    """

    def __init__(
        self, id: str, start: "Start", resume_seconds: float, ended: Callable[["ClientConnection"], None]
    ) -> None:
        self.id = id
        self.is_resumable = resume_seconds > 0
        self._resume_seconds = resume_seconds
        self._on_ended = ended
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(start, self._wake, self._wait_writable)
        self._conversation.begin(None)
        self._socket: WebSocket | None = None
        self._log = EventLog(_KEPT)
        """The messages so far, for a client that may come back."""
        self._received = 0
        """How many messages the client has sent, `initialize` among them."""
        self._initialized: dict[str, Any] = {}
        """The result of `initialize`, for a client that comes back."""
        self._waiting_bytes = 0
        """What has been written since the socket was lost."""
        self._expiry: asyncio.TimerHandle | None = None
        self._scheduled = False
        self._flushed_at = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._has_ended = False

    # The socket.

    def attach(self, socket: "WebSocket") -> None:
        """The first socket of this connection."""
        self._socket = socket
        socket.receiver = self

    def resume(self, socket: "WebSocket", request: jsonrpc.Request) -> None:
        """Goes on with another socket, whose first message is this `initialize`."""
        self._flush()
        params = request.params if isinstance(request.params, dict) else {}
        cursor = read_own(params.get("_meta")).get("cursor")
        if type(cursor) is not int or not self._initialized:
            return self._refuse(socket, request, "_meta.polylect.cursor has to be the last seq that you have seen")
        if (missed := self._log.after(cursor)) is None:
            self.end()
            why = f"messages after {cursor} are not kept: connect anew, and load your sessions"
            return self._refuse(socket, request, why)
        if self._socket:
            self._socket.receiver = None
            self._socket.close(CloseCode.GOING_AWAY, "the client has come back with another socket")
        if self._expiry:
            self._expiry.cancel()
        self.attach(socket)
        self._waiting_bytes = 0
        socket.send([self._welcome(request.id), *(line[:-1] for line in missed)])
        self._writable.set()

    def _refuse(self, socket: "WebSocket", request: jsonrpc.Request, why: str) -> None:
        socket.send([jsonrpc.error(request.id, jsonrpc.Error(jsonrpc.INVALID_PARAMS, why))[:-1]])
        socket.close(CloseCode.PROTOCOL_ERROR, "the connection cannot be resumed")

    def _welcome(self, id: jsonrpc.Id) -> bytes:
        """The answer to `initialize` of a client that comes back. It has no number: it is of the socket."""
        own = {**read_own(self._initialized.get("_meta")), "resumed": True, "received": self._received}
        meta = {**self._initialized.get("_meta", {}), KEY: own}
        return jsonrpc.result(id, {**self._initialized, "_meta": meta})[:-1]

    def receive(self, message: bytes) -> None:
        """A message of the client: one JSON text, on any number of lines."""
        self._received += 1
        self._conversation.receive(message.replace(b"\n", b" ") + b"\n")
        self._flush()
        self._flushed_at = 0.0  # an answer that comes later does not wait

    def on_lost(self, *, finished: bool) -> None:
        """The socket is closed. Sessions end, unless their client may come back."""
        self._socket = None
        if self.is_resumable and not finished and not self._has_ended:
            self._expiry = self._loop.call_later(self._resume_seconds, self.end)
        else:
            self.end()

    def on_writable(self) -> None:
        self._writable.set()

    # The end.

    def end(self) -> None:
        """Nobody waits for this connection any more."""
        if not self._has_ended:
            self._has_ended = True
            self._writable.set()
            if self._expiry:
                self._expiry.cancel()
            if self._socket:
                self._socket.close(CloseCode.GOING_AWAY, "the connection has ended")
            self._on_ended(self)

    async def close(self) -> None:
        """Ends all sessions; returns when everything that they have started is gone."""
        await self._conversation.close()
        if self._due:
            self._due.cancel()

    # Messages to the client.

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_at(self._flushed_at + _GATHER, self._flush)

    def _flush(self) -> None:
        """Sends what is ready, in one write."""
        self._scheduled = False
        self._flushed_at = self._loop.time()
        codec = self._conversation.codec
        if data := codec.data_to_send():
            messages = data.split(b"\n")[:-1]
            if self.is_resumable:
                messages = self._number(messages)
            if self._socket:
                self._socket.send(messages)
            else:
                self._waiting_bytes += len(data)
        if self._due is None and not self._has_ended and (wait := codec.due()) is not None:
            self._due = self._loop.call_later(wait / 1000, self._on_due)

    def _on_due(self) -> None:
        self._due = None
        self._flush()

    def _number(self, messages: list[bytes]) -> list[bytes]:
        log, numbered = self._log, []
        for message in messages:
            if not log.last:
                message = self._with_connection(message)
            log.last += 1
            numbered.append(b'{"_meta":{"polylect":{"seq":%d}},%b' % (log.last, message[1:]))
        log.append(b"\n".join([*numbered, b""]), len(numbered))
        return numbered

    def _with_connection(self, message: bytes) -> bytes:
        """The answer to `initialize` with what a client needs to come back: a browser does not see headers."""
        answer = jsonl.parse(message)
        if isinstance(result := answer.get("result"), dict):
            meta = result.get("_meta") or {}
            own = {**read_own(meta), "connection": self.id, "resumeSeconds": self._resume_seconds}
            self._initialized = answer["result"] = {**result, "_meta": {**meta, KEY: own}}
        return jsonl.dump(answer)[:-1]

    async def _wait_writable(self) -> None:
        """Returns at once while the client reads what is sent, else when it has read enough, or is given up."""
        while not self._has_ended and not self._can_write():
            self._writable.clear()
            await self._writable.wait()

    def _can_write(self) -> bool:
        return self._socket.writable if self._socket else self._waiting_bytes <= HIGH
