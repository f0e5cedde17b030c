"""The HTTP client against real sockets."""

import asyncio
import gzip
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from polylect import __version__
from polylect.http.client import Client
from polylect.http.errors import HttpError
from polylect.http.proxy import proxy_for
from polylect.wire.http1 import parse_url
from providers.loopback import CUT, STALL, Loopback, Step, chunk, head, reply, run


@asynccontextmanager
async def client(env: Mapping[str, str] | None = None, **options: Any) -> AsyncIterator[Client]:
    opened = Client(env or {}, **options)
    try:
        yield opened
    finally:
        opened.close()


async def ask(client: Client, url: str, body: bytes = b"{}") -> bytes:
    answer = await client.request("POST", url + "/x", {"content-type": "application/json"}, body)
    read = await answer.read(1 << 30)
    answer.close(finished=True)
    return read


def faults(answer: list[Step], **options: Any) -> HttpError:
    """The error that an answer is."""

    async def main() -> HttpError:
        async with Loopback([answer]) as server, client(**options) as c:
            with pytest.raises(HttpError) as caught:
                await ask(c, server.url)
            return caught.value

    return run(main)


def test_a_request_arrives_whole_and_its_answer_comes_in_pieces() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one", b"two")]) as server, client() as c:
            assert await ask(c, server.url, b'{"a": 1}') == b"onetwo"
            [request] = server.requests
            assert request.line == "POST /x HTTP/1.1"
            assert request.body == b'{"a": 1}'
            assert request.headers["host"] == f"127.0.0.1:{server.port}"
            assert request.headers["accept-encoding"] == "identity"
            assert request.headers["user-agent"] == f"polylect/{__version__}"

    run(main)


def test_a_connection_is_used_again_when_the_answer_was_read() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one")]) as server, client() as c:
            for _ in range(3):
                assert await ask(c, server.url) == b"one"
            assert (len(server.requests), server.connections) == (3, 1)

    run(main)


def test_a_connection_is_not_used_again_when_the_answer_was_left() -> None:
    async def main() -> None:
        async with Loopback([[head(200, content_length="100"), b"one", STALL], reply(b"two")]) as server, client() as c:
            answer = await c.request("POST", server.url, {})
            assert await anext(answer) == b"one"
            answer.close()
            await server.hung_up.wait()
            assert await ask(c, server.url) == b"two"
            assert server.connections == 2

    run(main)


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_unseen() -> None:
    async def main() -> None:
        answers = [[*reply(b"one"), CUT], reply(b"two")]
        async with Loopback(answers) as server, client() as c:
            assert await ask(c, server.url) == b"one"
            assert await ask(c, server.url) == b"two"
            assert server.connections == 2

    run(main)


def test_a_server_that_closes_when_it_sees_the_second_request_is_asked_again_once() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one"), [CUT], reply(b"two")]) as server, client() as c:
            assert await ask(c, server.url) == b"one"
            assert await ask(c, server.url) == b"two"
            assert (len(server.requests), server.connections) == (3, 2)

    run(main)


def test_a_new_connection_that_is_closed_is_a_network_fault() -> None:
    assert faults([CUT]).kind == "lost"


def test_an_answer_that_is_cut_is_a_network_fault() -> None:
    assert faults([head(200, transfer_encoding="chunked"), chunk(b"one"), b"5\r\ntw", CUT]).kind == "lost"


def test_an_answer_without_a_length_ends_when_the_server_closes() -> None:
    async def main() -> None:
        async with Loopback([[head(200), b"one", CUT]]) as server, client() as c:
            assert await ask(c, server.url) == b"one"

    run(main)


def test_an_interim_answer_is_skipped() -> None:
    async def main() -> None:
        async with Loopback([[b"HTTP/1.1 100 Continue\r\n\r\n", *reply(b"one")]]) as server, client() as c:
            assert await ask(c, server.url) == b"one"

    run(main)


def test_l6_a_server_that_goes_silent_is_cut() -> None:
    error = faults([head(200, content_length="10"), b"one", STALL], idle_timeout=0.05)
    assert error.kind == "silent"
    assert "said nothing for 0.05 s" in str(error)


def test_what_is_not_http_is_a_fault_of_its_own() -> None:
    assert faults([b"SSH-2.0-OpenSSH_9.2\r\n", STALL]).kind == "not_http"


def test_an_address_that_is_none_is_not_asked() -> None:
    async def main(url: str) -> HttpError:
        async with client() as c:
            with pytest.raises(HttpError) as caught:
                await ask(c, url)
            return caught.value

    for url in ["localhost:80", "ftp://x", "http://", "http://a b", "http://h:port"]:
        assert asyncio.run(main(url)).kind == "address"


def test_nobody_listening_is_a_network_fault() -> None:
    async def main() -> HttpError:
        async with Loopback([]) as server:
            url = server.url
        async with client() as c:
            with pytest.raises(HttpError) as caught:
                await ask(c, url)
            return caught.value

    error = run(main)
    assert error.kind == "connect"
    assert "cannot connect" in str(error)


def test_cancelling_drops_the_connection_at_once() -> None:
    async def main() -> None:
        async with Loopback([[STALL]]) as server, client() as c:
            task = asyncio.create_task(ask(c, server.url))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()

    run(main)


def test_a_slow_reader_slows_the_server_instead_of_filling_memory() -> None:
    async def main() -> None:
        async with Loopback([reply(*[b"x" * 65536] * 1000)]) as server, client() as c:
            answer = await c.request("POST", server.url, {})
            before = -1
            while before != server.sent:  # the server is stuck once nothing moves any more
                before = server.sent
                for _ in range(1000):
                    await asyncio.sleep(0)
            size = sum([len(data) async for data in answer])
            answer.close(finished=True)
            assert size == 1000 * 65536
            assert before < size / 2

    run(main)


def test_an_answer_packed_against_our_wish_is_unpacked() -> None:
    async def main() -> None:
        packed = gzip.compress(b"one two three")
        async with Loopback([reply(packed[:9], packed[9:], content_encoding="gzip")]) as server, client() as c:
            assert await ask(c, server.url) == b"one two three"

    run(main)
    assert faults(reply(b"junk", content_encoding="gzip")).kind == "encoding"
    assert faults(reply(b"junk", content_encoding="br")).kind == "encoding"


def test_a_get_and_a_delete_have_no_body_and_their_answers_need_none() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one"), [head(204)], reply(b"two")]) as server, client() as c:
            for method, status in (("GET", 200), ("DELETE", 204), ("GET", 200)):
                answer = await c.request(method, server.url + "/x?a=1", {})
                assert answer.status == status
                await answer.read(1 << 20)
                answer.close(finished=True)
            assert [request.line for request in server.requests] == [
                "GET /x?a=1 HTTP/1.1",
                "DELETE /x?a=1 HTTP/1.1",
                "GET /x?a=1 HTTP/1.1",
            ]
            assert all("content-length" not in request.headers for request in server.requests)
            assert server.connections == 1

    run(main)


def test_each_request_can_have_an_idle_limit_of_its_own() -> None:
    async def main() -> None:
        async with Loopback([[head(200, content_length="10"), b"one", STALL]]) as server, client() as c:
            answer = await c.request("GET", server.url, {}, idle_timeout=0.05)
            with pytest.raises(HttpError, match=r"said nothing for 0\.05 s"):
                await answer.read(1 << 20)
            answer.close()

    run(main)


def test_what_must_not_be_repeated_fails_if_an_idle_connection_ends_at_it() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one"), [CUT], reply(b"two")]) as server, client() as c:
            assert await ask(c, server.url) == b"one"
            with pytest.raises(HttpError) as caught:
                await c.request("POST", server.url, {}, b"{}", repeatable=False)
            assert caught.value.kind == "lost"
            assert len(server.requests) == 2

    run(main)


def test_a_silent_connection_is_probed() -> None:
    async def main() -> None:
        async with Loopback([[head(200), STALL]]) as server, client() as c:
            answer = await c.request("GET", server.url, {})
            raw = answer._connection.transport.get_extra_info("socket")
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            answer.close()

    run(main)


# Redirects.


def redirected(method: str, status: int, location: str, redirects: int = 5) -> list[str]:
    """The lines of the requests that are sent, and the status of the last answer."""

    async def main() -> list[str]:
        async with Loopback([[head(status, location=location, content_length="0")], reply(b"one")]) as server:
            async with client() as c:
                answer = await c.request(method, f"{server.url}/a/b", {"x-key": "secret"}, redirects=redirects)
                answer.close()
            assert all(request.headers["x-key"] == "secret" for request in server.requests)
            return [*(request.line for request in server.requests), str(answer.status)]

    return run(main)


def test_redirects_within_the_origin_are_followed_where_the_method_stays() -> None:
    assert redirected("POST", 307, "/c") == ["POST /a/b HTTP/1.1", "POST /c HTTP/1.1", "200"]
    assert redirected("DELETE", 308, "c?d=1") == ["DELETE /a/b HTTP/1.1", "DELETE /a/c?d=1 HTTP/1.1", "200"]
    assert redirected("GET", 302, "/c") == ["GET /a/b HTTP/1.1", "GET /c HTTP/1.1", "200"]
    assert redirected("POST", 302, "/c") == ["POST /a/b HTTP/1.1", "302"]
    assert redirected("GET", 302, "/c", redirects=0) == ["GET /a/b HTTP/1.1", "302"]


@pytest.mark.parametrize(
    "place", ["http://localhost/c", "https://127.0.0.1/c", "//127.0.0.1:1/c", "ftp://x", "http://:9"]
)
def test_redirects_to_another_origin_are_not_followed(place: str) -> None:
    assert redirected("POST", 307, place) == ["POST /a/b HTTP/1.1", "307"]


def test_redirects_without_an_end_end() -> None:
    async def main() -> None:
        async with Loopback([[head(307, location="/x", content_length="0")]]) as server, client() as c:
            answer = await c.request("POST", server.url, {}, redirects=3)
            answer.close()
            assert (answer.status, len(server.requests)) == (307, 4)

    run(main)


# TLS.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and models.example that vouches for itself, with its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=polylect", "-days", "2",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:models.example", "-keyout", "/dev/stdout"],
        capture_output=True, check=True,
    )  # fmt: skip
    path.write_bytes(made.stdout)
    return path


def tls_server(certificate: Path, answers: list[list[Step]]) -> Loopback:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return Loopback(answers, context)


def test_https_is_spoken_to_servers_whose_certificate_is_trusted(certificate: Path) -> None:
    async def main() -> None:
        env = {"SSL_CERT_FILE": str(certificate)}
        async with tls_server(certificate, [reply(b"one")]) as server, client(env) as c:
            assert await ask(c, server.url) == await ask(c, server.url) == b"one"
            assert server.connections == 1
        async with tls_server(certificate, [reply(b"one")]) as server, client(ca_file=str(certificate)) as c:
            assert await ask(c, server.url) == b"one"

    run(main)


def test_https_is_refused_where_the_certificate_is_not_trusted_and_says_what_to_set(certificate: Path) -> None:
    async def main() -> HttpError:
        async with tls_server(certificate, [reply(b"one")]) as server, client() as c:
            with pytest.raises(HttpError) as caught:
                await ask(c, server.url)
            return caught.value

    error = run(main)
    assert error.kind == "certificate"
    assert "SSL_CERT_FILE" in str(error)


# Proxies.


def test_a_proxy_gets_plain_requests_with_the_whole_address() -> None:
    async def main() -> None:
        async with Loopback([reply(b"one")]) as proxy:
            env = {"http_proxy": f"http://me:se%20cret@127.0.0.1:{proxy.port}"}
            async with client(env) as c:
                assert await ask(c, "http://models.example:8000") == b"one"
            assert proxy.requests[0].line == "POST http://models.example:8000/x HTTP/1.1"
            assert proxy.requests[0].headers["host"] == "models.example:8000"
            assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2UgY3JldA=="

    run(main)


def test_a_proxy_passes_https_on_unread(certificate: Path) -> None:
    async def main() -> None:
        async with tls_server(certificate, [reply(b"one")]) as server:

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                seen.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
                back, forth = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

                async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                    while data := await source.read(65536):
                        target.write(data)
                    target.close()

                await asyncio.gather(copy(reader, forth), copy(back, writer))
                done.set()

            seen: list[bytes] = []
            done = asyncio.Event()
            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            port = proxy.sockets[0].getsockname()[1]
            env = {"https_proxy": f"127.0.0.1:{port}", "SSL_CERT_FILE": str(certificate)}
            async with client(env) as c:
                assert await ask(c, "https://models.example") == await ask(c, "https://models.example") == b"one"
            await done.wait()
            proxy.close()
            assert seen == [b"CONNECT models.example:443 HTTP/1.1"]

    run(main)


def test_a_proxy_that_refuses_is_named() -> None:
    async def main() -> HttpError:
        async with Loopback([reply(b"no", status=407)]) as proxy, client({"HTTPS_PROXY": proxy.url}) as c:
            with pytest.raises(HttpError) as caught:
                await ask(c, "https://models.example")
            return caught.value

    assert "proxy" in str(run(main))
    assert "407" in str(run(main))


@pytest.mark.parametrize(
    ("url", "rules", "proxied"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", False),
        ("https://badexample.com", "example.com", True),
        ("https://api.example.com", "x, api.example.com:443", False),
        ("https://api.example.com", "api.example.com:8443", True),
        ("https://api.example.com", "*", False),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("http://localhost:8080", "", False),
        ("http://[::1]:8080", "", False),
    ],
)
def test_no_proxy_is_honoured(url: str, rules: str, proxied: bool) -> None:
    env = {"ALL_PROXY": "http://proxy:3128", "NO_PROXY": rules}
    assert bool(proxy_for(parse_url(url), env)) is proxied


def test_a_proxy_of_a_kind_we_cannot_use_is_named_without_its_password() -> None:
    with pytest.raises(HttpError, match="HTTPS_PROXY") as caught:
        proxy_for(parse_url("https://a.example"), {"https_proxy": "socks5://me:secret@proxy"})
    assert "secret" not in str(caught.value)
