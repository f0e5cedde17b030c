"""Streamable HTTP against servers on real sockets, honest and hostile ones."""

import asyncio
import gzip
import time

import pytest

from mcp_servers.http_double import (
    EVENTS,
    Client,
    Exchange,
    HttpServer,
    chunk,
    client_of,
    event,
    head,
    notification,
    result,
    with_server,
)
from polylect.mcp.transports.base import Failed
from polylect.mcp.transports.http_messages import header_value
from polylect.mcp.values import ServerFault
from polylect.wire.jsonl import MAX_LINE, TooLong


async def honest(exchange: Exchange) -> None:
    """Answers requests with JSON, has sessions and no stream of its own."""
    match exchange.method, exchange.message.get("method"):
        case "POST", "initialize":
            await exchange.answer(result(exchange.message["id"]), mcp_session_id="s-1")
        case "POST", _ if "id" in exchange.message:
            await exchange.answer(result(exchange.message["id"]))
        case "POST", _:
            await exchange.answer(status=202)
        case "GET", _:
            await exchange.answer(status=405)
        case "DELETE", _:
            await exchange.answer(status=204)


def test_a_session_from_its_handshake_to_its_end() -> None:
    """Requirements 26, 27, 28 and 32."""

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        client.request(1, "tools/list")
        assert await client.receive() == result(1)

    server = with_server(honest, work, headers={"X-Key": "k", "Content-Length": "9", "Accept": "x/y"})
    assert sorted(server.lines()) == [
        "DELETE /mcp",
        "GET /mcp",
        "POST initialize",
        "POST notifications/initialized",
        "POST tools/list",
    ]
    first, *others = server.requests
    assert not {"mcp-session-id", "mcp-protocol-version"} & first.headers.keys()
    for request in others:
        assert (request.headers["mcp-session-id"], request.headers["mcp-protocol-version"]) == ("s-1", "2025-11-25")
    for request in server.requests:
        assert request.headers["x-key"] == "k"
        if request.method == "POST":
            assert request.headers["accept"] == f"application/json, {EVENTS}"
            assert request.headers["content-type"] == "application/json"
        elif request.method == "GET":
            assert request.headers["accept"] == EVENTS
    assert "mcp-method" not in first.headers


def test_requests_wait_until_the_server_knows_that_it_is_initialized() -> None:
    accept = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.message.get("method") == "notifications/initialized":
            await accept.wait()
        await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        client.request(1, "tools/list")
        await server.asked("POST notifications/initialized")
        for _ in range(100):
            await asyncio.sleep(0)
        assert "POST tools/list" not in server.lines()
        accept.set()
        assert await client.receive() == result(1)

    with_server(handler, work)


def test_a_server_that_never_answers_a_notification_still_gets_requests() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.message.get("method") == "notifications/initialized":
            await exchange.hung_up()
        else:
            await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        client.request(1, "tools/list")
        assert await client.receive() == result(1)

    with_server(handler, work)


def test_an_answer_can_be_a_stream_with_other_messages_before_the_response() -> None:
    """Requirements 26 and 33."""
    progress = notification("notifications/progress", progress=1)
    question = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}  # the ids of the server are its own

    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(b": hello\n\n", event(progress), event(question), event(result(1, a="b")))
        await exchange.end()

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1, "tools/call")
        assert [await client.receive() for _ in range(3)] == [progress, question, result(1, a="b")]
        client.request(1, "tools/call")
        assert [await client.receive() for _ in range(3)] == [progress, question, result(1, a="b")]
        assert server.connections == 1

    with_server(handler, work)


def test_requests_at_once_are_answered_in_any_order_and_one_can_be_cancelled() -> None:
    released = {2: asyncio.Event(), 3: asyncio.Event()}
    left = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        id = exchange.message["id"]
        await exchange.begin_events()
        if id == 1:
            await exchange.hung_up()
            left.set()
        else:
            await released[id].wait()
            await exchange.write(chunk(event(result(id))))
            await exchange.end()

    async def work(client: Client, server: HttpServer) -> None:
        for id in (1, 2, 3):
            client.request(id, "tools/call")
        released[3].set()
        assert await client.receive() == result(3)
        client.transport.cancel(1)
        await left.wait()
        released[2].set()
        assert await client.receive() == result(2)

    with_server(handler, work)


def test_the_server_can_send_messages_of_its_own() -> None:
    """Requirement 29."""
    changed = notification("notifications/tools/list_changed")

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET" and "last-event-id" in exchange.headers:
            assert exchange.headers["last-event-id"] == "e-1"
            await exchange.begin_events(event(changed, id="e-2"))
            await exchange.hung_up()
        elif exchange.method == "GET":
            await exchange.begin_events(event(changed, id="e-1", retry=100))
            await exchange.end()
        else:
            await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        assert [await client.receive(), await client.receive()] == [changed, changed]

    with_server(handler, work)


# Streams that break off.


def broken_off(*, retry: int | None = None, then: list[bytes] | None = None, status: int = 200) -> tuple[object, float]:
    """What becomes of a request whose stream ends after its first event, and after how many seconds."""
    progress = notification("notifications/progress", progress=1)
    times: list[float] = []

    async def handler(exchange: Exchange) -> None:
        times.append(time.monotonic())
        if exchange.method == "POST":
            await exchange.begin_events(event(id="e-0"), event(progress, id="e-1", retry=retry))
            exchange.cut()
        elif status == 200:
            assert exchange.headers["last-event-id"] == f"e-{len(times) - 1}"
            await exchange.begin_events(then[len(times) - 2] if then else b"")
            exchange.cut()
        else:
            await exchange.answer(status=status)

    outcome: list[object] = []

    async def work(client: Client, server: HttpServer) -> None:
        client.request(7, "tools/call")
        assert await client.receive() == progress
        outcome.append(await client.receive())

    with_server(handler, work)
    return outcome[0], times[1] - times[0] if len(times) > 1 else 0.0


def test_a_stream_that_broke_off_is_resumed_after_the_last_event_when_the_server_says() -> None:
    """Requirement 30."""
    steps = [event(id="e-2"), event(id="e-3"), event(result(7), id="e-4")]
    assert broken_off(retry=10, then=steps)[0] == result(7)
    assert broken_off(retry=700, then=[event(result(7))])[1] >= 0.7


def test_attempts_to_resume_are_bounded() -> None:
    outcome, _ = broken_off(retry=0, status=503)
    assert outcome == Failed(7, "the server's answer broke off, and cannot be resumed: HTTP 503")


def test_a_server_that_refuses_to_resume_is_asked_once() -> None:
    outcome, _ = broken_off(retry=0, status=400)
    assert outcome == Failed(7, "the server's answer broke off, and cannot be resumed: HTTP 400")


def test_a_stream_without_ids_cannot_be_resumed() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(event(notification("a")))
        await exchange.end()

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1, "tools/call")
        await client.receive()
        assert await client.receive() == Failed(1, "the server's answer broke off")

    assert with_server(handler, work).lines() == ["POST tools/call"]


def test_a_call_is_not_repeated_when_the_connection_ends_at_it() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.message["method"] == "tools/call":
            exchange.cut()
        else:
            await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1, "tools/list")
        await client.receive()
        client.request(2, "tools/call")
        assert "closed the connection" in (await client.failed()).reason

    assert with_server(handler, work).lines() == ["POST tools/list", "POST tools/call"]


# Refusals.


def refused(status: int, body: object = b"", *, passed_on: bytes = b"", **headers: str) -> object:
    """What becomes of a request that is answered like this, after what was passed on first."""

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(body, status, **headers)

    outcome: list[object] = []

    async def work(client: Client, server: HttpServer) -> None:
        client.request(5, "tools/list")
        assert not passed_on or await client.transport.receive() == passed_on
        outcome.append(await client.receive())

    with_server(handler, work)
    return outcome[0]


def test_a_status_that_refuses_is_the_end_of_the_request_only() -> None:
    assert refused(503) == Failed(5, "HTTP 503 Service Unavailable", 503)
    assert refused(405) == Failed(5, "HTTP 405 Method Not Allowed", 405)
    assert refused(599) == Failed(5, "HTTP 599", 599)
    assert refused(404, {"detail": "Not Found"}) == Failed(5, "HTTP 404 Not Found", 404)


def test_an_error_of_the_protocol_in_a_refusal_is_the_response() -> None:
    """Requirement 36."""
    error = {"code": -32020, "message": "wrong header"}
    expected = {"jsonrpc": "2.0", "id": 5, "error": error}
    assert refused(400, {"jsonrpc": "2.0", "id": None, "error": error}) == expected
    assert refused(404, {"jsonrpc": "2.0", "id": 5, "error": error}) == expected
    assert refused(400, {"error": "invalid_request"}) == Failed(5, "HTTP 400 Bad Request", 400)


def test_an_answer_that_is_none_ends_the_request() -> None:
    assert refused(202) == Failed(5, "HTTP 202: the server answered a request with nothing: check its url", 202)
    html = refused(200, b"<html>", content_type="text/html; charset=utf-8")
    assert html == Failed(5, "HTTP 200: the server answered a request with text/html: check its url", 200)
    wrong = Failed(5, "HTTP 200: the server's answer does not follow the protocol")
    assert refused(200, b"", content_type="application/json") == wrong
    for body in (b"<html>", b"[" * 100_000, b"{}", b"7"):
        assert refused(200, body, passed_on=body, content_type="application/json") == wrong


def test_the_response_belongs_to_the_request_of_its_stream_whatever_its_id() -> None:
    assert refused(200, result("5", a=1)) == result(5, a=1)
    assert refused(200, result(None, a=1)) == result(5, a=1)
    assert refused(200, result({"a": []}, a=1)) == result(5, a=1)
    assert refused(200, [result(5, a=1)]) == result(5, a=1)


def test_a_session_that_the_server_has_forgotten_is_the_end() -> None:
    """Requirement 31: the supervisor connects again."""

    async def handler(exchange: Exchange) -> None:
        if exchange.message.get("method") == "tools/list":
            error = {"code": -32001, "message": "Session not found"}
            await exchange.answer({"jsonrpc": "2.0", "id": None, "error": error}, 404)
        else:
            await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        client.request(1, "tools/list")
        assert await client.receive() == Failed(1, "the session has expired at the server", 404)
        assert await client.receive() is None
        with pytest.raises(ServerFault, match="has ended"):
            client.request(2)

    assert "DELETE /mcp" not in with_server(handler, work).lines()


def test_a_server_that_is_gone_is_the_end() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        await server.__aexit__()
        client.request(1)
        assert "the server cannot be reached: cannot connect to 127.0.0.1" in (await client.failed()).reason
        assert await client.receive() is None

    with_server(honest, work)


# Redirects and secrets.


def test_a_redirect_within_the_origin_is_followed() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/mcp":
            await exchange.answer(status=307, location="/mcp/")
        else:
            await honest(exchange)

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1, "tools/call")
        assert await client.receive() == result(1)

    assert [request.path for request in with_server(handler, work).requests] == ["/mcp", "/mcp/"]


def test_another_origin_gets_neither_headers_nor_messages() -> None:
    """Requirement 34."""

    async def work(client: Client, server: HttpServer) -> None:
        async with HttpServer(honest) as other:
            location[0] = f"{other.url}/mcp?key=secret"
            client.request(1, "tools/call")
            failed = await client.failed()
            assert failed.reason == (
                "HTTP 307 Temporary Redirect: the server redirects to another one: "
                f"change its url to one that begins with {other.url}/"
            )
            assert other.requests == []

    location = [""]

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(status=307, location=location[0])

    with_server(handler, work, headers={"authorization": "Bearer secret"})


@pytest.mark.parametrize("status", [0, 200, 307, 400, 404, 500])
def test_keys_in_the_address_and_in_headers_are_in_no_text(status: int) -> None:
    async def handler(exchange: Exchange) -> None:
        assert exchange.path == "/secret-1?key=secret-2"
        assert exchange.headers["authorization"] == "secret-3"
        if status:
            await exchange.answer(status=status, location="http://127.0.0.1:1/secret-1", content_type="text/html")
        else:
            exchange.cut()

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        assert "secret" not in (await client.failed()).reason

    with_server(handler, work, headers={"Authorization": "secret-3"}, path="/secret-1?key=secret-2")


def test_a_password_in_the_address_is_sent_as_a_header() -> None:
    async def main() -> None:
        async with HttpServer(honest) as server:
            client = client_of(server.url.replace("//", "//me:s%20t@"))
            await client.transport.start()
            client.request(1)
            assert await client.receive() == result(1)
            await client.transport.close()
            assert server.requests[0].headers["authorization"] == "Basic bWU6cyB0"

    asyncio.run(main())


@pytest.mark.parametrize("url", ["", "secret", "http://", "ftp://secret/", "http://a b/secret", "http://h:secret/"])
def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    async def main() -> None:
        client = client_of(url)
        with pytest.raises(ServerFault, match="url") as caught:
            await client.transport.start()
        assert "secret" not in str(caught.value)
        await client.transport.close()

    asyncio.run(main())


def test_a_header_that_cannot_be_sent_is_named_without_its_value() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        expected = "the header x-key would hold characters that are not printable ASCII"
        assert await client.receive() == Failed(1, expected)

    with_server(honest, work, headers={"X-Key": "secret\r\nx: y"})


def test_a_proxy_of_the_environment_is_used_with_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Exchange:
        async with HttpServer(honest) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:x@"))
            client = client_of("http://far.example/mcp")
            await client.transport.start()
            client.request(1)
            assert await client.receive() == result(1)
            await client.transport.close()
            return proxy.requests[0]

    request = asyncio.run(main())
    assert request.path == "http://far.example/mcp"
    assert request.headers["proxy-authorization"] == "Basic bWU6eA=="


# Too much, too slow, and without an end.


def test_an_answer_that_is_too_long_is_not_read_to_its_end() -> None:
    sent = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.write(head(200, content_type="application/json", transfer_encoding="chunked"))
        while True:
            await exchange.write(chunk(b" " * 1024 * 1024))
            sent += 1024 * 1024

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        assert await client.receive() == Failed(1, f"the server's answer is longer than {MAX_LINE} bytes")

    with_server(handler, work)
    assert sent < 2 * MAX_LINE


def test_an_event_that_is_too_long_is_not_read_to_its_end() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(b"data: ")
        while True:
            await exchange.write(chunk(b"x" * 1024 * 1024))

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        assert await client.receive() == TooLong(b"", MAX_LINE)
        assert await client.receive() == Failed(1, f"an event is longer than {MAX_LINE} bytes")

    with_server(handler, work)


def test_a_body_that_is_small_only_when_packed_is_bounded_too() -> None:
    packed = gzip.compress(b" " * (MAX_LINE + 2 * 1024 * 1024), 9)
    outcome = refused(200, packed, content_type="application/json", content_encoding="gzip")
    assert outcome == Failed(5, f"the server's answer is longer than {MAX_LINE} bytes")
    outcome = refused(200, b"x", content_type="application/json", content_encoding="br")
    assert outcome == Failed(5, "the server answers in the encoding 'br', which was not asked for")


def test_a_stream_that_goes_on_after_the_response_holds_nobody_up() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(event(result(exchange.message["id"])))
        while True:
            await exchange.write(chunk(b": more\n\n"))
            await asyncio.sleep(0)

    async def work(client: Client, server: HttpServer) -> None:
        for id in range(10):
            client.request(id)
            assert await client.receive() == result(id)

    with_server(handler, work)


def test_a_server_that_drips_is_left_when_the_request_is_cancelled() -> None:
    left = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.message["id"] == 2:
            return await honest(exchange)
        try:
            await exchange.write(b"HTTP/1.1 200 -\r\nx: ")
            while True:
                await exchange.write(b"x")
                await asyncio.sleep(0.001)
        except ConnectionError:
            left.set()

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        await server.asked("POST ping")
        client.request(2)
        assert await client.receive() == result(2)
        client.transport.cancel(1)
        await left.wait()

    with_server(handler, work)


def test_a_server_that_writes_faster_than_it_is_read_is_slowed_down() -> None:
    sent = 0
    count = 20_000

    async def handler(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin_events()
        for _ in range(count):
            await exchange.write(chunk(event(notification("a", text="x" * 1000))))
            sent += 1
        await exchange.write(chunk(event(result(1))))
        await exchange.end()

    async def work(client: Client, server: HttpServer) -> None:
        client.request(1)
        before = -1
        while before != sent or not sent:
            before = sent
            for _ in range(1000):
                await asyncio.sleep(0)
        assert sent < count / 2
        for _ in range(count):
            assert (await client.receive())["method"] == "a"
        assert await client.receive() == result(1)

    with_server(handler, work)


def test_a_server_that_never_answers_does_not_hold_up_the_end() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.message.get("method") == "initialize":
            await honest(exchange)
        else:
            await exchange.hung_up()

    async def work(client: Client, server: HttpServer) -> None:
        await client.handshake()
        await server.asked("POST notifications/initialized")

    began = time.monotonic()
    assert with_server(handler, work).lines()[-1] == "DELETE /mcp"
    assert time.monotonic() - began < 10


def test_answers_that_the_server_does_not_accept_are_bounded() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.hung_up()

    async def work(client: Client, server: HttpServer) -> None:
        with pytest.raises(ServerFault, match="does not accept messages"):
            for _ in range(2000):
                client.notify("notifications/roots/list_changed")

    with_server(handler, work)


# Revision 2026-07-28.


def test_the_newest_revision_has_headers_for_each_message_and_no_session() -> None:
    """Requirements 37 and 39."""

    async def work(client: Client, server: HttpServer) -> None:
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        client.request(0, "server/discover", _meta=meta)
        assert await client.receive() == result(0)
        client.transport.negotiated("2026-07-28")
        client.request(1, "tools/call", name="lire", _meta=meta)
        await client.receive()
        client.request(2, "tools/call", name="écrire", _meta=meta)
        await client.receive()
        client.notify("notifications/cancelled")
        client.request(3, "tools/list", _meta=meta)
        await client.receive()

    server = with_server(honest, work)
    assert server.lines() == ["POST server/discover", "POST tools/call", "POST tools/call", "POST tools/list"]
    names = ("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id")
    assert [tuple(request.headers.get(name) for name in names) for request in server.requests] == [
        ("2026-07-28", "server/discover", None, None),
        ("2026-07-28", "tools/call", "lire", None),
        ("2026-07-28", "tools/call", "=?base64?w6ljcmlyZQ==?=", None),
        ("2026-07-28", "tools/list", None, None),
    ]


def test_the_newest_revision_does_not_resume() -> None:
    """Requirement 39."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin_events(event(notification("a"), id="e-1", retry=1))
        await exchange.end()

    async def work(client: Client, server: HttpServer) -> None:
        client.transport.negotiated("2026-07-28")
        client.request(1, "tools/call")
        await client.receive()
        assert await client.receive() == Failed(1, "the server's answer broke off")

    assert with_server(handler, work).lines() == ["POST tools/call"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", "us-west1"),
        ("a b", "a b"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_values_of_headers_are_encoded_as_the_specification_shows(text: str, value: str) -> None:
    assert header_value(text) == value
