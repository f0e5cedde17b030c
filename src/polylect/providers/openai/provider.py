"""The provider for OpenAI's own service, and for all servers with the same wires.

It chooses between the two wires, `apis/openai_responses.py` for OpenAI and `apis/openai_chat.py` for others, and adds
address, key and headers.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from polylect.apis import openai_chat, openai_responses
from polylect.apis.encoded_history import EncodedHistories
from polylect.apis.openai_chat import MaxTokensField
from polylect.providers.error_kinds import Service
from polylect.providers.exchange import HttpProvider, Parser, Question, converse
from polylect.providers.retry import Retries
from polylect.providers.settings import ProviderSettings
from polylect.vocab.ports import ModelEvent, ModelRequest, Provider, ReplyDone
from polylect.wire import sse

BASE_URL = "https://api.openai.com/v1"


class OpenAI(HttpProvider):
    name = "openai"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings, base_url(settings.base_url or settings.find("OPENAI_BASE_URL") or BASE_URL))
        key = settings.api_key or settings.find("OPENAI_API_KEY")
        self._service = Service(self.name, "OPENAI_API_KEY (or --api-key)", (key,))
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            **({"authorization": f"Bearer {key}"} if key else {}),
            **_account(settings),
        }
        self._own = self._base.startswith("https://api.openai.com/")
        self._api = settings.extra.get("api", "")
        self._seen_ids: set[str] = set()
        self._chats = EncodedHistories(openai_chat.encode_message)
        self._responses = EncodedHistories(openai_responses.encode_message)

    def _searches_web(self, model: str) -> bool:
        return bool(self._settings.extra.get("web_search", self._own)) and self._speaks_responses(model)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        return (self._respond if self._speaks_responses(request.model) else self._complete)(request)

    def _respond(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        encoded = self._responses.pop(request.messages)
        body = openai_responses.request_body(request, self.info(request.model), encoded=encoded)
        keep = partial(self._responses.store, encoded)
        question = Question(request.model, f"{self._base}/responses", self._headers, self._encode(body), keep)
        return self._ask(question, openai_responses.StreamParser())

    def _complete(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        encoded = self._chats.pop(request.messages)
        field: MaxTokensField = "max_completion_tokens" if self._own else "max_tokens"
        body = openai_chat.request_body(request, max_tokens_field=field, encoded=encoded)
        keep = partial(self._chats.store, encoded)
        question = Question(request.model, f"{self._base}/chat/completions", self._headers, self._encode(body), keep)
        return self._ask(question, openai_chat.StreamParser(lambda: f"call_{os.urandom(8).hex()}"))

    def _ask(self, question: Question, parser: Parser) -> AsyncGenerator[Sequence[ModelEvent], None]:
        return converse(self._client, self._service, question, sse.Parser(), parser, self._with_cost)

    def _with_cost(self, model: str, done: ReplyDone) -> ReplyDone:
        """Adds the price. An id that a small server repeats gets a suffix, because hosts tell replies apart by it."""
        if done.request in self._seen_ids:
            done = replace(done, request=f"{done.request}-{os.urandom(4).hex()}")
        self._seen_ids.add(done.request)
        return self._models.with_cost(model, done)

    def _speaks_responses(self, model: str) -> bool:
        """As configured (`api = "responses"`); else chat, but for models that OpenAI itself serves no other way."""
        return (self._api or (self._models.row(model).api if self._own else "chat")) == "responses"


def base_url(base: str) -> str:
    """With and without /v1, as people write it; other versions (`/v1beta/openai`, `/api/v4`) stay as they are."""
    base = base.rstrip("/").removesuffix("/chat/completions").removesuffix("/responses")
    _, _, place = base.partition("://")
    versions = [part for part in place.split("/")[1:] if part[:1] == "v" and part[1:2].isdigit()]
    return base if versions else f"{base}/v1"


def _account(settings: ProviderSettings) -> Mapping[str, str]:
    headers = {
        "openai-organization": settings.find("OPENAI_ORG_ID", "OPENAI_ORGANIZATION"),
        "openai-project": settings.project or settings.find("OPENAI_PROJECT", "OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in headers.items() if value}


def open_provider(settings: ProviderSettings) -> Provider:
    return Retries(OpenAI(settings), settings.max_retries)
