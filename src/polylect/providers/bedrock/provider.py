"""The provider for Anthropic's models on Amazon Bedrock.

Requests are those of `apis/anthropic_messages.py`, signed by `providers/auth/sigv4.py`; replies come as AWS event
streams (`apis/bedrock_stream.py`). Keys come from the environment or from a profile of the AWS files, a bearer token
comes first.
"""

import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

from polylect.apis.anthropic_messages import StreamParser, encode_message, request_body
from polylect.apis.bedrock_stream import Frames
from polylect.apis.encoded_history import EncodedHistories, EncodedHistory
from polylect.providers.auth.sigv4 import Keys, signed
from polylect.providers.error_kinds import Service
from polylect.providers.exchange import HttpProvider, Question, converse
from polylect.providers.retry import Retries
from polylect.providers.settings import ProviderSettings, host_label
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent, ModelRequest, Provider
from polylect.wire.http1 import quoted

REGION = "us-east-1"
_HELP = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and check that the model is enabled in the region"


class Bedrock(HttpProvider):
    name = "bedrock"

    def __init__(self, settings: ProviderSettings) -> None:
        self._profile = _profile(settings)
        region = settings.region or settings.find("AWS_REGION", "AWS_DEFAULT_REGION") or self._profile.get("region", "")
        self._region = host_label("bedrock", "region", region or REGION)
        base = settings.base_url or f"https://bedrock-runtime.{self._region}.amazonaws.com"
        super().__init__(settings, base.rstrip("/"))
        self._encoded_histories = EncodedHistories(encode_message)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        url = f"{self._base}/model/{quoted(request.model)}/invoke-with-response-stream"
        encoded = self._encoded_histories.pop(request.messages)
        body = self._encode(self._body(request, encoded))
        headers = {"content-type": "application/json", "accept": "application/vnd.amazon.eventstream"}
        headers, secrets = self._authorised(url, headers, body)
        service = Service(self.name, _HELP, secrets)
        question = Question(request.model, url, headers, body, partial(self._encoded_histories.store, encoded))
        return converse(self._client, service, question, Frames(), StreamParser(), self._models.with_cost)

    def _body(self, request: ModelRequest, encoded: EncodedHistory) -> dict[str, Any]:
        caching = bool(self._settings.extra.get("prompt_caching", True))
        body = request_body(request, self.info(request.model), caching=caching, encoded=encoded)
        del body["model"], body["stream"]
        return {"anthropic_version": "bedrock-2023-05-31", **body}

    def _authorised(self, url: str, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
        bearer = self._settings.api_key or self._settings.find("AWS_BEARER_TOKEN_BEDROCK")
        if bearer:
            return {**headers, "authorization": f"Bearer {bearer}"}, (bearer,)
        keys = self._keys()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        sent = signed(keys, region=self._region, service="bedrock", url=url, headers=headers, body=body, now=now)
        return sent, (keys.secret, keys.token)

    def _keys(self) -> Keys:
        """A profile that was named comes before keys in the environment; those come before the default profile."""
        env, profile = self._settings.env, self._profile
        named = bool(self._settings.profile)
        if not named and env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
            return Keys(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env.get("AWS_SESSION_TOKEN", ""))
        if profile.get("aws_access_key_id") and profile.get("aws_secret_access_key"):
            token = profile.get("aws_session_token", "")
            return Keys(profile["aws_access_key_id"], profile["aws_secret_access_key"], token)
        name = self._settings.profile or env.get("AWS_PROFILE") or "default"
        raise ProviderError("auth", f"bedrock: no AWS keys in the environment or in the profile {name!r}: set {_HELP}")


def _profile(settings: ProviderSettings) -> Mapping[str, str]:
    """What the shared files say of the profile; credentials come before configuration."""
    name = settings.profile or settings.find("AWS_PROFILE") or "default"
    home = os.path.join(settings.find("HOME") or os.path.expanduser("~"), ".aws")
    config = settings.find("AWS_CONFIG_FILE") or os.path.join(home, "config")
    credentials = settings.find("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, "credentials")
    section = name if name == "default" else f"profile {name}"
    return {**_section(config, section), **_section(credentials, name)}


def _section(path: str, name: str) -> dict[str, str]:
    """One section of an INI file. AWS nests settings by indenting them: those are skipped."""
    values: dict[str, str] = {}
    inside = False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return values
    for line in lines:
        text = line.strip()
        if text.startswith("["):
            inside = text.strip("[] \t") == name
        elif inside and "=" in text and line[:1] not in ("#", ";", " ", "\t"):
            key, _, value = text.partition("=")
            values[key.strip().lower()] = value.strip()
    return values


def open_provider(settings: ProviderSettings) -> Provider:
    return Retries(Bedrock(settings), settings.max_retries)
