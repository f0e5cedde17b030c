"""Login by a device code (RFC 8628), for machines without a browser: the user enters a code on another device.

`oauth.py` calls it with the client that it has registered.
"""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Struct

from polylect.http.client import Client
from polylect.mcp.auth.access_token import Granted, post_form
from polylect.mcp.auth.token_store import Login
from polylect.vocab.errors import PolylectError
from polylect.vocab.escape import escape_controls

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SHORTEST_INTERVAL = 1.0
_SLOW_DOWN = 5.0


class LoginError(PolylectError):
    """Nobody was logged in. The text says why, and what to do."""


class _Started(Struct):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    interval: float = 5.0


class _Refused(Struct):
    error: str = ""


async def log_in(client: Client, login: Login, endpoint: str, show: Callable[[str], None]) -> Login:
    """Ask for a code, show it, and wait until the user has entered it.

    `login` names the client and the token endpoint, and is returned with its tokens. Raises LoginError and HttpError.
    The caller limits the time.
    """
    about = {"client_id": login.client_id}
    about |= {name: value for name, value in (("scope", login.scope), ("resource", login.resource)) if value}
    status, body = await post_form(client, login, about, endpoint)
    try:
        started = msgspec.json.decode(body, type=_Started)
    except (msgspec.MsgspecError, RecursionError):
        raise LoginError(f"the server gives no device code (HTTP {status})") from None
    place = started.verification_uri_complete or started.verification_uri
    show(escape_controls(f"Open {place} on any device and enter the code {started.user_code}"))
    about = {"grant_type": GRANT, "device_code": started.device_code, "client_id": login.client_id}
    interval = max(started.interval, _SHORTEST_INTERVAL)
    while True:
        await asyncio.sleep(interval)
        status, body = await post_form(client, login, about)
        try:
            if status == 200:
                return msgspec.json.decode(body, type=Granted).login(login)
            error = msgspec.json.decode(body, type=_Refused).error
        except (msgspec.MsgspecError, RecursionError):
            error = f"HTTP {status}"
        if error == "slow_down":
            interval += _SLOW_DOWN
        elif error != "authorization_pending":
            raise LoginError(f"the login was refused: {escape_controls(error)[:200]}")
