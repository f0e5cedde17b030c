"""The access token of one MCP server: read from the store, and renewed before it expires or when it is refused.

`mcp/transports/endpoint.py` asks for it with every request. Renewing is one request to the address that the login has
stored, so it needs nothing of the package that logs in (`oauth.py`).
"""

import asyncio
import time

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polylect.http.client import Client, basic_login
from polylect.http.errors import HttpError
from polylect.mcp.auth.token_store import Login, StoreError, locked, open_store
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.system.threads import run_in_thread
from polylect.vocab.content import Server
from polylect.wire.http1 import quoted

_EARLY = 30.0
"""So many seconds before its end a token is renewed."""
_RENEWAL_TIMEOUT = 15.0
_MOST_ANSWER = 256 * 1024


class Granted(Struct, frozen=True):
    """The answer of a token endpoint."""

    access_token: str
    refresh_token: str = ""
    expires_in: float | None = None
    scope: str = ""

    def login(self, before: Login) -> Login:
        """The login after this answer; what the answer leaves out stays as it was."""
        return replace(
            before,
            access_token=self.access_token,
            refresh_token=self.refresh_token or before.refresh_token,
            expires_at=time.time() + self.expires_in if self.expires_in is not None else 0.0,
            scope=self.scope or before.scope,
        )


class AccessToken:
    """The token of one server. Empty where nobody has logged in there."""

    def __init__(self, server: Server, setup: ServerSetup, client: Client) -> None:
        self._server = server
        self._env = setup.env
        self._kind = setup.token_store
        self._client = client
        self._login: Login | None = None
        self._loaded = False
        self._changing = asyncio.Lock()
        self._renewal: asyncio.Task[Login] | None = None

    @property
    def scope(self) -> str:
        """What the login permits, as far as it is known."""
        return self._login.scope if self._login else ""

    async def current(self) -> str:
        """The token to send; empty for none. Raises ServerFault if it has expired and cannot be renewed."""
        async with self._changing:
            if not self._loaded:
                self._login = await run_in_thread(self._load)
                self._loaded = True
            login = self._login
            if login and login.refresh_token and login.expires_at and time.time() > login.expires_at - _EARLY:
                try:
                    login = await self._renewed(login)
                except ServerFault:
                    if time.time() > login.expires_at:
                        raise
            return login.access_token if login else ""

    async def renew(self, refused: str) -> bool:
        """Get another token in the place of one that the server has refused. False if that is not possible.

        Raises ServerFault if the login has expired.
        """
        async with self._changing:
            login = self._login
            if login and login.access_token == refused and login.refresh_token:
                login = await self._renewed(login)
            return bool(login and login.access_token != refused)

    def _load(self) -> Login | None:
        try:
            return open_store(self._env, self._kind).load(self._server.url)
        except StoreError as error:
            raise ServerFault(str(error)) from None

    def _save(self, login: Login) -> None:
        open_store(self._env, self._kind).save(self._server.url, login)

    async def _renewed(self, before: Login) -> Login:
        """Sets and returns the login. A request that is cancelled leaves the renewal running.

        The server may have accepted the old token for the last time, so the answer has to be stored.
        """
        self._renewal = asyncio.create_task(self._renew(before))
        # Its exception is retrieved also if nobody waits any more, so that asyncio does not log it.
        self._renewal.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._login = await asyncio.shield(self._renewal)
        return self._login

    async def _renew(self, before: Login) -> Login:
        try:
            async with locked(self._env):
                stored = await run_in_thread(self._load)
                if stored and stored.access_token != before.access_token:
                    return stored  # another process was faster
                login = await self._granted(before)
                await run_in_thread(self._save, login)
                return login
        except StoreError as error:
            raise ServerFault(str(error)) from None

    async def _granted(self, before: Login) -> Login:
        if not before.refresh_token or not before.token_endpoint:
            raise self._expired()
        try:
            async with asyncio.timeout(_RENEWAL_TIMEOUT):
                status, body = await post_form(self._client, before, _renewal(before))
        except (HttpError, TimeoutError) as error:
            raise ServerFault(f"the login cannot be renewed: {str(error) or 'no answer'}") from None
        if status >= 500 or status == 429:
            raise ServerFault(f"the login cannot be renewed: HTTP {status}")
        try:
            if status == 200:
                return msgspec.json.decode(body, type=Granted).login(before)
        except (msgspec.MsgspecError, RecursionError):
            pass
        raise self._expired()

    def _expired(self) -> ServerFault:
        return ServerFault(f"the login has expired: run `polylect mcp login {self._server.name}`")


def _renewal(login: Login) -> dict[str, str]:
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    return form | ({"resource": login.resource} if login.resource else {})


async def post_form(client: Client, login: Login, form: dict[str, str], url: str = "") -> tuple[int, bytes]:
    """Send a form to the token endpoint, or to another address, as the client that is registered there.

    Returns the status and the body of the answer. Raises HttpError.
    """
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    if login.auth_method == "client_secret_basic" and login.client_secret:
        user, password = quoted(login.client_id), quoted(login.client_secret)  # as RFC 6749 wants it
        headers["authorization"] = basic_login(f"{quoted(user)}:{quoted(password)}")
    elif login.auth_method == "client_secret_post" and login.client_secret:
        form = form | {"client_secret": login.client_secret}
    body = "&".join(f"{name}={quoted(value)}" for name, value in form.items()).encode()
    with await client.request("POST", url or login.token_endpoint, headers, body, repeatable=False) as answer:
        return answer.status, await answer.read(_MOST_ANSWER)
