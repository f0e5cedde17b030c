"""WebFetch: pages of the web, and only of the web."""

import asyncio
import gzip
import socket
import ssl
import subprocess
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext
from polylect.tools import http_fetch
from polylect.tools.builtin.web_fetch import MOST, WebFetch
from polylect.vocab.ports import ToolReturn

Pages = dict[str, bytes]
NO_TEXT = ("punycode", "idna", "zlib", "undefined", "unicode_escape", "rot13", "hex", "base64", "uu", "mbcs")
"""Codecs of Python's that no page is written in."""


def page(body: bytes, head: str = "content-type: text/plain", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{head}\r\n\r\n".encode() + body


class Site:
    """A server on loopback that says exactly these bytes, and remembers what it was asked."""

    def __init__(self, pages: Pages, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[str] = []
        self.port = 0
        self._pages = pages
        self._tls = tls

    async def __aenter__(self) -> "Site":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        answer = self._pages[head.split()[1]].replace(b"PORT", b"%d" % self.port)
        try:
            writer.write(answer)
            await writer.drain()
        except OSError:
            pass  # it was enough for the other side
        writer.close()


def visit(
    pages: Pages,
    talk: Callable[[Site, Callable[[str], Awaitable[ToolReturn]]], Awaitable[None]],
    context: FolderContext,
) -> None:
    async def main() -> None:
        tool = WebFetch(private=True)
        async with Site(pages) as site:
            await talk(site, lambda path: tool.run({"url": f"http://127.0.0.1:{site.port}{path}"}, context))

    asyncio.run(asyncio.wait_for(main(), 30))


def get(context: FolderContext, pages: Pages, path: str = "/") -> ToolReturn:
    results: list[ToolReturn] = []

    async def talk(site: Site, use: Callable[[str], Awaitable[ToolReturn]]) -> None:
        results.append(await use(path))

    visit(pages, talk, context)
    return results[0]


def refused(url: str, **options: Any) -> str:
    result = asyncio.run(asyncio.wait_for(WebFetch(**options).run({"url": url}, FolderContext(Path("."))), 30))
    assert not result.ok
    return result.output


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


# What a page says.


def test_a_page_comes_as_text_with_its_address(context: FolderContext) -> None:
    html = b"<title>T</title><h1>Hi</h1><p>a <a href=/b?c=1>link</a>"
    result = get(context, {"/a%20b?q=%C3%A9": page(html, "content-type: text/html; charset=utf-8")}, "/a%20b?q=é#part")
    head, _, text = result.output.partition("\n\n")
    assert result.ok
    assert head.endswith("/a%20b?q=é#part (status 200, text/html, 55 bytes)")
    port = head.split(":")[2].split("/")[0]
    assert text == f"T\n\n# Hi\n\na [link](http://127.0.0.1:{port}/b?c=1)"


@pytest.mark.parametrize(
    ("body", "head", "words"),
    [
        (b"a\xe9", "content-type: text/plain; charset=latin-1", "aé"),
        ("<meta charset='windows-1251'>Привет".encode("cp1251"), "content-type: text/html", "Привет"),
        (b"a\xff", "content-type: text/plain; charset=klingon", "a\ufffd"),
        *((b"a\xff", f"content-type: text/plain; charset={name}", "a\ufffd") for name in NO_TEXT),
        ("\u65e5\u672c".encode("shift_jis"), "content-type: text/plain; charset=Shift_JIS", "\u65e5\u672c"),
        ("\u4e2d".encode("gbk"), "content-type: text/plain; charset=GB2312-80", "\u4e2d"),
        (b'{"a": 1}', "content-type: application/vnd.x+json", '{"a": 1}'),
        (gzip.compress(b"packed", mtime=0), "content-encoding: gzip\r\ncontent-type: text/plain", "packed"),
        (b"no type", "x: y", "no type"),
    ],
)
def test_it_is_decoded_as_it_says(context: FolderContext, body: bytes, head: str, words: str) -> None:
    assert get(context, {"/": page(body, head)}).output.partition("\n\n")[2] == words


def test_a_chunked_page_and_one_that_ends_with_the_connection(context: FolderContext) -> None:
    pieces = b"3\r\nabc\r\n2\r\nde\r\n0\r\ncontent-type: image/png\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + pieces
    assert get(context, {"/": chunked}).output.endswith("(status 200, text/plain, 5 bytes)\n\nabcde")
    assert get(context, {"/": b"HTTP/1.1 200 OK\r\n\r\nall"}).output.endswith("\n\nall")


def test_what_is_not_text_is_named(context: FolderContext) -> None:
    result = get(context, {"/": page(b"\x89PNG", "content-type: image/png")})
    assert result.ok
    assert "(status 200, image/png, 4 bytes)\nThis is not text" in result.output


def test_an_error_page_is_an_error_with_its_text(context: FolderContext) -> None:
    result = get(context, {"/": page(b"gone for good", status="410 Gone")})
    assert (result.ok, result.output.endswith("(status 410, text/plain, 13 bytes)\n\ngone for good")) == (False, True)


def test_a_long_page_is_cut_and_whole_in_a_file(context: FolderContext) -> None:
    result = get(context, {"/": page(b"word " * 20_000 + b"END")})
    assert len(result.output) < MOST + 400
    assert f"all of it is in {context.spilled[0]}" in result.output
    assert context.spilled[0].read_text().endswith("word END")


# Redirects.


def to(place: str) -> bytes:
    return page(b"", f"location: {place}", "302 Found")


def test_redirects_are_followed_and_the_last_address_is_told(context: FolderContext) -> None:
    result = get(context, {"/": to("/a/b"), "/a/b": to("c?d"), "/a/c?d": page(b"here")})
    assert result.output.partition(" ")[0].endswith("/a/c?d")
    assert result.output.endswith("here")


def test_a_redirect_to_another_host_is_named_and_not_followed(context: FolderContext) -> None:
    """Rules and people judge a call by its host, so each host takes a call of its own."""
    requests: list[str] = []

    async def talk(site: Site, use: Callable[[str], Awaitable[ToolReturn]]) -> None:
        result = await use("/")
        requests.extend(site.requests)
        assert not result.ok
        _, where, advice = result.output.split("\n")
        assert where == f"The page is on another host: http://localhost:{site.port}/secret"
        assert advice == "It was not fetched. If you need it, fetch that address with a new call."

    visit({"/": to("http://localhost:PORT/secret"), "/secret": page(b"secret")}, talk, context)
    assert len(requests) == 1


def test_redirects_are_counted(context: FolderContext) -> None:
    result = get(context, {"/": to("/")})
    assert not result.ok
    assert "redirects, and another one followed" in result.output
    assert get(context, {"/": page(b"no location", status="302 Found")}).output.endswith("no location")


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "ftp://x.org/", "http://u:p@x.org/", "//[::1", "http://\u00a0/"]
)
def test_a_redirect_is_checked_like_an_address(context: FolderContext, place: str) -> None:
    result = get(context, {"/": page(b"", f"location: {place}", "301 Moved")})
    assert not result.ok


def test_a_redirect_from_outside_to_inside_is_refused(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address is taken for one on the internet; the second is what it is."""
    looked_at: list[str] = []

    def is_public(address: str) -> bool:
        looked_at.append(address)
        return len(looked_at) == 1 or real(address)

    real = http_fetch.is_public
    monkeypatch.setattr(http_fetch, "is_public", is_public)

    async def main() -> ToolReturn:
        async with Site({"/": to("http://127.0.0.1:PORT/secret"), "/secret": page(b"secret")}) as site:
            result = await WebFetch().run({"url": f"http://127.0.0.1:{site.port}/"}, context)
            assert len(site.requests) == 1
            return result

    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert not result.ok
    assert "127.0.0.1 is 127.0.0.1, which is on this machine" in result.output


# Places.


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "0.0.0.0", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "[::]", "10.1.2.3",
        "169.254.169.254", "192.168.0.1", "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]", "[fec0::1]", "224.0.0.1", "255.255.255.255", "[ff02::1]", "127.0.0.1.",
        "168.63.129.16", "192.0.0.192",
    ],
)  # fmt: skip
def test_places_that_only_this_machine_can_reach_are_refused(host: str) -> None:
    output = refused(f"http://{host}:9/")
    assert "on this machine or its own network" in output or "There is no host" in output, output


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"]
)
def test_the_internet_is_not_refused(address: str) -> None:
    assert http_fetch.is_public(address)


def test_a_name_is_resolved_once_and_what_was_checked_is_asked(
    context: FolderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name means another place the second time."""
    requests: list[str] = []

    async def main() -> ToolReturn:
        async with Site({"/": page(b"checked")}) as site:

            def resolve(host: str, port: int, *_: object, **__: object) -> list[Any]:
                requests.append(host)
                assert len(requests) == 1, "the second answer would be another place"
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", site.port))]

            monkeypatch.setattr(socket, "getaddrinfo", resolve)
            return await WebFetch(private=True).run({"url": f"http://rebinding.test:{site.port}/"}, context)

    assert asyncio.run(asyncio.wait_for(main(), 30)).output.endswith("checked")
    assert requests == ["rebinding.test"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x.org",
        "file:///etc/passwd",
        "http://",
        "http://u@x.org/",
        "http://x.org:99999/",
        "http://x y/",
        "http://[::1/",
    ],
)
def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    assert refused(url, private=True)


def test_an_address_with_a_password_is_not_asked(context: FolderContext) -> None:
    async def main() -> ToolReturn:
        async with Site({"/": page(b"x")}) as site:
            result = await WebFetch(private=True).run({"url": f"http://u:p@127.0.0.1:{site.port}/"}, context)
            assert not site.requests
            return result

    assert "user name or password" in asyncio.run(asyncio.wait_for(main(), 30)).output


def test_a_certificate_nobody_vouches_for_is_refused(context: FolderContext, tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
         "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], capture_output=True, check=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert", tmp_path / "key")

    async def main() -> ToolReturn:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        async with Site({"/": page(b"x")}, tls) as site:
            return await WebFetch(private=True).run({"url": f"https://localhost:{site.port}/"}, context)

    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert not result.ok
    assert "certificate" in result.output.lower()


# Hostile servers.


def test_a_page_without_end_is_cut(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_fetch, "MOST_BODY", 100_000)

    async def main() -> ToolReturn:
        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            try:
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            except OSError:
                writer.close()

        server = await asyncio.start_server(endless, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        result = await WebFetch(private=True).run({"url": f"http://127.0.0.1:{port}/"}, context)
        server.close()
        return result

    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert result.ok
    assert "The page is longer than 100000 bytes" in result.output
    assert context.spilled[0].stat().st_size == 100_000


def test_a_small_page_that_unpacks_to_a_large_one_is_cut(
    context: FolderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_fetch, "MOST_BODY", 100_000)
    bomb = page(gzip.compress(b"\0" * 50_000_000), "content-encoding: gzip")
    tracemalloc.start()
    result = get(context, {"/": bomb})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "The page is longer than" in result.output
    assert context.spilled[0].stat().st_size == 100_000
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"", "closed the connection before the page was complete"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf", "closed the connection before the page was complete"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, "too many headers"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + b"x: y\r\n" * 100_000,
            "too many headers",
        ),
        (page(b"junk", "content-encoding: gzip"), "cannot be unpacked"),
    ],
)
def test_a_server_that_misbehaves_is_a_clear_fault(context: FolderContext, answer: bytes, words: str) -> None:
    result = get(context, {"/": answer})
    assert not result.ok
    assert words in result.output, result.output


def test_a_server_that_says_nothing_is_left(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_fetch, "TIMEOUT", 0.2)

    async def main() -> ToolReturn:
        gone = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()  # to the end of what the other side says, which is when it leaves
            writer.close()
            gone.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        result = await WebFetch(private=True).run({"url": f"http://127.0.0.1:{port}/"}, context)
        await gone.wait()
        server.close()
        return result

    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert not result.ok
    assert "took longer than 0 s" in result.output


def test_a_cancelled_fetch_lets_go_of_the_server(context: FolderContext) -> None:
    async def main() -> None:
        here, gone = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            here.set()
            await reader.read()
            writer.close()
            gone.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        call = asyncio.ensure_future(WebFetch(private=True).run({"url": f"http://127.0.0.1:{port}/"}, context))
        await here.wait()
        call.cancel()
        await gone.wait()
        server.close()

    asyncio.run(asyncio.wait_for(main(), 10))
