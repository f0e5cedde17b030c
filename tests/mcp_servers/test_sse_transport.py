"""The older HTTP+SSE transport against servers on real sockets."""

import asyncio
from typing import Any

import pytest

from mcp_servers.http_double import EVENTS, Client, Exchange, HttpServer, chunk, client_of, event, result, with_server
from polylect.mcp.transports.base import Failed
from polylect.mcp.transports.sse import Sse
from polylect.mcp.values import ServerFault
from polylect.wire.jsonl import MAX_LINE, TooLong


class Double:
    """Answers every request on its stream."""

    def __init__(self, endpoint: str = "/post?session=1", status: int = 202) -> None:
        self.endpoint = endpoint
        self.status = status
        self.stream: Exchange | None = None

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            self.stream = exchange
            await exchange.begin_events(event(self.endpoint, name="endpoint"))
            await exchange.hung_up()
            return
        await exchange.answer(b"Accepted", self.status)
        if self.stream and self.status == 202 and "id" in exchange.message:
            await self.stream.write(chunk(event(result(exchange.message["id"]), name="message")))


def test_messages_are_posted_to_the_address_that_the_stream_names() -> None:
    """Requirement 35."""

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake("2024-11-05")
        client.request(1, "tools/list")
        assert await client.receive() == result(1)

    server = with_server(Double(), work, transport=Sse, headers={"X-Key": "k"}, path="/sse")
    assert server.lines() == ["GET /sse", "POST initialize", "POST notifications/initialized", "POST tools/list"]
    assert [request.path for request in server.requests[1:]] == ["/post?session=1"] * 3
    assert all(request.headers["x-key"] == "k" for request in server.requests)
    assert server.requests[0].headers["accept"] == EVENTS
    assert server.requests[-1].headers["mcp-protocol-version"] == "2024-11-05"


def test_a_message_that_is_refused_is_the_end_of_its_request_only() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        assert await client.receive() == Failed(1, "HTTP 500 Internal Server Error", 500)
        client.request(2)
        assert await client.receive() == Failed(2, "HTTP 500 Internal Server Error", 500)

    with_server(Double(status=500), work, transport=Sse)


def test_the_end_of_the_stream_is_the_end() -> None:
    double = Double()

    async def work(client: Client, server: HttpServer) -> None:
        assert double.stream
        double.stream.cut()
        assert await client.receive() is None
        with pytest.raises(ServerFault, match="has ended"):
            client.request(1)

    with_server(double, work, transport=Sse)


def test_an_event_that_is_too_long_is_the_end() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(event("/post", name="endpoint"), b"data: ")
        while True:
            await exchange.write(chunk(b"x" * 1024 * 1024))

    async def work(client: Client, server: HttpServer) -> None:
        assert await client.receive() == TooLong(b"", MAX_LINE)
        assert await client.receive() is None

    with_server(handler, work, transport=Sse)


def fault_at_start(handler: Any) -> str:
    async def work(client: Client, server: HttpServer) -> None:
        with pytest.raises(ServerFault) as caught:
            await client.transport.start()
        faults.append(str(caught.value))
        assert "where to send" in faults[0] or await client.receive() is None

    faults: list[str] = []
    with_server(handler, work, transport=Sse, start=False)
    return faults[0]


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/post", "https://127.0.0.1/post", "//other.example/post"])
def test_messages_are_not_sent_to_another_origin(endpoint: str) -> None:
    """Requirement 34."""
    assert fault_at_start(Double(endpoint)) == "the server wants messages to be sent to another origin"


def test_a_server_that_has_no_such_stream_fails_at_the_start() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(status=404)

    async def page(exchange: Exchange) -> None:
        await exchange.answer(b"<html>", content_type="text/html")

    async def empty(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.end()

    async def cut(exchange: Exchange) -> None:
        exchange.cut()

    async def silent(exchange: Exchange) -> None:
        await exchange.begin_events()
        while True:
            await exchange.write(chunk(b": not yet\n\n"))
            await asyncio.sleep(0.01)

    assert fault_at_start(refuse) == "HTTP 404 Not Found"
    assert fault_at_start(page) == "the server answered with text/html instead of a stream of events: check its url"
    assert fault_at_start(empty) == "the server ended the connection"
    assert "closed the connection" in fault_at_start(cut)
    assert "did not say where to send messages" in fault_at_start(silent)
    assert fault_at_start(Double("http://:9/x")) == "the server names no usable address for messages"


def test_a_server_that_is_not_there_fails_at_the_start() -> None:
    async def main() -> None:
        async with HttpServer(Double()) as server:
            pass
        client = client_of(server.url, Sse)
        with pytest.raises(ServerFault, match="the server cannot be reached: cannot connect to 127"):
            await client.transport.start()
        await client.transport.close()

    asyncio.run(main())
