"""One WebSocket of a client: the handshake, then messages in both directions, and an end for each way it can break.

The bytes are understood by the library `websockets`; this is the I/O around it. Memory is bounded: above `HIGH` bytes
that the client has not read, `writable` is false and its sessions wait; above `FLOOD` nothing more is read from it
either. A client that does not answer a ping is gone. `listener.py` makes one for each TCP connection.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from polylect.app.serving.stdio import FLOOD, HIGH, LOW, unread_bytes
from polylect.app.serving.websocket.admission import PROTOCOL, Refusal

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)  # the library would log headers, and with them the token
_KERNEL_BUFFER = 512 * 1024
"""Bytes that the system holds for a client. It would take megabytes, which a client that is lost has not read."""
_CLOSE_SECONDS = 1.0
"""How long a client may take to close its end after we have closed ours."""


class Limits(Struct, frozen=True):
    """What a client may take: bytes of a message, and seconds for the handshake, for `initialize`, and for a ping."""

    message: int
    handshake: float = 10.0
    initialize: float = 60.0
    ping: float = 20.0


class Receiver(Protocol):
    """Who gets what a client sends."""

    def receive(self, message: bytes) -> None:
        """A text message has come."""

    def on_writable(self) -> None:
        """The client has read enough, so that more can be sent."""

    def on_lost(self, *, finished: bool) -> None:
        """The socket is closed; `finished` if the client has closed it as one that will not come back."""


class WebSocket(asyncio.Protocol):
    """A socket of a client.

    Args:
        limits: What the client may take.
        admit: Called with the handshake. Returns why it is refused, or the headers of the answer to it.
        first: Called with this socket and each message until it has set `receiver` or closed the socket.
        ended: Called with this socket when it is closed.
        began: Called with this socket when it is open, over TLS after the handshake of that, which may fail.

    Attributes:
        connection: The id of the ACP connection that the handshake has named or begun.
        resumes: Whether the handshake has named one that was there.
    """

    def __init__(
        self,
        limits: Limits,
        admit: Callable[["WebSocket", Request], Refusal | dict[str, str]],
        first: Callable[["WebSocket", bytes], None],
        ended: Callable[["WebSocket"], None],
        began: Callable[["WebSocket"], None] = lambda socket: None,
    ) -> None:
        self.connection = ""
        self.resumes = False
        self.receiver: Receiver | None = None
        self._limits = limits
        self._admit = admit
        self._first = first
        self._ended = ended
        self._began = began
        self._protocol = ServerProtocol(max_size=limits.message, logger=_log, select_subprotocol=_select_subprotocol)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._messages: deque[bytes] = deque()
        """Messages that wait until the client has read more."""
        self._fragments = bytearray()
        self._is_text = False
        """Whether the message whose fragments come is a text."""
        self._writable = True
        self._failed = False
        """Whether we have closed the socket: then nothing more is received from it."""
        self._heard = True
        """Whether the client has sent anything since the last ping."""
        self._written = self._read_by_peer = 0

    @property
    def writable(self) -> bool:
        """Whether less than `HIGH` bytes wait to be read by the client."""
        return self._writable

    def send(self, messages: Iterable[bytes]) -> None:
        """Sends these texts, if the socket is open."""
        if self._protocol.state is State.OPEN:
            for message in messages:
                self._protocol.send_text(message)
            self._write()

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Closes the socket. What was sent before still reaches the client, if it reads within a second."""
        self._failed = True
        if self._protocol.state is State.OPEN:
            self._protocol.fail(code, reason)
            self._write()
        elif self._protocol.state is State.CONNECTING:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._began(self)
        transport.set_write_buffer_limits(HIGH, LOW)
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        self._timer = self._loop.call_later(self._limits.handshake, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._answer_handshake(event)
            elif isinstance(event, Frame) and not self._failed:
                self._receive_frame(event)
        self._write()
        self._deliver()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._write()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._failed = True
        if self.receiver:
            close = self._protocol.close_rcvd
            finished = close is not None and close.code in (CloseCode.NORMAL_CLOSURE, CloseCode.NO_STATUS_RCVD)
            self.receiver.on_lost(finished=finished)
        self._ended(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self.receiver:
            self.receiver.on_writable()
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._loop.call_soon(self._deliver)

    # The handshake.

    def _answer_handshake(self, request: Request) -> None:
        protocol = self._protocol
        if protocol.close_expected():  # what came with the handshake is no frame
            return self._transport.abort()
        admitted = self._admit(self, request)
        if isinstance(admitted, Refusal):
            response = protocol.reject(admitted.status, f"{admitted.reason}\n")
        else:
            response = protocol.accept(request)
            for name, value in admitted.items():
                response.headers[name] = value
        protocol.send_response(response)
        self._failed = protocol.state is not State.OPEN
        self._set_timer(self._limits.initialize, self._on_silence)

    def _on_silence(self) -> None:
        self.close(CloseCode.PROTOCOL_ERROR, f"no initialize within {self._limits.initialize:g} s")

    # Messages.

    def _receive_frame(self, frame: Frame) -> None:
        """Collects the fragments of a message. Only texts count: binary messages are dropped."""
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        if self._is_text:
            self._fragments += frame.data
            if frame.fin:
                self._messages.append(bytes(self._fragments))
                self._fragments.clear()

    def _deliver(self) -> None:
        """Passes messages on, as long as the client reads what they lead to."""
        try:
            while self._messages and not self._failed:
                if self._transport.get_write_buffer_size() > FLOOD:
                    self._transport.pause_reading()
                    return
                self._receive(self._messages.popleft())
        except Exception:  # noqa: BLE001  (a fault of ours in one connection does not end the others)
            _log.exception("a message could not be handled")
            self.close(CloseCode.INTERNAL_ERROR, "a fault of the agent; please report this")

    def _receive(self, message: bytes) -> None:
        if self.receiver:
            return self.receiver.receive(message)
        self._first(self, message)
        if self.receiver:
            self._set_timer(self._limits.ping, self._ping)

    def _write(self) -> None:
        data = self._protocol.data_to_send()
        if not data or self._transport.is_closing():
            return
        whole = b"".join(data)
        self._written += len(whole)
        self._transport.write(whole)
        if data[-1] == SEND_EOF:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:  # TLS has no half-closed sockets
                self._transport.close()
            self._set_timer(_CLOSE_SECONDS, self._transport.abort)

    def _set_timer(self, seconds: float, act: Callable[[], None]) -> None:
        """What is due next in the life of this socket; it replaces what was due before."""
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, act)

    # Life signs.

    def _ping(self) -> None:
        """Ends the socket if its client has given no sign of life since the last ping, else sends the next."""
        unread = self._transport.get_write_buffer_size() + unread_bytes(self._tcp.fileno())
        read_by_peer = self._written - unread
        reads = not self._writable and read_by_peer > self._read_by_peer  # a ping would wait behind what is unread
        if not self._heard and not reads:
            _log.info("a client has not answered a ping for %g s", self._limits.ping)
            return self._transport.abort()
        self._heard, self._read_by_peer = False, read_by_peer
        self._protocol.send_ping(b"")
        self._write()
        self._set_timer(self._limits.ping, self._ping)

    @property
    def _tcp(self) -> socket.socket:
        connection: socket.socket = self._transport.get_extra_info("socket")
        return connection


def _select_subprotocol(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((name for name in offered if name == PROTOCOL), None)
