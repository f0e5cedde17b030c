"""Fetches access tokens of Google for Vertex AI.

A token comes from the key of a service account, which signs a request for it, or from what `gcloud auth
application-default login` stored. `providers/vertex/provider.py` asks for one before each request; a token is used
until shortly before it expires.
"""

import os
import time
from binascii import b2a_base64

import msgspec
from msgspec import Struct

from polylect.http.client import Client
from polylect.http.errors import HttpError
from polylect.providers.auth.rsa import read_key
from polylect.providers.error_kinds import without_answer
from polylect.providers.settings import ProviderSettings
from polylect.vocab.errors import ProviderError
from polylect.wire.http1 import quoted

TOKEN_URL = "https://oauth2.googleapis.com/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EARLY = 60.0
"""So long before its end a token is replaced."""
_HELP = (
    "set GOOGLE_APPLICATION_CREDENTIALS to a service account's JSON file, or run gcloud auth application-default login"
)


class Credentials(Struct, frozen=True):
    """A credentials file, whichever kind it is."""

    type: str = ""
    project_id: str = ""
    quota_project_id: str = ""
    private_key_id: str = ""
    private_key: str = ""
    client_email: str = ""
    token_uri: str = TOKEN_URL
    client_id: str = ""
    client_secret: str = ""
    refresh_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.type!r}, {self.client_email!r})"


class _Granted(Struct):
    access_token: str
    expires_in: float = 3600.0


def read_credentials(settings: ProviderSettings) -> Credentials:
    home = settings.find("HOME") or os.path.expanduser("~")
    default = os.path.join(home, ".config/gcloud/application_default_credentials.json")
    path = settings.find("GOOGLE_APPLICATION_CREDENTIALS") or default
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Credentials)
    except OSError as error:
        raise ProviderError("auth", f"vertex: cannot read {path} ({error.strerror}): {_HELP}") from None
    except msgspec.MsgspecError:
        raise ProviderError("auth", f"vertex: {path} is not a credentials file: {_HELP}") from None


class Tokens:
    """One token at a time, asked for when needed and kept until shortly before its end."""

    def __init__(self, credentials: Credentials, client: Client) -> None:
        self._credentials = credentials
        self._client = client
        self._token = ""
        self._until = 0.0

    async def token(self) -> str:
        if time.time() >= self._until:
            granted = await self._grant()
            self._token, self._until = granted.access_token, time.time() + granted.expires_in - _EARLY
        return self._token

    async def _grant(self) -> _Granted:
        form = _form(self._credentials, int(time.time()))
        body = "&".join(f"{name}={quoted(value)}" for name, value in form.items()).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        try:
            answer = await self._client.request("POST", self._credentials.token_uri, headers, body)
            try:
                text = await answer.read(64 * 1024)
            finally:
                answer.close(finished=True)
        except HttpError as error:
            raise without_answer(error) from None
        try:
            if answer.status == 200:
                return msgspec.json.decode(text, type=_Granted)
        except (msgspec.MsgspecError, RecursionError):
            pass
        if answer.status >= 500:
            raise ProviderError("server", f"vertex: no token ({answer.status})", retryable=True, status=answer.status)
        raise ProviderError("auth", f"vertex: the credentials were refused ({answer.status}): {_HELP}")


def _form(credentials: Credentials, now: int) -> dict[str, str]:
    match credentials.type:
        case "service_account":
            return {"grant_type": _GRANT, "assertion": assertion(credentials, now)}
        case "authorized_user":
            return {
                "grant_type": "refresh_token",
                "client_id": credentials.client_id,
                "client_secret": credentials.client_secret,
                "refresh_token": credentials.refresh_token,
            }
        case kind:
            raise ProviderError("auth", f"vertex: credentials of the kind {kind!r} cannot be used: {_HELP}")


def assertion(credentials: Credentials, now: int) -> str:
    """The signed claim (JWT, RS256) that a service account trades for a token."""
    header = {"alg": "RS256", "typ": "JWT", "kid": credentials.private_key_id}
    claims = {
        "iss": credentials.client_email,
        "scope": _SCOPE,
        "aud": credentials.token_uri,
        "iat": now,
        "exp": now + 3600,
    }
    text = f"{_base64url(msgspec.json.encode(header))}.{_base64url(msgspec.json.encode(claims))}"
    try:
        signature = read_key(credentials.private_key).sign(text.encode())
    except ValueError as error:
        raise ProviderError("auth", f"vertex: the service account's key is {error}: {_HELP}") from None
    return f"{text}.{_base64url(signature)}"


def _base64url(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode().translate(_URL_SAFE).rstrip("=")


_URL_SAFE = str.maketrans("+/", "-_")
