"""A response is read in any pieces, and what a hostile one makes us keep is bounded."""

import pytest

from polylect.wire.http1 import MAX_HEAD, MAX_HEADER, MAX_HEADERS, Response, parse_url

HEAD = b"HTTP/1.1 200 -\r\ntransfer-encoding: chunked\r\n"


def feed(response: Response, begin: bytes, again: bytes) -> int:
    """Feeds this again and again until it is refused. How many bytes that took."""
    response.feed(begin)
    block = again * (4096 // len(again))
    for fed in range(0, 64 * MAX_HEAD, len(block)):
        try:
            response.feed(block)
        except ValueError:
            return fed
    raise AssertionError("it was never refused")


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"HTTP/1.1 200 ", b"x"),
        (b"HTTP/1.1 200 -\r\nx: ", b"x"),
        (b"HTTP/1.1 200 -\r\n", b"x"),
        (b"HTTP/1.1 200 -\r\n", b"x: y\r\n"),
        (b"", b"HTTP/1.1 100 -\r\n\r\n"),
        (HEAD + b"\r\n5;x=", b"y"),
        (HEAD + b"\r\n1\r\na\r\n0\r\nx: ", b"y"),
        (HEAD + b"\r\n1\r\na\r\n0\r\n", b"x: y\r\n"),
    ],
    ids=["status", "header", "name", "headers", "announcements", "extension", "trailer", "trailers"],
)
def test_what_is_not_body_has_an_end(begin: bytes, again: bytes) -> None:
    assert feed(Response(), begin, again) <= MAX_HEAD


def test_a_header_and_their_number_are_bounded_each() -> None:
    fine = b"HTTP/1.1 200 -\r\n" + b"x: y\r\n" * (MAX_HEADERS - 1) + b"z: %b\r\n\r\n" % (b"y" * (MAX_HEADER - 1))
    response = Response()
    response.feed(fine)
    assert response.status == 200
    for bad in (fine.replace(b"z:", b"x: y\r\nz:"), fine.replace(b"z: ", b"z: y")):
        with pytest.raises(ValueError, match="header"):
            Response().feed(bad)


def test_a_long_body_is_no_head_and_its_trailers_are_no_headers() -> None:
    response = Response()
    response.feed(HEAD + b"\r\n")
    block = b"%x\r\n%b\r\n" % (65536, b"x" * 65536)
    assert sum(len(response.feed(block)) for _ in range(32)) == 32 * 65536
    response.feed(b"0\r\nlate: 1\r\n\r\n")
    assert (response.done, response.headers) == (True, {"transfer-encoding": "chunked"})


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("http://a.example", "a.example", "/"),
        ("http://a.example/b?c=/d#e", "a.example", "/b?c=/d"),
        ("http://a.example?key=a/b@c", "a.example", "/?key=a/b@c"),
        ("http://me:x@a.example#here", "a.example", "/"),
    ],
)
def test_the_host_of_an_address_ends_where_path_query_or_fragment_begin(text: str, host: str, path: str) -> None:
    url = parse_url(text)
    assert (url.host, url.path) == (host, path)
