"""The HTTP transport of the revision 2024-11-05: one stream of events from the server, and a POST for each message.

    GET                  200, a stream of events; the first names the address for messages: event: endpoint
    POST that address    202; the response comes as an event of the stream

The end of the stream is the end of the transport. The address for messages has to be at the origin of the server's own,
because the headers of its settings are sent there.
"""

import asyncio
from urllib.parse import urljoin

from polylect.http.client import Answer
from polylect.http.errors import HttpError
from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed, Outgoing
from polylect.mcp.transports.endpoint import Endpoint, explain, media_type
from polylect.mcp.transports.queues import Inbox, Incoming, Outbox
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.vocab.content import Server
from polylect.wire.http1 import parse_url
from polylect.wire.jsonl import MAX_LINE, TooLong
from polylect.wire.jsonrpc import Id
from polylect.wire.sse import Event, EventParser

_POST_TIMEOUT = 30.0
"""Seconds for a message to be accepted. The response to it comes later, on the stream."""
_EVENTS = "text/event-stream"


class Sse:
    """A transport to one server. See `Transport` for its methods."""

    def __init__(self, server: Server, setup: ServerSetup, log: ServerLog) -> None:
        self._endpoint = Endpoint(server, setup, log)
        self._start_timeout = setup.connect_timeout
        self._inbox = Inbox()
        self._outbox = Outbox(self._deliver)
        self._version = ""
        self._post_url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._endpoint.check()
        self._reader = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(self._start_timeout):
                await asyncio.shield(self._post_url)
        except TimeoutError:
            raise ServerFault("the server did not say where to send messages: is its transport sse?") from None

    def send(self, message: Outgoing) -> None:
        if self._inbox.ended:
            raise ServerFault("the connection to the server has ended")
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
        if self._reader:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        self._endpoint.close()

    # Messages of ours.

    async def _deliver(self, message: Outgoing) -> None:
        """Post a message. Called by `Outbox`."""
        headers = {"content-type": "application/json"}
        if self._version:
            headers["mcp-protocol-version"] = self._version
        try:
            async with asyncio.timeout(_POST_TIMEOUT):
                url = await asyncio.shield(self._post_url)
                with await self._endpoint.request(
                    "POST", headers, message.line, url=url, repeatable=message.method != "tools/call"
                ) as answer:
                    if not 200 <= answer.status < 300:
                        await self._fail(message.id, self._endpoint.refusal(answer), answer.status)
        except HttpError as error:
            await self._fail(message.id, explain(error))
        except ServerFault as fault:
            await self._fail(message.id, str(fault), 401)
        except TimeoutError:
            await self._fail(message.id, f"the server did not accept the message within {_POST_TIMEOUT:g} s")

    async def _fail(self, id: Id, reason: str, status: int = 0) -> None:
        if id is not None:
            await self._inbox.put(Failed(id, reason, status))

    # Messages of the server.

    async def _read(self) -> None:
        """Read the stream to its end, which is that of the transport."""
        try:
            with await self._endpoint.request("GET", {"accept": _EVENTS, "cache-control": "no-store"}) as answer:
                if answer.status != 200:
                    raise ServerFault(self._endpoint.refusal(answer))
                if media_type(answer) != _EVENTS:
                    kind = media_type(answer)[:100] or "nothing"
                    raise ServerFault(f"the server answered with {kind} instead of a stream of events: check its url")
                await self._read_events(answer)
            self._reject(ServerFault("the server ended the connection"))
        except HttpError as error:
            self._reject(ServerFault(explain(error)))
        except ServerFault as fault:
            self._reject(fault)
        finally:
            await self._inbox.end()

    async def _read_events(self, answer: Answer) -> None:
        parser = EventParser(MAX_LINE)
        async for piece in answer:
            try:
                events = parser.feed(piece)
            except ValueError:
                await self._inbox.put(TooLong(b"", MAX_LINE))
                return
            for event in events:
                await self._receive_event(event)

    async def _receive_event(self, event: Event) -> None:
        if event.name == "endpoint" and not self._post_url.done():
            self._post_url.set_result(self._resolved(event.data.decode(errors="replace")))
        elif event.name == "message" and event.data:
            await self._inbox.put(event.data)

    def _resolved(self, text: str) -> str:
        """The address for messages. Raises ServerFault if it is at another origin."""
        url = urljoin(self._endpoint.url, text.strip())
        try:
            new, own = parse_url(url), parse_url(self._endpoint.url)
        except ValueError:
            raise ServerFault("the server names no usable address for messages") from None
        if (new.scheme, new.host, new.port) != (own.scheme, own.host, own.port):
            raise ServerFault("the server wants messages to be sent to another origin")
        return url

    def _reject(self, fault: ServerFault) -> None:
        if not self._post_url.done():
            self._post_url.set_exception(fault)
            self._post_url.exception()  # retrieved, so that asyncio does not log it
