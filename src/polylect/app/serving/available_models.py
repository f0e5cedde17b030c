"""The models that can be used now, whoever serves them: the `Models` of the port, from the settings of the start."""

from collections.abc import Mapping, Sequence

from polylect.app.cli.models import Listed, models, obstacle
from polylect.app.serving.open_provider import open_one, open_provider
from polylect.app.startup import config
from polylect.providers.check import PROVIDERS
from polylect.providers.models import Catalogue
from polylect.vocab.answers import ModelCard
from polylect.vocab.ports import Provider

_MESSAGES = "anthropic_messages"
_APIS = {"anthropic": _MESSAGES, "bedrock": _MESSAGES, "vertex": _MESSAGES, "local": "local", "scripted": "scripted"}


class Available:
    """Files are read when somebody first asks; what has changed since counts at the next start."""

    def __init__(self, values: config.Values, env: Mapping[str, str]) -> None:
        self._values = values
        self._env = dict(env)
        self._found: config.Values = {}
        self._cards: tuple[ModelCard, ...] | None = None

    def cards(self) -> Sequence[ModelCard]:
        if self._cards is None:
            found = self._gathered()
            self._cards = tuple(
                self._card(found, listed)
                for provider in PROVIDERS
                for listed in models(found, provider, self._env)
                if listed.usable and listed.model
            )
        return self._cards

    def open(self, provider: str) -> Provider:
        if provider == self._values["provider"]:
            return open_provider(self._values, self._env)
        if provider not in PROVIDERS:
            raise LookupError(f"there is no provider {provider!r}; providers are {', '.join(PROVIDERS)}")
        found = self._gathered()
        if reason := obstacle(found, provider, self._env):
            raise LookupError(reason)
        return open_one(config.choose(found, provider), self._env)

    def _gathered(self) -> config.Values:
        """With the settings of all providers; the start has kept only those of its own."""
        if not self._found:
            self._found = config.gather(self._values, self._env, str(self._values["workspace"]), [])
        return self._found

    def _card(self, found: config.Values, listed: Listed) -> ModelCard:
        values = config.choose(found, listed.provider)
        return ModelCard(
            listed.provider,
            listed.model,
            _APIS.get(listed.provider) or f"openai_{values.get('api') or self._api(found, listed.model)}",
            str(values.get("base_url") or ""),
            listed.window,
            listed.max_output,
            listed.thinking,
            listed.effort_levels,
            listed.images,
            listed.price or (),
        )

    def _api(self, found: config.Values, model: str) -> str:
        own = found.get("models")
        return Catalogue(own if isinstance(own, dict) else None).row(model).api
