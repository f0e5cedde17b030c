"""Logs in at a remote MCP server by OAuth, and out again.

The flow is that of the official SDK (`mcp.client.auth`): it finds the authorization server, registers a client, and
trades the code for tokens, with PKCE. This module sends its requests through our own HTTP client, so that sizes, times
and redirects are bounded, opens the browser, and stores what was granted. The SDK takes a second and 50 MiB to load, so
only a login loads it; tokens are renewed without it (`access_token.py`).

`polylect mcp login` and `polylect mcp logout` call `login` and `logout`.
"""

import asyncio
import logging
import time
import webbrowser
from collections.abc import Callable, Mapping
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec

from polylect.http.client import Client
from polylect.http.errors import HttpError
from polylect.mcp.auth.access_token import post_form
from polylect.mcp.auth.device_code import GRANT, LoginError
from polylect.mcp.auth.device_code import log_in as log_in_by_device
from polylect.mcp.auth.redirect_listener import RedirectListener
from polylect.mcp.auth.token_store import Login, TokenStore, locked
from polylect.system.threads import run_in_thread
from polylect.vocab.content import Server
from polylect.vocab.escape import escape_controls

_MOST_BODY = 256 * 1024
_IDLE_TIMEOUT = 30.0
_REDIRECTS = 5
_REVOKE_TIMEOUT = 5.0
_DROPPED = frozenset(
    ["accept-encoding", "connection", "content-encoding", "content-length", "host", "transfer-encoding", "user-agent"]
)
"""Headers that our own client makes, or that say how a body was packed before it was read."""
_VERSION = "mcp-protocol-version"
_REVISION = "2025-11-25"
_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"polylect","version":"0"}}}'
)
_MISSING = 'logins need the Python package mcp, and it is not installed here: pip install "polylect[oauth]"'

__all__ = ["LoginError", "login", "logout"]


def open_browser(url: str) -> bool:
    """Open an address in the user's browser. False if there is none."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


async def login(
    server: Server,
    env: Mapping[str, str],
    store: TokenStore,
    *,
    show: Callable[[str], None],
    browser: Callable[[str], bool] | None = open_browser,
    device: bool = False,
    scope: str = "",
    timeout: float = 300.0,
) -> None:
    """Log in at a server and store what it grants.

    Args:
        server: A server with a url. Its `extras["oauth"]` may name a client that is registered already.
        env: Where proxies and certificates are named.
        store: Gets the tokens.
        show: Gets lines for the user: the address to open, or the code to enter.
        browser: Opens an address; False means that it could not. None: the address is only shown.
        device: Whether to use a device code in the place of a browser on this machine.
        scope: Scopes to ask for, separated by spaces, in the place of those that the server names.
        timeout: Seconds within which the user has to finish.

    Raises:
        LoginError: Nobody was logged in. The text says why.
        StoreError: The tokens could not be stored.
    """
    if not urlsplit(server.url).scheme.startswith("http"):
        raise LoginError(f"{server.name} has no url: only servers that are reached by one have logins")
    try:
        await run_in_thread(import_module, "mcp.client.auth")
    except ImportError:
        raise LoginError(_MISSING) from None
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs errors with all that belongs to them
    client = Client(env, idle_timeout=_IDLE_TIMEOUT)
    listener = RedirectListener()
    try:
        async with asyncio.timeout(timeout):
            flow = _Flow(server, client, listener, show, browser, device=device, scope=scope)
            granted = await flow.run()
    except TimeoutError:
        raise LoginError(f"nobody has logged in within {timeout:g} s") from None
    except HttpError as error:
        raise LoginError(str(error)) from None
    finally:
        listener.close()
        client.close()
    async with locked(env):
        await run_in_thread(store.save, server.url, granted)


async def logout(server: Server, env: Mapping[str, str], store: TokenStore) -> bool:
    """Forget a login, and tell the authorization server if it wants to know. False if there was none.

    Raises StoreError.
    """
    stored = await run_in_thread(store.load, server.url)
    if stored is None:
        return False
    async with locked(env):
        await run_in_thread(store.remove, server.url)
    if stored.revocation_endpoint:
        token = stored.refresh_token or stored.access_token
        client = Client(env, idle_timeout=_REVOKE_TIMEOUT)
        try:
            async with asyncio.timeout(_REVOKE_TIMEOUT):
                form = {"token": token, "client_id": stored.client_id}
                await post_form(client, stored, form, stored.revocation_endpoint)
        except (HttpError, TimeoutError):
            pass  # the tokens are gone here, and expire there
        finally:
            client.close()
    return True


class _Memory:
    """What the SDK stores during a login. A client is registered anew each time: its redirect names a port."""

    def __init__(self, client_info: Any) -> None:
        self.tokens: Any = None
        self.client_info = client_info

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client_info

    async def set_client_info(self, client_info: Any) -> None:
        self.client_info = client_info


class _DeviceWanted(Exception):
    """Ends the SDK's flow where the browser would be opened."""


class _Flow:
    """One login."""

    def __init__(
        self,
        server: Server,
        client: Client,
        listener: RedirectListener,
        show: Callable[[str], None],
        browser: Callable[[str], bool] | None,
        *,
        device: bool,
        scope: str,
    ) -> None:
        self._server = server
        self._client = client
        self._listener = listener
        self._show = show
        self._browser = browser
        self._device = device
        self._settings: Mapping[str, str] = server.extras.get("oauth") or {}
        scope = scope or self._settings.get("scope", "")
        self._scope = scope.replace('"', "")
        self._documents: list[dict[str, Any]] = []
        """What servers publish about themselves, as far as it has been read."""
        self._own_request: Any = None
        self._context: Any = None
        """What the SDK's flow has found out so far."""

    async def run(self) -> Login:
        from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
        from pydantic import ValidationError

        port = self._settings.get("callback_port", "0")
        try:
            await self._listener.start(int(port))
        except (OSError, ValueError, OverflowError):
            raise LoginError(f"the port {port} for the answer of the login cannot be used") from None
        provider = self._provider()
        self._context = provider.context
        try:
            status = await self._drive(provider)
        except _DeviceWanted:
            login = self._granted(provider)
            return await log_in_by_device(self._client, login, self._device_endpoint(login.issuer), self._show)
        except (OAuthFlowError, OAuthRegistrationError, OAuthTokenError) as error:
            raise LoginError(escape_controls(f"the login failed: {error}")[:500]) from None
        except ValidationError:
            raise LoginError("the login failed: an answer of the server does not follow the protocol") from None
        if provider.context.storage.tokens is None:
            if 200 <= status < 300:
                raise LoginError(f"{self._server.name} does not ask for a login")
            raise LoginError(f"{self._server.name} answers with HTTP {status}, and does not ask for a login")
        if status == 401:
            raise LoginError(f"{self._server.name} refuses the token that it was granted")
        return self._granted(provider)

    def _provider(self) -> Any:
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

        redirects = [self._listener.url]
        secret = self._settings.get("client_secret")
        known = None
        if client_id := self._settings.get("client_id"):
            method = "client_secret_post" if secret else "none"
            known = OAuthClientInformationFull.model_validate(
                {
                    "client_id": client_id,
                    "client_secret": secret,
                    "redirect_uris": redirects,
                    "token_endpoint_auth_method": method,
                }
            )
        metadata = {
            "client_name": "polylect",
            "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token", *([GRANT] if self._device else [])],
        }
        return OAuthClientProvider(
            _without_secrets(self._server.url),
            OAuthClientMetadata.model_validate(metadata),
            _Memory(known),
            self._redirect,
            self._come_back,
        )

    async def _drive(self, provider: Any) -> int:
        """Send each request that the SDK's flow makes. Returns the status of the last answer of the MCP server."""
        import httpx2

        post = self._server.transport != "sse"
        accept = "application/json, text/event-stream" if post else "text/event-stream"
        request = httpx2.Request(
            "POST" if post else "GET",
            self._server.url,
            # The version is for the SDK, which names the server to the authorization server only from that one on.
            headers={**self._server.headers, "accept": accept, "content-type": "application/json", _VERSION: _REVISION},
            content=_INITIALIZE if post else None,
        )
        self._own_request = request
        status = 0
        flow = provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = await self._send(outgoing)
                status = response.status_code if outgoing is request else status
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return status
        finally:
            await flow.aclose()

    async def _send(self, request: Any) -> Any:
        import httpx2

        own = request is self._own_request
        url = str(request.url)
        if not own and not _is_safe(url, self._server.url):
            raise LoginError("the login leads to an address that is not https")
        dropped = _DROPPED | {_VERSION} if own else _DROPPED
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        with await self._client.request(request.method, url, headers, request.read(), redirects=_REDIRECTS) as answer:
            reads_body = not own or answer.status >= 400  # what an MCP server answers to a client it knows may not end
            body = await answer.read(_MOST_BODY, _IDLE_TIMEOUT) if reads_body else b""
            if not reads_body:
                answer.close()
        if "/.well-known/" in url:
            self._documents += _objects(body)
        response_headers = {name: value for name, value in answer.headers.items() if name not in _DROPPED}
        if own and self._scope:  # the first scope that the SDK finds in this header is the one it asks for
            challenge = response_headers.get("www-authenticate", "")
            response_headers["www-authenticate"] = f'Bearer scope="{self._scope}", {challenge}'
        return httpx2.Response(answer.status, headers=response_headers, content=body, request=request)

    async def _redirect(self, url: str) -> None:
        """The SDK has made the address at which the user logs in."""
        metadata, info = self._context.oauth_metadata, self._context.client_info
        if (
            "client_secret" in self._settings
            and metadata
            and metadata.token_endpoint_auth_methods_supported == ["client_secret_basic"]
        ):
            info.token_endpoint_auth_method = "client_secret_basic"  # the server takes the user's secret only so
        if self._device:
            raise _DeviceWanted
        if not _is_safe(url, self._server.url):
            raise LoginError("the page for the login is not https")
        self._listener.expect(parse_qs(urlsplit(url).query).get("state", [""])[-1])
        opened = self._browser is not None and await run_in_thread(self._browser, url)
        self._show("Log in in your browser. If no page opens there, open:" if opened else "Open this in a browser:")
        self._show(escape_controls(url))

    async def _come_back(self) -> Any:
        """Wait for the browser."""
        from mcp.client.auth import AuthorizationCodeResult

        answer = await self._listener.receive()
        if error := answer.get("error"):
            words = f"{error}: {answer['error_description']}" if answer.get("error_description") else error
            raise LoginError(f"the login was refused: {escape_controls(words)[:300]}")
        return AuthorizationCodeResult(code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss"))

    def _granted(self, provider: Any) -> Login:
        context = provider.context
        tokens, metadata, info = context.storage.tokens, context.oauth_metadata, context.client_info
        if metadata is None:
            endpoint = f"{context.get_authorization_base_url(context.server_url)}/token"  # as the SDK has used it
        else:
            endpoint = str(metadata.token_endpoint)
        return Login(
            access_token=tokens.access_token if tokens else "",
            refresh_token=(tokens.refresh_token or "") if tokens else "",
            expires_at=time.time() + tokens.expires_in if tokens and tokens.expires_in else 0.0,
            scope=(tokens.scope if tokens else context.client_metadata.scope) or "",
            resource=context.get_resource_url(),
            issuer=str(metadata.issuer) if metadata else "",
            token_endpoint=endpoint,
            revocation_endpoint=str(metadata.revocation_endpoint or "") if metadata else "",
            client_id=info.client_id,
            client_secret=info.client_secret or "",
            auth_method=info.token_endpoint_auth_method or "none",
        )

    def _device_endpoint(self, issuer: str) -> str:
        """Where this authorization server gives out device codes. The SDK checks who it is, but drops the field."""
        for document in self._documents:
            endpoint = document.get("device_authorization_endpoint")
            if document.get("issuer") == issuer and isinstance(endpoint, str) and _is_safe(endpoint, self._server.url):
                return endpoint
        raise LoginError("the server has no login by device code: log in without --device")


def _objects(body: bytes) -> list[dict[str, Any]]:
    try:
        return [msgspec.json.decode(body, type=dict[str, Any])]
    except (msgspec.MsgspecError, RecursionError):
        return []


def _is_safe(url: str, server_url: str) -> bool:
    """Whether secrets may be sent there: by TLS, on this machine, or to the server itself."""
    place, own = urlsplit(url), urlsplit(server_url)
    if place.scheme == "https" or (place.scheme, place.netloc) == (own.scheme, own.netloc):
        return True
    try:
        return place.scheme == "http" and (
            place.hostname == "localhost" or ip_address(place.hostname or "").is_loopback
        )
    except ValueError:
        return False


def _without_secrets(url: str) -> str:
    """The address without password and query, which may hold keys: authorization servers are told of it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
