"""The provider for Anthropic's models on Google's Vertex AI.

Requests are those of `apis/anthropic_messages.py`, with the model in the address; the token comes from
`providers/auth/google_token.py`, or is given by the user.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from polylect.apis.anthropic_messages import StreamParser, encode_message, request_body
from polylect.apis.encoded_history import EncodedHistories, EncodedHistory
from polylect.providers.auth.google_token import Tokens, read_credentials
from polylect.providers.error_kinds import Service
from polylect.providers.exchange import HttpProvider, Question, converse
from polylect.providers.retry import Retries
from polylect.providers.settings import ProviderSettings, host_label
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent, ModelRequest, Provider
from polylect.wire import sse
from polylect.wire.http1 import quoted

REGION = "us-east5"
_HELP = "GOOGLE_APPLICATION_CREDENTIALS, VERTEX_PROJECT_ID and VERTEX_REGION to where the model is enabled"


class Vertex(HttpProvider):
    name = "vertex"

    def __init__(self, settings: ProviderSettings) -> None:
        region = settings.region or settings.find("VERTEX_REGION", "CLOUD_ML_REGION") or REGION
        self._region = host_label("vertex", "region", region)
        host = "" if self._region == "global" else f"{self._region}-"
        base = settings.base_url or f"https://{host}aiplatform.googleapis.com"
        super().__init__(settings, base.rstrip("/").removesuffix("/v1"))
        self._encoded_histories = EncodedHistories(encode_message)
        self._token = settings.api_key or settings.find("VERTEX_ACCESS_TOKEN")
        self._project = settings.project or settings.find("VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
        self._tokens: Tokens | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        token = self._token or await self._login().token()
        encoded = self._encoded_histories.pop(request.messages)
        question = Question(
            request.model,
            self._url(request.model),
            {"content-type": "application/json", "authorization": f"Bearer {token}"},
            self._encode(self._body(request, encoded)),
            partial(self._encoded_histories.store, encoded),
        )
        service = Service(self.name, _HELP, (token,))
        replies = converse(self._client, service, question, sse.Parser(), StreamParser(), self._models.with_cost)
        async with aclosing(replies):
            async for events in replies:
                yield events

    def _login(self) -> Tokens:
        if self._tokens is None:
            credentials = read_credentials(self._settings)
            self._project = self._project or credentials.project_id or credentials.quota_project_id
            self._tokens = Tokens(credentials, self._client)
        return self._tokens

    def _url(self, model: str) -> str:
        if not self._project:
            raise ProviderError("bad_request", "vertex: no project: set VERTEX_PROJECT_ID")
        project = host_label("vertex", "project", self._project)
        place = f"projects/{project}/locations/{self._region}"
        name = quoted(model).replace("%40", "@").replace("%3A", ":")  # as Google writes them
        return f"{self._base}/v1/{place}/publishers/anthropic/models/{name}:streamRawPredict"

    def _body(self, request: ModelRequest, encoded: EncodedHistory) -> dict[str, Any]:
        caching = bool(self._settings.extra.get("prompt_caching", True))
        body = request_body(request, self.info(request.model), caching=caching, encoded=encoded)
        del body["model"]
        return {"anthropic_version": "vertex-2023-10-16", **body}


def open_provider(settings: ProviderSettings) -> Provider:
    return Retries(Vertex(settings), settings.max_retries)
