"""Answers a host that asks which models it can use, and opens the provider of another one: the `Models` port.

The settings of all providers are read when a host first asks. Changes in files count at the next start.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from polylect.app.serving.open_provider import open_one, open_provider
from polylect.app.startup import config
from polylect.providers.check import describe, providers
from polylect.providers.models import Catalogue
from polylect.vocab.answers import ModelCard
from polylect.vocab.ports import Provider

if TYPE_CHECKING:
    from polylect.app.cli.models import ModelRow


class AvailableModels:
    """The models of all providers, from the settings and the environment of the start."""

    def __init__(self, values: config.Values, env: Mapping[str, str]) -> None:
        self._values = values
        self._env = dict(env)
        self._settings: config.Values = {}
        self._cards: tuple[ModelCard, ...] | None = None

    def cards(self) -> Sequence[ModelCard]:
        if self._cards is None:
            from polylect.app.cli.models import models  # only for hosts that ask

            settings = self._all_settings()
            self._cards = tuple(
                self._card(settings, row)
                for provider in providers()
                for row in models(settings, provider, self._env)
                if row.usable and row.model
            )
        return self._cards

    def open(self, provider: str) -> Provider:
        if provider == self._values["provider"]:
            return open_provider(self._values, self._env)
        if provider not in providers():
            raise LookupError(f"there is no provider {provider!r}; providers are {', '.join(providers())}")
        from polylect.app.cli.models import unusable_reason

        settings = self._all_settings()
        if reason := unusable_reason(settings, provider, self._env):
            raise LookupError(reason)
        return open_one(config.choose(settings, provider), self._env)

    def _all_settings(self) -> config.Values:
        """The settings of all providers. The start has resolved those of the provider in use only."""
        if not self._settings:
            self._settings = config.gather(self._values, self._env, str(self._values["workspace"]), [])
        return self._settings

    def _card(self, settings: config.Values, row: "ModelRow") -> ModelCard:
        values = config.choose(settings, row.provider)
        return ModelCard(
            row.provider,
            row.model,
            describe(row.provider).api or f"openai_{values.get('api') or self._api(settings, row.model)}",
            str(values.get("base_url") or ""),
            row.window,
            row.max_output,
            row.thinking,
            row.effort_levels,
            row.images,
            row.price or (),
        )

    def _api(self, settings: config.Values, model: str) -> str:
        own = settings.get("models")
        return Catalogue(own if isinstance(own, dict) else None).row(model).api
