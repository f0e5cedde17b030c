"""Anthropic's own service, and servers that speak as it does."""

from collections.abc import AsyncGenerator, Sequence

import msgspec

from polylect.apis.anthropic_messages import StreamParser, request_body
from polylect.providers.exchange import converse
from polylect.providers.faults import Service
from polylect.providers.http import Client
from polylect.providers.models import info, priced
from polylect.providers.settings import ProviderSettings
from polylect.vocab.ports import ModelEvent, ModelInfo, ModelRequest, Provider
from polylect.wire import sse

BASE_URL = "https://api.anthropic.com"
_encode = msgspec.json.Encoder().encode


class Anthropic:
    name = "anthropic"

    def __init__(self, settings: ProviderSettings) -> None:
        key = settings.api_key or settings.find("ANTHROPIC_API_KEY")
        token = "" if key else settings.find("ANTHROPIC_AUTH_TOKEN")
        self._service = Service(self.name, "ANTHROPIC_API_KEY (or --api-key)", (key, token))
        self._url = messages_url(settings.base_url or settings.find("ANTHROPIC_BASE_URL") or BASE_URL)
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
            **({"x-api-key": key} if key else {}),
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        self._client = Client(
            settings.env, stream_timeout=settings.stream_timeout, ca_file=settings.extra.get("ca_file", "")
        )

    def info(self, model: str) -> ModelInfo:
        return info(model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        replies = converse(
            self._client,
            self._service,
            request.model,
            url=self._url,
            headers=self._headers,
            body=_encode(request_body(request, self.info(request.model))),
            frames=sse.Parser(),
            parser=StreamParser(),
        )
        async for events in priced(replies, request.model):
            yield events

    async def close(self) -> None:
        self._client.close()


def messages_url(base: str) -> str:
    """With and without /v1, as people write it."""
    base = base.rstrip("/").removesuffix("/messages").removesuffix("/v1")
    return f"{base}/v1/messages"


def open_provider(settings: ProviderSettings) -> Provider:
    return Anthropic(settings)
