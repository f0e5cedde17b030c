"""A connection over WebSocket to an agent that listens: `polylect acp --listen`, or another agent of ACP.

`ProcessLink` uses it in the place of a child process. Each line of the codec is one text message. If the agent is
polylect, this end asks for a connection that survives a lost network (`_meta.polylect.resume`, see docs/acp.md): it
counts what it has sent, notes the number of the last message that has come, and after a loss opens another socket,
says which message was the last, and sends again what has not arrived. The codec notices nothing of that.
"""

import asyncio
import logging
import re
import ssl
from collections import deque
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from polylect.dialects.acp.frames.own_meta import KEY, read_own
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.host.errors import EngineDied
from polylect.wire import jsonl

_PATH = "/acp"
_PING = 10.0
"""Seconds between pings, and for the answer to one: a network that is lost is noticed within twice that."""
_CLOSE = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two attempts to come back."""
_KEPT = 8 * 1024 * 1024
"""Bytes of messages that are kept to be sent again."""
_SEQ = re.compile(rb'\{"_meta":\{"polylect":\{"seq":(\d+)\}\},')
"""How the agent numbers its messages."""
_log = logging.getLogger(__name__)


class _CannotResume(Exception):
    """The connection is gone for good; the text says why."""


class WebSocketChannel:
    """A connection. `open` makes one."""

    pid = 0
    """There is no process of ours."""
    code: int | None = None

    def __init__(self, url: str, token: str) -> None:
        self._url = url if re.search(r"//[^/]+/.", url) else url.rstrip("/") + _PATH
        self._token = token
        self._socket: ClientConnection
        self._sent: deque[bytes] = deque()
        """Messages that may have to be sent again, and those that were not sent yet."""
        self._dropped = 0
        """How many messages before these there were."""
        self._next = 0
        """The number of the message that is sent next."""
        self._bytes = 0
        self._unsent = asyncio.Event()
        self._written = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._connection = ""
        """What the agent calls the connection; empty if it cannot be resumed."""
        self._resume_seconds = 0.0
        self._seen = 0
        """The number of the last message that has come."""
        self._why = ""
        self._ended = False

    async def open(self) -> "WebSocketChannel":
        """Connects. Raises EngineDied."""
        try:
            self._socket = await self._connect()
        except InvalidStatus as error:
            body = (error.response.body or b"").decode(errors="replace").strip()
            raise EngineDied(f"{self._url} refuses the connection ({error.response.status_code}): {body}") from None
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            raise EngineDied(f"{self._url} cannot be reached: {error}") from None
        self._writing = asyncio.create_task(self._write_all())
        return self

    @property
    def gone(self) -> bool:
        return self._ended

    @property
    def last_words(self) -> str:
        """Why the connection has ended, if the other end has said so."""
        return self._why

    async def read(self) -> bytes:
        """The next message, as a line; empty once there will be no more."""
        while not self._ended:
            try:
                message = await self._socket.recv(decode=False)
            except ConnectionClosed as closed:
                await self._on_closed(closed)
                continue
            self._note(message)
            return message + b"\n"
        return b""

    def write(self, data: bytes) -> None:
        """Sends lines, each as one message."""
        for line in data.splitlines():
            message = line if self._dropped or self._sent else _asking_to_resume(line)
            self._sent.append(message)
            self._bytes += len(message)
        while self._bytes > _KEPT and self._dropped < self._next:
            self._bytes -= len(self._sent.popleft())
            self._dropped += 1
        self._written.clear()
        self._unsent.set()

    async def drain(self) -> None:
        """Waits until all is sent. While the connection is lost, nobody waits."""
        if not self._ended and not self._socket.close_code:
            await self._written.wait()

    async def last_breath(self) -> None:
        """Nothing more comes after the end of a connection."""

    async def close(self) -> int:
        """Says that this end will not come back, so that its sessions end, and closes the socket."""
        self._end("")
        with suppress(TimeoutError, ConnectionClosed):
            await asyncio.wait_for(self._socket.close(), _CLOSE)
        return 0

    def note_family(self) -> None:
        """The agent looks after its own processes."""

    def kill(self) -> None:
        self._end("")
        self._socket.transport.abort()

    # The socket.

    async def _connect(self, connection: str = "") -> ClientConnection:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if connection:
            headers["Acp-Connection-Id"] = connection
        timing: dict[str, Any] = {"open_timeout": _PING, "ping_interval": _PING, "ping_timeout": _PING}
        return await connect(
            self._url,
            additional_headers=headers,
            max_size=MAX_FRAME + 64 * 1024,
            compression=None,
            close_timeout=_CLOSE,
            proxy=None,
            **timing,
        )

    async def _write_all(self) -> None:
        while not self._ended:
            await self._unsent.wait()
            self._unsent.clear()
            with suppress(ConnectionClosed):  # `read` notices it
                while self._next < self._dropped + len(self._sent):
                    message = self._sent[self._next - self._dropped]
                    self._next += 1
                    await self._socket.send(message, text=True)
            self._written.set()

    def _note(self, message: bytes) -> None:
        """Notes the number of a message, and how to resume, from the answer to `initialize`."""
        if match := _SEQ.match(message):
            self._seen = int(match[1])
            if not self._connection and isinstance(result := jsonl.parse(message).get("result"), dict):
                own = read_own(result.get("_meta"))
                self._connection = str(own.get("connection") or "")
                self._resume_seconds = float(own.get("resumeSeconds") or 0.0)

    def _end(self, why: str) -> None:
        self._why, self._ended = why, True
        self._unsent.set()
        self._written.set()
        if self._writing:
            self._writing.cancel()

    # Coming back.

    async def _on_closed(self, closed: ConnectionClosed) -> None:
        """The socket is closed. Returns once the connection goes on, or has ended."""
        if self._ended:
            return None
        why = f"{closed.rcvd.code} {closed.rcvd.reason}".strip() if closed.rcvd else "the connection was lost"
        if closed.rcvd or not self._connection:
            return self._end(why)
        _log.warning("%s: the connection was lost; trying to come back", self._url)
        try:
            async with asyncio.timeout(self._resume_seconds):
                await self._come_back()
        except (TimeoutError, _CannotResume) as error:
            self._end(f"{why} and could not be resumed: {str(error) or 'nothing answered in time'}")

    async def _come_back(self) -> None:
        """Opens another socket for the same connection. Raises _CannotResume."""
        pause = _FIRST_PAUSE
        while True:
            try:
                socket = await self._connect(self._connection)
                return await self._resume(socket)
            except (InvalidStatus, ConnectionRefusedError, ssl.SSLError) as error:
                raise _CannotResume(str(error)) from None
            except (OSError, InvalidHandshake, ConnectionClosed):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _resume(self, socket: ClientConnection) -> None:
        params = {"protocolVersion": 1, "_meta": {KEY: {"cursor": self._seen}}}
        hello = {"jsonrpc": "2.0", "id": "resume", "method": "initialize", "params": params}
        await socket.send(jsonl.dump(hello)[:-1], text=True)
        answer = jsonl.parse(await socket.recv(decode=False))
        result = answer.get("result")
        received = read_own(result.get("_meta")).get("received") if isinstance(result, dict) else None
        if not isinstance(received, int) or received < self._dropped:
            await socket.close()
            raise _CannotResume(str(answer.get("error") or "what was sent is not kept any more"))
        self._socket, self._next = socket, received
        self._unsent.set()


def _asking_to_resume(line: bytes) -> bytes:
    """The first message, `initialize`, with the question whether the connection can be resumed."""
    message = jsonl.parse(line)
    params = message.get("params") or {}
    meta = params.get("_meta") or {}
    own = {**read_own(meta), "resume": True}
    return jsonl.dump({**message, "params": {**params, "_meta": {**meta, KEY: own}}})[:-1]
