"""MCP over HTTP: every message is a POST, and the server answers with JSON or with a stream of events.

Revisions before 2026-07-28 have sessions, a GET stream for messages that the server sends by itself, and streams that
can be resumed where they broke off:

    POST initialize                  200, Mcp-Session-Id: s1      sent with every request from now on
    POST notifications/initialized   202
    GET                              200, a stream of events      or 405: the server has none
    POST tools/call                  200, events: progress ...    breaks off after the event 7
    GET, Last-Event-ID: 7            200, events: ..., response
    DELETE                           at the end

From 2026-07-28 on there is only POST, with headers that repeat what a message is about.

A status that refuses a request becomes a `Failed` for it. A session that the server has forgotten, and a server that
cannot be reached any more, end the transport.
"""

import asyncio
from time import monotonic

from msgspec import Struct

from polylect.http.client import Answer
from polylect.http.errors import HttpError
from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed, Outgoing
from polylect.mcp.transports.endpoint import UNREACHABLE, Endpoint, explain, media_type
from polylect.mcp.transports.http_messages import (
    error_code,
    header_value,
    read_head,
    split_batch,
    version_in,
    with_id,
)
from polylect.mcp.transports.queues import Inbox, Incoming, Outbox
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.vocab.content import Server
from polylect.wire.jsonl import MAX_LINE, TooLong
from polylect.wire.jsonrpc import METHOD_NOT_FOUND, Id
from polylect.wire.sse import Event, EventParser

_STATELESS = "2026-07-28"
"""From this revision on there are no sessions, no GET and no resumption."""
_NOTIFY_TIMEOUT = 30.0
"""Seconds for a notification or an answer of ours to be accepted."""
_CLOSE_TIMEOUT = 1.5
_ERROR_BODY = 64 * 1024
_MOST_FAILURES = 5
"""Attempts in a row to open a stream again."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
"""Seconds between two attempts. What the server asks for by `retry:` may be longer."""
_LASTING = 5.0
"""A stream that was open for so many seconds counts as one that works."""
_MOST_SESSION_ID = 1024
_EVENTS = "text/event-stream"


class _Cursor(Struct):
    """How far a stream has been read: the id of its last event, and how long to wait before it is opened again."""

    id: str = ""
    retry: float | None = None
    events: int = 0
    failures: int = 0

    def update(self, event: Event) -> None:
        self.events += 1
        self.id = event.id if event.id is not None else self.id
        self.retry = event.retry / 1000 if event.retry is not None else self.retry

    @property
    def pause(self) -> float:
        usual = min(0.5 * 2.0**self.failures, _LONGEST_PAUSE)
        return max(_SHORTEST_PAUSE, usual if self.retry is None else self.retry)


class StreamableHttp:
    """A transport to one server. See `Transport` for its methods."""

    def __init__(self, server: Server, setup: ServerSetup, log: ServerLog) -> None:
        self._endpoint = Endpoint(server, setup, log)
        self._inbox = Inbox()
        self._outbox = Outbox(self._deliver)
        self._session = ""
        self._version = ""
        self._listening: asyncio.Task[None] | None = None
        self._post_lost = False
        """Whether the last POST got no answer: if the stream of GET cannot be opened either, the server is gone."""

    async def start(self) -> None:
        self._endpoint.check()

    def send(self, message: Outgoing) -> None:
        if self._inbox.ended:
            raise ServerFault("the connection to the server has ended")
        if message.method == "initialize":
            self._session = self._version = ""
        if message.method == "notifications/cancelled" and self._is_stateless:
            return  # closing the stream of the request is the whole signal
        self._outbox.send(message)

    async def receive(self) -> Incoming | None:
        return await self._inbox.get()

    def cancel(self, id: Id) -> None:
        self._outbox.cancel(id)

    def negotiated(self, version: str) -> None:
        self._version = version

    async def close(self) -> None:
        await self._inbox.end()
        await self._outbox.close()
        if self._listening:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        if self._session:
            await self._end_session()
        self._endpoint.close()

    @property
    def _is_stateless(self) -> bool:
        return self._version >= _STATELESS

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"accept": accept}
        if self._session:
            headers["mcp-session-id"] = self._session
        if self._version:
            headers["mcp-protocol-version"] = self._version
        return headers

    def _message_headers(self, message: Outgoing) -> dict[str, str]:
        headers = {**self._headers(f"application/json, {_EVENTS}"), "content-type": "application/json"}
        version = self._version or version_in(message.line)
        if version >= _STATELESS:
            headers |= {"mcp-protocol-version": version, "mcp-method": header_value(message.method)}
            if message.name:
                headers["mcp-name"] = header_value(message.name)
            headers |= {name: header_value(value) for name, value in message.headers.items()}
        return headers

    # Messages of ours.

    async def _deliver(self, message: Outgoing) -> None:
        """Post a message, and pass on what the server answers. Called by `Outbox`."""
        try:
            async with asyncio.timeout(_NOTIFY_TIMEOUT if message.id is None else None):
                answer = await self._endpoint.request(
                    "POST",
                    self._message_headers(message),
                    message.line,
                    repeatable=message.method != "tools/call",  # its effects must not happen twice
                )
                self._post_lost = False
                with answer:
                    await self._receive_answer(message, answer)
        except HttpError as error:
            self._post_lost = True
            await self._fail(message.id, explain(error))
            if error.kind in UNREACHABLE:
                await self._inbox.end()
        except ServerFault as fault:
            await self._fail(message.id, str(fault), 401)
        except TimeoutError:
            pass  # nobody waits for what becomes of a notification

    async def _receive_answer(self, message: Outgoing, answer: Answer) -> None:
        if not 200 <= answer.status < 300:
            await self._receive_refusal(message, answer)
        elif message.id is None:
            if message.method == "notifications/initialized" and not self._is_stateless:
                self._listening = asyncio.create_task(self._listen())
        else:
            if message.method == "initialize":
                self._session = _session_id(answer)
            if media_type(answer) == _EVENTS:
                await self._receive_stream(message.id, answer)
            elif media_type(answer) == "application/json":
                await self._receive_body(message.id, answer)
            else:
                kind = media_type(answer)[:100] or "nothing"
                text = f"HTTP {answer.status}: the server answered a request with {kind}: check its url"
                await self._fail(message.id, text, answer.status)

    async def _receive_refusal(self, message: Outgoing, answer: Answer) -> None:
        body = await answer.read(_ERROR_BODY) if media_type(answer) == "application/json" else b""
        head = read_head(body)
        code = error_code(head) if head else None
        if self._is_expired(answer) and code != METHOD_NOT_FOUND:
            await self._expire(message.id)
        elif head and code is not None and message.id is not None and not self._endpoint.wants_login(answer):
            await self._inbox.put(with_id(head, message.id))
        else:
            await self._fail(message.id, self._endpoint.refusal(answer), answer.status)

    async def _receive_body(self, id: Id, answer: Answer) -> None:
        body = bytearray()
        async for piece in answer:
            body += piece
            if len(body) > MAX_LINE:
                answer.close()
                return await self._fail(id, f"the server's answer is longer than {MAX_LINE} bytes")
        answered = False
        for line in split_batch(bytes(body)):
            answered = await self._receive_message(line, id) or answered
        if not answered:
            await self._fail(id, f"HTTP {answer.status}: the server's answer does not follow the protocol")

    async def _receive_stream(self, id: Id, answer: Answer) -> None:
        """The events of an answer, up to the response. A stream that breaks off is resumed where that is possible."""
        cursor = _Cursor()
        while not await self._read_events(answer, cursor, id):
            if not cursor.id or self._is_stateless:
                return await self._fail(id, "the server's answer broke off")
            try:
                answer = await self._reopen(cursor)
            except (HttpError, ServerFault) as error:
                return await self._fail(id, f"the server's answer broke off, and cannot be resumed: {error}")

    async def _reopen(self, cursor: _Cursor) -> Answer:
        """Open a stream again. Raises ServerFault if the server refuses, and HttpError after several attempts."""
        while True:
            await asyncio.sleep(cursor.pause)
            try:
                answer = await self._open_stream(cursor)
            except HttpError:
                cursor.failures += 1
                if cursor.failures >= _MOST_FAILURES:
                    raise
            else:
                cursor.failures = 0
                return answer

    # Streams of events.

    async def _listen(self) -> None:
        """Read the stream of what the server sends by itself, and open it again as long as that works."""
        cursor = _Cursor()
        while cursor.failures < _MOST_FAILURES:
            began, events = monotonic(), cursor.events
            try:
                await self._read_events(await self._open_stream(cursor), cursor, None)
            except ServerFault:
                return None  # most servers have no such stream
            except HttpError as error:
                if error.kind in UNREACHABLE and self._post_lost:
                    return await self._inbox.end()
            works = cursor.events > events or monotonic() - began > _LASTING
            cursor.failures = 0 if works else cursor.failures + 1
            await asyncio.sleep(cursor.pause)

    async def _open_stream(self, cursor: _Cursor) -> Answer:
        headers = self._headers(_EVENTS)
        if cursor.id:
            headers["last-event-id"] = cursor.id
        answer = await self._endpoint.request("GET", headers)
        if answer.status == 200 and media_type(answer) == _EVENTS:
            return answer
        answer.close(finished=True)
        if self._is_expired(answer):
            await self._expire(None)
        if answer.status in (408, 429) or answer.status >= 500:
            raise HttpError("lost", f"HTTP {answer.status}")
        raise ServerFault(f"HTTP {answer.status}")

    async def _read_events(self, answer: Answer, cursor: _Cursor, id: Id) -> bool:
        """Pass on the messages of a stream. True once the response to the request `id` has come."""
        parser = EventParser(MAX_LINE)
        with answer:
            try:
                async for piece in answer:
                    for event in parser.feed(piece):
                        if await self._receive_event(event, cursor, id):
                            return True
                for event in parser.end():
                    if await self._receive_event(event, cursor, id):
                        return True
            except HttpError:
                pass  # it broke off
            except ValueError as error:
                answer.close()
                await self._inbox.put(TooLong(b"", MAX_LINE))
                await self._fail(id, str(error))
                return True
        return False

    async def _receive_event(self, event: Event, cursor: _Cursor, id: Id) -> bool:
        cursor.update(event)
        if event.name != "message" or not event.data:
            return False
        return await self._receive_message(event.data, id)

    async def _receive_message(self, line: bytes, id: Id) -> bool:
        """Pass on a message. True if it answers the request `id`, to which its stream belongs.

        An id that no request of ours has is replaced: the stream tells which request the response belongs to.
        """
        head = read_head(line) if id is not None else None
        if head is None or not head.is_response or (head.id != id and _is_id(head.id) and head.id in self._outbox):
            await self._inbox.put(line)
            return False
        await self._inbox.put(line if head.id == id else with_id(head, id))
        return True

    # Sessions.

    def _is_expired(self, answer: Answer) -> bool:
        return answer.status == 404 and bool(self._session)

    async def _expire(self, id: Id) -> None:
        """The server does not know the session any more: a new connection has to begin another one."""
        self._session = ""
        await self._fail(id, "the session has expired at the server", 404)
        await self._inbox.end()

    async def _end_session(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                answer = await self._endpoint.request("DELETE", self._headers("*/*"))
                answer.close()
        except (HttpError, ServerFault, TimeoutError):
            pass  # it expires by itself

    async def _fail(self, id: Id, reason: str, status: int = 0) -> None:
        if id is not None:
            await self._inbox.put(Failed(id, reason, status))


def _session_id(answer: Answer) -> str:
    id = answer.headers.get("mcp-session-id", "")
    usable = id.isascii() and id.isprintable() and " " not in id and len(id) <= _MOST_SESSION_ID
    return id if usable else ""


def _is_id(value: object) -> bool:
    return isinstance(value, int | str | float)
