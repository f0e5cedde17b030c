"""Requests to one MCP server over HTTP: headers of its settings, its login, redirects, and errors worded for people.

Both HTTP transports use it. The address and the headers of a server may hold keys. They are sent to the origin of its
address only, and appear in no text.
"""

import os
import re
from collections.abc import Mapping

from polylect.http.client import Answer, Client, basic_login
from polylect.http.errors import HttpError, HttpFault
from polylect.mcp.auth.access_token import AccessToken
from polylect.mcp.server_log import ServerLog
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.vocab.content import Server
from polylect.wire.http1 import parse_url

_IDLE_TIMEOUT = 24 * 3600.0
"""Seconds. A stream may be silent for long; every call has a time limit of its own."""
_REDIRECTS = 5
_FRAMING = frozenset(["connection", "content-length", "host", "transfer-encoding"])
"""Headers that HTTP itself needs: settings do not replace them."""
UNREACHABLE = frozenset(["connect", "connect_timeout"])
"""Kinds of `HttpError` after which the server counts as gone."""
_FAULTS: dict[HttpFault, str] = {
    "lost": "the server cannot be reached: it closed the connection before its answer was complete",
    "not_http": "the server does not speak HTTP as it should",
    "silent": "the server said nothing for too long",
}


class Endpoint:
    """The address of a server and how it is asked."""

    def __init__(self, server: Server, setup: ServerSetup, log: ServerLog) -> None:
        self.url = server.url
        self._server = server
        self._log = log
        # A proxy with a password is not in the environment of commands, but it is in our own.
        self._client = Client({**os.environ, **setup.env}, idle_timeout=_IDLE_TIMEOUT)
        self._token = AccessToken(server, setup, self._client)
        self._headers = {name.lower(): value for name, value in server.headers.items()}
        for name in _FRAMING & self._headers.keys():
            del self._headers[name]

    def check(self) -> None:
        """Raises ServerFault if the address is none. The text does not repeat it."""
        if not self.url:
            raise ServerFault(f"the transport {self._server.transport} needs a url")
        try:
            url = parse_url(self.url)
        except ValueError:
            raise ServerFault("its url is not an http:// or https:// address") from None
        if url.user and "authorization" not in self._headers:
            self._headers["authorization"] = basic_login(url.user)

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes = b"", *, url: str = "", repeatable: bool = True
    ) -> Answer:
        """Send a request and wait for the head of its answer. Raises HttpError, and ServerFault for an expired login.

        A token that the server refuses is renewed, and the request is sent once more.
        """

        async def send(token: str) -> Answer:
            self._log.hide(token)
            login = {"authorization": f"Bearer {token}"} if token else {}
            all_headers = {**self._headers, **login, **headers}
            return await self._client.request(
                method, url or self.url, all_headers, body, redirects=_REDIRECTS, repeatable=repeatable
            )

        token = "" if "authorization" in self._headers else await self._token.current()
        answer = await send(token)
        if answer.status == 401 and token:
            try:
                renewed = await self._token.renew(token)
            except BaseException:
                answer.close()
                raise
            if renewed:
                answer.close(finished=True)
                return await send(await self._token.current())
        return answer

    def refusal(self, answer: Answer) -> str:
        """Why an answer whose status is not one of success is of no use."""
        from http import HTTPStatus  # 3 ms, and few requests are refused

        status = answer.status
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        self._log.http_error(status, phrase)
        text = f"HTTP {status} {phrase}".strip()
        if 300 <= status < 400:
            place = _origin(answer.headers.get("location", ""))
            return f"{text}: the server redirects to another one: change its url{place}"
        if self.wants_login(answer):
            scope = self._wanted_scope(answer) if status == 403 else ""
            return f"{text}: run `polylect mcp login {self._server.name}{scope}`"
        return text

    def wants_login(self, answer: Answer) -> bool:
        """Whether a login would help: there is none, it is not accepted, or it does not permit this."""
        if "authorization" in self._headers:
            return False
        challenge = answer.headers.get("www-authenticate", "").lower()
        if answer.status == 401:
            return not challenge or "bearer" in challenge
        return answer.status == 403 and "insufficient_scope" in challenge

    def _wanted_scope(self, answer: Answer) -> str:
        """The flag for a login that permits what was refused, and what the present one permits."""
        scopes = re.search(r'scope="([\x20\x21\x23-\x5b\x5d-\x7e]{1,500})"', answer.headers.get("www-authenticate", ""))
        if scopes is None:
            return ""
        names = dict.fromkeys([*self._token.scope.split(), *scopes[1].split()])
        return f" --scope '{' '.join(names)}'" if "'" not in scopes[1] and "`" not in scopes[1] else ""

    def close(self) -> None:
        self._client.close()


def explain(error: HttpError) -> str:
    """A request without an answer, in words for people. Only a server that was never reached is named."""
    if error.kind in UNREACHABLE:
        return f"the server cannot be reached: {error}"
    return _FAULTS.get(error.kind) or str(error)


def media_type(answer: Answer) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _origin(location: str) -> str:
    """Where a redirect leads to, without path and query: they may hold a key."""
    try:
        url = parse_url(location)
    except ValueError:
        return ""
    return f" to one that begins with {url.scheme}://{url.authority}/"
