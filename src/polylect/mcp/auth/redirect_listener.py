"""Waits for the browser that comes back from a login: a small HTTP server on the loopback address, for one request.

`oauth.py` starts it for the time of a login, at a port that the system chooses. It listens on 127.0.0.1 only, reads a
bounded number of bytes, and answers with one of two fixed pages. A request without the `state` of the login that runs
is refused and changes nothing: any page in the user's browser can send one.
"""

import asyncio
import secrets
from urllib.parse import parse_qsl, urlsplit

_PATH = "/callback"
_MOST_BYTES = 16 * 1024
_READ_TIMEOUT = 10.0
_MOST_CONNECTIONS = 20
_PAGE = """\
HTTP/1.1 {status}\r
content-type: text/html; charset=utf-8\r
cache-control: no-store\r
referrer-policy: no-referrer\r
content-security-policy: default-src 'none'\r
connection: close\r
\r
<!doctype html><title>polylect</title><p>{text}</p>
"""
_DONE = _PAGE.format(status="200 OK", text="You can close this page and go back to the terminal.")
_REFUSED = _PAGE.format(status="400 Bad Request", text="This page does not belong to the login that is running.")


class RedirectListener:
    """Listens for one redirect. Close it in any case."""

    def __init__(self) -> None:
        self.url = ""
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self, port: int = 0) -> None:
        """Listen; `url` is the address to redirect to. Raises OSError if the port is taken."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MOST_BYTES)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"

    def expect(self, state: str) -> None:
        """From now on, a redirect with this state is accepted."""
        self._state = state

    async def receive(self) -> dict[str, str]:
        """The parameters of the redirect, once it has come."""
        return await asyncio.shield(self._answer)

    def close(self) -> None:
        if self._server:
            self._server.close()
        for writer in self._connections:
            writer.transport.abort()
        self._answer.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            return writer.transport.abort()
        self._connections.add(writer)
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write((_DONE if self._accept(head) else _REFUSED).encode())
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    def _accept(self, head: bytes) -> bool:
        """Whether a request is the redirect; if it is, whoever waits gets its parameters."""
        method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        url = urlsplit(rest.rpartition(" ")[0])
        parameters = dict(parse_qsl(url.query, keep_blank_values=True))
        expected = self._state and secrets.compare_digest(parameters.get("state", "").encode(), self._state.encode())
        if method != "GET" or url.path != _PATH or not expected:
            return False
        if not self._answer.done():
            self._answer.set_result(parameters)
        return True
