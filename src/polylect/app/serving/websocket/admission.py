"""Decides which handshakes may become a connection: by path, Host, Origin and token.

A page in a browser can open a WebSocket to any address of this machine, and the browser sends cookies and no question.
So a request that names an Origin needs one that is allowed, and Host has to be a name of ours: a page whose own name
was made to point here (DNS rebinding) is of our origin, but has its own name in Host. Every request needs the token.
`listener.py` asks for each handshake.
"""

import hmac
import ipaddress
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct
from websockets.http11 import Request

PATH = "/acp"
PROTOCOL = "acp"
"""The subprotocol that is chosen if a client offers it."""
_TOKEN_PROTOCOL = "polylect.token."
"""A browser cannot set headers: it offers this with the token behind it as a second subprotocol."""


class Refusal(Struct, frozen=True):
    """The answer to a handshake that is refused."""

    status: HTTPStatus
    reason: str


class Admission(Struct, frozen=True):
    """What is let in.

    Attributes:
        token: What every request has to present.
        hosts: Names in Host beside `localhost` and addresses in numbers.
        origins: Origins beside our own.
    """

    token: str
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def refusal(self, request: Request) -> Refusal | None:
        """Why this request is refused; None if it is let in."""
        hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
        if len(hosts) != 1 or not self._is_our_name(hosts[0]):
            return Refusal(HTTPStatus.FORBIDDEN, f"Host {hosts} is not served here; see --allow-host")
        if len(origins) > 1 or (origins and not self._is_allowed(origins[0].lower(), hosts[0].lower())):
            return Refusal(HTTPStatus.FORBIDDEN, f"pages of {origins} may not connect; see --allow-origin")
        if not any(hmac.compare_digest(token, self.token.encode()) for token in _tokens(request)):
            return Refusal(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        if urlsplit(request.path).path != PATH:
            return Refusal(HTTPStatus.NOT_FOUND, f"connect to {PATH}")
        return None

    def _is_our_name(self, host: str) -> bool:
        """Whether Host, with any port, names this server. A number cannot be made to point to another address."""
        try:
            parts = urlsplit(f"//{host}")
            name = parts.hostname or ""
            is_plain = parts.netloc == host and "@" not in host and (parts.port or 0) >= 0
        except ValueError:
            return False
        if not is_plain:  # with a user, a path or anything else that belongs to an address
            return False
        return name == "localhost" or name in self.hosts or _is_number(name)

    def _is_allowed(self, origin: str, host: str) -> bool:
        return origin in self.origins or origin in (f"http://{host}", f"https://{host}")


def protocols(request: Request) -> list[str]:
    """The subprotocols that a client offers."""
    return [name.strip() for line in request.headers.get_all("Sec-WebSocket-Protocol") for name in line.split(",")]


def connection_id(request: Request) -> str:
    """The connection that a client wants to resume; empty for a new one. A browser names it in the address."""
    ids = request.headers.get_all("Acp-Connection-Id") or _query(request, "connection")
    return ids[0] if ids else ""


def _tokens(request: Request) -> list[bytes]:
    headers = [line.partition(" ") for line in request.headers.get_all("Authorization")]
    bearer = [token.strip() for scheme, _, token in headers if scheme.lower() == "bearer"]
    offered = [name.removeprefix(_TOKEN_PROTOCOL) for name in protocols(request) if name.startswith(_TOKEN_PROTOCOL)]
    return [token.encode("utf-8", "replace") for token in bearer + offered + _query(request, "token")]


def _query(request: Request, name: str) -> list[str]:
    return parse_qs(urlsplit(request.path).query).get(name, [])


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
