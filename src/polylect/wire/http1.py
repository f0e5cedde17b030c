"""HTTP/1.1 for a client: a request to bytes, and bytes to one response.

A server may be hostile, so what a response makes us store besides its body is bounded, whether it comes in one header,
in many, in 1xx responses, in chunk extensions or in trailers. The model client and WebFetch read through this.
"""

from collections.abc import Mapping
from functools import lru_cache

import httptools
from msgspec import Struct


class Url(Struct, frozen=True):
    scheme: str
    host: str
    port: int
    path: str
    user: str = ""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"


_PORTS = {"http": 80, "https": 443}
MAX_HEAD = 256 * 1024
"""Most bytes in a row that are not body: status lines, headers, chunk extensions, trailers."""
MAX_HEADER = 64 * 1024
MAX_HEADERS = 1000


@lru_cache(maxsize=16)
def parse_url(text: str) -> Url:
    """The parts of an address. Raises ValueError for anything but http and https."""
    scheme, mark, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in _PORTS:
        raise ValueError(f"{text!r} is not an http:// or https:// address")
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:].partition("#")[0]
    user, _, place = authority.rpartition("@")
    host, port = _host_and_port(place)
    if not host or any(character <= " " for character in rest) or not (port.isdigit() or not port):
        raise ValueError(f"{text!r} is not an http:// or https:// address")
    return Url(scheme, host, int(port) if port else _PORTS[scheme], path if path[:1] == "/" else f"/{path}", user)


def _host_and_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = place.partition(":")
    return (host if host.isascii() else host.encode("idna").decode()), port


def quoted(text: str) -> str:
    """Percent-encoded, slashes included."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-._~") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def request(method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a request. Raises ValueError for a header with characters that are not printable ASCII."""
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the header {name} would hold characters that are not printable ASCII")
        lines.append(f"{name}: {value}")
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join((*lines, "\r\n")).encode() + body


class Response:
    """Reads one response.

    status     0 until the headers are complete
    headers    by name in lower case
    done       true once the whole body was fed
    reusable   whether the connection can carry another request
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.done = False
        self.reusable = False
        self._body: list[bytes] = []
        self._bodiless = 0
        """Bytes since the last byte of the body."""
        self._count = 0
        """Headers and trailers so far."""
        self._fault = ""
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """The part of the body in this data. Raises ValueError if it is not HTTP or has too many headers."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            if not self.done:  # what comes after the end only spoils the connection
                raise ValueError(self._fault or str(error)) from None
        body = b"".join(self._body)
        self._body.clear()
        self._bodiless = 0 if body else self._bodiless + len(data)
        if self._bodiless > MAX_HEAD and not self.done:
            raise ValueError(f"more than {MAX_HEAD} bytes of headers")
        return body

    def end(self) -> bool:
        """The peer has closed the connection. True if the response is complete."""
        if self.status and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.done = True
        return self.done

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        if self.done:
            raise ValueError("a second response")
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MAX_HEADERS or len(name) + len(value) > MAX_HEADER:
            self._fault = "too many headers" if self._count > MAX_HEADERS else "a header is too long"
            raise ValueError(self._fault)
        if self.status:
            return  # a trailer: nobody here reads any
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # 1xx only announces the real one
            self.status = status
            self.reusable = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        self.done = self.status >= 200
