"""A small HTTP/1.1 client: requests, streamed answers, connections that are reused.

Each wait has a limit, proxies and TLS come from the environment, and a connection that the server closed while it was
idle is replaced without an error. Cancelling a request closes its connection. Redirects are followed only if the caller
wants it, and only within one origin, so that no header reaches a server that it was not meant for.

`providers/exchange.py` sends requests to model services with it.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, cast

from msgspec import Struct

from polylect import __version__
from polylect.http.connection import Connection
from polylect.http.errors import HttpError
from polylect.http.proxy import proxy_for
from polylect.system.threads import run_in_thread
from polylect.wire.http1 import Response, Url, parse_url, request

if TYPE_CHECKING:
    from ssl import SSLContext

_IDLE_SECONDS = 60.0
"""Older idle connections are likely to have been forgotten by something on the way."""
_IDLE_MOST = 4
_PIECE = 256 * 1024
"""The most that is unpacked at once."""


class Route(Struct, frozen=True):
    """Requests of the same route can share a connection."""

    scheme: str
    host: str
    port: int
    proxy: Url | None


class Answer:
    """A response whose headers have come. Iterating gives its body in pieces. Always close it.

    As a context manager it is closed at the end of the block, and its connection dropped if that raises.
    """

    def __init__(self, client: "Client", route: Route, connection: Connection, idle_timeout: float) -> None:
        self.status = connection.response.status
        self.headers = connection.response.headers
        self._client = client
        self._route = route
        self._connection = connection
        self._idle_timeout = idle_timeout
        self._closed = False
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        self._unpacker = Unpacker(coding) if coding != "identity" else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """At least one byte of the body, unpacked, and never much more than what has arrived or `_PIECE`."""
        unpacker = self._unpacker
        while True:
            if unpacker and unpacker.more:
                await asyncio.sleep(0)  # a small piece may unpack to a thousand times its size
                piece = unpacker.feed(b"")
            else:
                piece = await self._connection.piece(self._idle_timeout)
                if not piece or (unpacker and unpacker.ended):
                    raise StopAsyncIteration
                piece = unpacker.feed(piece) if unpacker else piece
            if piece:
                return piece

    async def read(self, limit: int, seconds: float = 30.0) -> bytes:
        """The beginning of the body: enough for an error's text. Takes what has come when the time is up."""
        body = b""
        try:
            async with asyncio.timeout(seconds):
                async for piece in self:
                    body += piece
                    if len(body) >= limit:
                        break
        except TimeoutError:
            pass
        return body[:limit]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *raised: object) -> None:
        self.close(finished=kind is None)

    def close(self, *, finished: bool = False) -> None:
        """Drop the connection, or keep it for the next request if nothing more is wanted of the body."""
        if self._closed:
            return
        self._closed = True
        self._client.take_back(self._route, self._connection, finished=finished)


class Client:
    """Sends requests, each over a connection of its own or one that is idle.

    Args:
        env: Where proxies and certificates are named.
        idle_timeout: Seconds without a byte of an answer after which it has failed; 0 is no limit.
        connect_timeout: Seconds for a connection, TLS included.
        ca_file: Certificates to trust beside those of the system.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float = 15.0,
        ca_file: str = "",
    ) -> None:
        self._idle_timeout = idle_timeout
        self._connect_timeout = connect_timeout
        self._env = env
        self._ca_file = ca_file
        self._tls: asyncio.Future[SSLContext] | None = None
        self._idle: dict[Route, list[Connection]] = {}

    def warm(self, url: str) -> None:
        """Prepare, mostly in a thread, what the first request to this address will need. Asks no network."""
        Response()  # its parser is loaded by its first use
        if url.lower().startswith("https:"):
            self._trust()

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        idle_timeout: float | None = None,
        redirects: int = 0,
        repeatable: bool = True,
    ) -> Answer:
        """Send a request and wait for the head of its answer. Any status is an answer; close it.

        Args:
            method: GET, POST, DELETE ...
            url: Where to; http or https.
            headers: Sent beside those that HTTP itself needs.
            body: Sent with its length.
            idle_timeout: Replaces that of the client.
            redirects: So many redirects are followed, within the origin of `url` and without changing the method.
            repeatable: Whether it may be sent once more if an idle connection ends without a byte of an answer. The
                server may then have handled it already.

        Raises HttpError if no answer comes.
        """
        timeout = self._idle_timeout if idle_timeout is None else idle_timeout
        while True:
            answer = await self._request(method, url, headers, body, timeout, repeatable=repeatable)
            target = _redirect_target(method, url, answer) if redirects else ""
            if not target:
                return answer
            answer.close(finished=True)
            url, redirects = target, redirects - 1

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout: float, *, repeatable: bool
    ) -> Answer:
        try:
            place = parse_url(url)
            proxy = proxy_for(place, self._env)
            data = request(method, _target(place, proxy), _headers(place, proxy, headers), body)
        except ValueError as error:
            raise HttpError("address", str(error)) from None
        route = Route(place.scheme, place.host, place.port, proxy)
        if connection := self._take_idle(route):
            try:
                return await self._ask(route, connection, data, timeout)
            except HttpError as error:
                if error.kind != "lost" or connection.has_data or not repeatable:
                    raise  # else the server had closed it before it saw the request: ask on a new one
        return await self._ask(route, await self._connect(route), data, timeout)

    def take_back(self, route: Route, connection: Connection, *, finished: bool) -> None:
        """The end of a finished body may still be on its way: it will be looked at before the next use."""
        idle = self._idle.setdefault(route, [])
        if finished and len(idle) < _IDLE_MOST:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        else:
            connection.drop()

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.drop()
        self._idle.clear()

    def _take_idle(self, route: Route) -> Connection | None:
        idle = self._idle.get(route, [])
        while idle:
            connection = idle.pop()
            if connection.reusable and time.monotonic() - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.drop()
        return None

    async def _ask(self, route: Route, connection: Connection, data: bytes, timeout: float) -> Answer:
        try:
            await connection.send(data, timeout)
            return Answer(self, route, connection, timeout)
        except BaseException:
            connection.drop()
            raise

    async def _connect(self, route: Route) -> Connection:
        place = f"{route.host}:{route.port}" if route.proxy is None else f"the proxy {route.proxy.authority}"
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await self._open(route, place)
        except TimeoutError:
            text = f"cannot connect to {place} within {self._connect_timeout:g} s"
            raise HttpError("connect_timeout", text) from None
        except OSError as error:
            raise _cannot_connect(place, error) from None

    async def _open(self, route: Route, place: str) -> Connection:
        loop = asyncio.get_running_loop()
        tls = await asyncio.shield(self._trust()) if route.scheme == "https" else None
        connection = Connection(place)
        if route.proxy is None:
            name = route.host if tls else None
            await loop.create_connection(lambda: connection, route.host, route.port, ssl=tls, server_hostname=name)
            return connection
        await loop.create_connection(lambda: connection, route.proxy.host, route.proxy.port)
        if tls:
            await self._tunnel(connection, route, route.proxy, tls)
        return connection

    async def _tunnel(self, connection: Connection, route: Route, proxy: Url, tls: "SSLContext") -> None:
        """Have the proxy pass bytes on unread, then speak TLS with the server behind it."""
        target = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
        try:
            await connection.send(request("CONNECT", target, {"host": target, **_proxy_login(proxy)}), 300.0)
            if connection.response.status != 200:
                status = connection.response.status
                raise HttpError("proxy_refused", f"the proxy {proxy.authority} refused to connect ({status})")
            loop = asyncio.get_running_loop()
            transport = await loop.start_tls(connection.transport, connection, tls, server_hostname=route.host)
            connection.connection_made(cast(asyncio.Transport, transport))
        except BaseException:
            connection.drop()
            raise

    def _trust(self) -> "asyncio.Future[SSLContext]":
        """Made once, and not on the loop: ssl takes 15 ms to load, and reading all certificates may take 20 more."""
        if self._tls is None or (self._tls.done() and self._tls.exception()):
            self._tls = asyncio.ensure_future(run_in_thread(_context, self._env, self._ca_file))
        return self._tls


def _context(env: Mapping[str, str], ca_file: str) -> "SSLContext":
    from polylect.http import tls

    return tls.client_context(env, ca_file)


def _target(place: Url, proxy: Url | None) -> str:
    return f"http://{place.authority}{place.path}" if proxy and place.scheme == "http" else place.path


def _headers(place: Url, proxy: Url | None, headers: Mapping[str, str]) -> dict[str, str]:
    login = _proxy_login(proxy) if proxy and place.scheme == "http" else {}
    agent = f"polylect/{__version__}"  # some gateways refuse requests without one
    return {"host": place.authority, "user-agent": agent, "accept-encoding": "identity", **login, **headers}


def _proxy_login(proxy: Url) -> dict[str, str]:
    return {"proxy-authorization": basic_login(proxy.user)} if proxy.user else {}


def basic_login(user: str) -> str:
    """The value of an authorization header for `name:password`, as an address has it."""
    from binascii import b2a_base64
    from urllib.parse import unquote  # 4 ms, and few addresses have a password

    return "Basic " + b2a_base64(unquote(user).encode(), newline=False).decode()


def _cannot_connect(place: str, error: OSError) -> HttpError:
    refused = isinstance(error, ConnectionError) and error.errno  # asyncio's own words repeat the address
    reason = os.strerror(error.errno or 0) if refused else error.strerror or str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in reason or "CERTIFICATE_VERIFY_FAILED" in str(error):
        text = f"the certificate of {place} is not trusted: set SSL_CERT_FILE to the file of your certificate authority"
        return HttpError("certificate", text)
    return HttpError("connect", f"cannot connect to {place} ({reason})")


def _redirect_target(method: str, url: str, answer: Answer) -> str:
    """The address that an answer sends us to. Nothing if it is at another origin, or would change the method."""
    statuses = (301, 302, 303, 307, 308) if method == "GET" else (307, 308)
    if answer.status not in statuses or not answer.headers.get("location"):
        return ""
    from urllib.parse import urljoin  # 4 ms, and few servers redirect

    target = urljoin(url, answer.headers["location"])
    try:
        new, old = parse_url(target), parse_url(url)
    except ValueError:
        return ""
    return target if (new.scheme, new.host, new.port) == (old.scheme, old.host, old.port) else ""


class Unpacker:
    """For servers that compress though they were asked not to. No step gives more than `_PIECE` bytes."""

    def __init__(self, coding: str) -> None:
        if coding not in ("gzip", "x-gzip", "deflate"):
            text = f"the server answers in the encoding {coding[:40]!r}, which was not asked for"
            raise HttpError("encoding", text)
        import zlib

        self._broken = zlib.error
        self._coding = coding
        self._zlib = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self.more = False
        """Whether what was fed has more to give."""

    @property
    def ended(self) -> bool:
        return self._zlib.eof

    def feed(self, piece: bytes) -> bytes:
        try:
            unpacked = self._zlib.decompress(self._zlib.unconsumed_tail + piece, _PIECE)
        except self._broken:
            raise HttpError("encoding", f"the server answers in broken {self._coding}") from None
        self.more = bool(self._zlib.unconsumed_tail) or len(unpacked) == _PIECE
        return unpacked
