"""Fetches one web page for WebFetch, with limits on size, time and redirects, and not from private networks.

The host name is resolved once, the address is checked, and the connection goes to that very address. So a name that
resolves to another address a moment later (DNS rebinding) cannot reach this machine's network. Redirects are followed
only on the same host, because rules and people allow a host; another host needs a call of its own.
"""

import asyncio
from threading import Semaphore
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from polylect import __version__
from polylect.system.threads import NoThread, run_in_thread
from polylect.vocab.errors import ToolError
from polylect.wire.http1 import Response, Url, request

if TYPE_CHECKING:
    import ssl

MOST_BODY = 5 * 1024 * 1024
MOST_HEAD = 64 * 1024
"""Bytes that may arrive in addition to the body: headers and chunk sizes."""
MOST_REDIRECTS = 5
MOST_URL = 8192
MOST_LOOKUPS = 32
"""Name lookups at the same time, including those of calls that were cancelled. Each uses a thread."""
TIMEOUT = 30.0
_lookups = Semaphore(MOST_LOOKUPS)
_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_CLOUD_SERVICES = ("168.63.129.16", "192.0.0.192")
"""Addresses at which machines of Azure and Oracle find their cloud's own services, though they look public."""
_SAFE = "/%:@!$&'()*+,;=~-._?"


class Page(Struct, frozen=True):
    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool
    """Whether the body was longer than MOST_BODY."""
    redirect: str = ""
    """The address on another host that it leads to."""


def parse(url: str) -> Url:
    from urllib.parse import quote, urlsplit  # 4 ms, only for who fetches

    if len(url) > MOST_URL:
        raise ToolError(f"The address has {len(url)} characters; at most {MOST_URL} are taken.")

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise ToolError(f"{url!r} is not an address of a page.") from None
    if parts.scheme not in _PORTS or not host or any(character <= " " for character in url):
        raise ToolError(f"{url!r} is not an http:// or https:// address.")
    if parts.username is not None:
        raise ToolError("An address with a user name or password in it is not fetched.")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return Url(parts.scheme, host, port or _PORTS[parts.scheme], target)


async def fetch(url: str, *, private: bool = False) -> Page:
    """Follows redirects on the same host, each of them checked like the first address. Raises ToolError."""
    try:
        async with asyncio.timeout(TIMEOUT):
            for _ in range(MOST_REDIRECTS + 1):
                page = await _get(url, private)
                location = page.headers.get("location")
                if page.status not in _REDIRECTS or not location:
                    return page
                before, url = url, _join_url(url, location)
                if parse(url).host != parse(before).host:
                    return replace(page, redirect=url)
    except TimeoutError:
        raise ToolError(f"{url} took longer than {TIMEOUT:.0f} s.") from None
    raise ToolError(f"{url} was the end of {MOST_REDIRECTS} redirects, and another one followed.")


def _join_url(url: str, location: str) -> str:
    from urllib.parse import urljoin

    try:
        return urljoin(url, location)
    except ValueError:
        raise ToolError(f"{url} leads to {location!r}, which is no address.") from None


async def _get(url: str, private: bool) -> Page:
    place = parse(url)
    addresses = await _addresses(place, private)
    tls = await run_in_thread(_tls) if place.scheme == "https" else None
    try:
        reader, writer = await _connect(addresses, place, tls)
        try:
            writer.write(_request_bytes(place))
            response, body = await _read_response(reader, place)
        finally:
            writer.transport.abort()
    except OSError as fault:
        raise ToolError(f"{place.authority} could not be asked: {fault.strerror or fault}") from None
    except ValueError as fault:
        raise ToolError(f"{place.authority} does not speak HTTP: {fault}") from None
    whole = _decompress(body, response.headers.get("content-encoding", ""))
    return Page(url, response.status, response.headers, whole[:MOST_BODY], not response.done or len(whole) > MOST_BODY)


async def _addresses(place: Url, private: bool) -> list[str]:
    from socket import gaierror

    if not _lookups.acquire(blocking=False):
        raise ToolError(f"{MOST_LOOKUPS} names are being looked up, and the name server answers none. Try again later.")
    try:
        addresses = await run_in_thread(_resolve, place)
    except NoThread as fault:
        _lookups.release()
        raise ToolError(f"{place.host} could not be looked up: {fault.strerror}") from None
    except (gaierror, UnicodeError):
        raise ToolError(f"There is no host {place.host!r}.") from None
    allowed = [address for address in addresses if private or is_public(address)]
    if not allowed:
        raise ToolError(
            f"{place.host} is {addresses[0]}, which is on this machine or its own network. Such addresses are not "
            "fetched unless the settings allow it."
        )
    return allowed


def _resolve(place: Url) -> list[str]:
    from socket import SOCK_STREAM, getaddrinfo

    try:
        return [str(entry[4][0]) for entry in getaddrinfo(place.host, place.port, type=SOCK_STREAM)]
    finally:
        _lookups.release()


def is_public(address: str) -> bool:
    """Whether this is an address of the open internet. IPv4 addresses inside IPv6 ones (NAT64, 6to4, mapped) count
    too."""
    from ipaddress import IPv4Address, IPv6Network, ip_address  # 5 ms, only for who fetches

    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not parsed.is_multicast and address not in _CLOUD_SERVICES
    if parsed in IPv6Network("64:ff9b::/96"):
        return is_public(str(IPv4Address(int(parsed) & 0xFFFFFFFF)))
    inner = parsed.ipv4_mapped or parsed.sixtofour
    if inner:
        return is_public(str(inner))
    return parsed in IPv6Network("2000::/3") and parsed.is_global


async def _connect(
    addresses: list[str], place: Url, tls: "ssl.SSLContext | None"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first address that answers; the name is only for the certificate."""
    *others, last = addresses[:4]
    name = place.host if tls else None
    for address in others:
        try:
            return await asyncio.open_connection(address, place.port, ssl=tls, server_hostname=name)
        except OSError:
            continue
    return await asyncio.open_connection(last, place.port, ssl=tls, server_hostname=name)


def _tls() -> "ssl.SSLContext":
    import ssl  # 17 ms, and as much for the certificates

    return ssl.create_default_context()


def _request_bytes(place: Url) -> bytes:
    headers = {
        "host": place.authority,
        "user-agent": f"polylect/{__version__}",
        "accept": "text/html, text/*, application/json, */*;q=0.1",
        "accept-encoding": "gzip",
        "connection": "close",
    }
    return request("GET", place.path, headers)


async def _read_response(reader: asyncio.StreamReader, place: Url) -> tuple[Response, bytes]:
    response, body = Response(), bytearray()
    received = 0
    while not response.done and len(body) <= MOST_BODY:
        data = await reader.read(65536)
        received += len(data)
        body += response.feed(data) if data else b""
        if not data and not response.end():
            raise ToolError(f"{place.authority} closed the connection before the page was complete.")
        if received > MOST_HEAD + 8 * len(body):
            raise ToolError(f"{place.authority} sends everything but a page.")
    return response, bytes(body)


def _decompress(body: bytes, encoding: str) -> bytes:
    """The decompressed body, at most one byte more than MOST_BODY."""
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    import zlib

    try:
        return zlib.decompressobj(wbits=47).decompress(body, MOST_BODY + 1)
    except zlib.error as fault:
        raise ToolError(f"The page cannot be unpacked: {fault}") from None
