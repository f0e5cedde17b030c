"""The provider for Anthropic's own service, and for servers with the same wire.

It adds address, key and headers to `apis/anthropic_messages.py`, which builds requests and reads streams, and sends
them by `providers/exchange.py`. Bedrock and Vertex use the same wire with credentials of their own.
"""

from collections.abc import AsyncGenerator, Sequence
from functools import partial

from polylect.apis.anthropic_messages import StreamParser, encode_message, request_body
from polylect.apis.encoded_history import EncodedHistories
from polylect.providers.error_kinds import Service
from polylect.providers.exchange import HttpProvider, Question, converse
from polylect.providers.retry import Retries
from polylect.providers.settings import ProviderSettings
from polylect.vocab.ports import ModelEvent, ModelRequest, Provider
from polylect.wire import sse

BASE_URL = "https://api.anthropic.com"


class Anthropic(HttpProvider):
    name = "anthropic"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings, messages_url(settings.base_url or settings.find("ANTHROPIC_BASE_URL") or BASE_URL))
        key = settings.api_key or settings.find("ANTHROPIC_API_KEY")
        token = "" if key else settings.find("ANTHROPIC_AUTH_TOKEN")
        self._service = Service(self.name, "ANTHROPIC_API_KEY (or --api-key)", (key, token))
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
            **({"x-api-key": key} if key else {}),
            **({"authorization": f"Bearer {token}"} if token else {}),
            **_custom_headers(settings.find("ANTHROPIC_CUSTOM_HEADERS")),
        }
        self._encoded_histories = EncodedHistories(encode_message)

    def _searches_web(self, model: str) -> bool:
        return bool(self._settings.extra.get("web_search", self._base == messages_url(BASE_URL)))

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        encoded = self._encoded_histories.pop(request.messages)
        body = self._encode(request_body(request, self.info(request.model), encoded=encoded))
        question = Question(
            request.model, self._base, self._headers, body, partial(self._encoded_histories.store, encoded)
        )
        return converse(self._client, self._service, question, sse.Parser(), StreamParser(), self._models.with_cost)


def _custom_headers(lines: str) -> dict[str, str]:
    """The headers that a gateway wants: `Name: value`, one on each line. Lines that are no headers are left out."""
    pairs = [line.partition(":") for line in lines.splitlines()]
    headers = {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
    return {name: value for name, value in headers.items() if _is_header(name, value)}


def _is_header(name: str, value: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and f"{name}{value}".isascii() and value.isprintable()


def messages_url(base: str) -> str:
    """With and without /v1, as people write it."""
    base = base.rstrip("/").removesuffix("/messages").removesuffix("/v1")
    return f"{base}/v1/messages"


def open_provider(settings: ProviderSettings) -> Provider:
    return Retries(Anthropic(settings), settings.max_retries)
