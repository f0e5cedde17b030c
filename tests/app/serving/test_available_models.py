"""Which models a running engine can be switched to, and what opens them."""

import asyncio
from pathlib import Path

import pytest

from polylect.app.serving.available_models import AvailableModels
from polylect.app.startup.config import Values, choose, gather
from polylect.vocab.answers import ModelCard

OWN = """
[providers.openai]
base_url = "http://localhost:11434"
[providers.anthropic]
api_key = "sk-ant-own"
[models."qwen3:8b"]
window = 40960
"""


def available(folder: Path, own: str = "", flags: Values | None = None, **env: str) -> AvailableModels:
    (folder / "polylect").mkdir()
    (folder / "polylect" / "config.toml").write_text(own)
    whole = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder), **env}
    settings = gather({"workspace": str(folder), **(flags or {})}, whole, str(folder), [])
    values = choose(settings, str(settings["provider"]))
    return AvailableModels(values, whole)


def test_models_are_those_of_providers_whose_key_is_there(tmp_path: Path) -> None:
    cards = available(tmp_path, OPENAI_API_KEY="sk-x").cards()
    assert {card.provider for card in cards} == {"openai"}
    assert next(card for card in cards if card.name == "gpt-4o") == ModelCard(
        "openai",
        "gpt-4o",
        "openai_chat",
        window=128_000,
        max_output=16_384,
        images=True,
        prices=(2.5, 10.0, 1.25, None),
    )


def test_the_model_in_use_and_those_of_other_providers_settings_are_among_them(tmp_path: Path) -> None:
    cards = available(tmp_path, OWN, {"provider": "scripted", "model": "m"}).cards()
    assert cards[0] == ModelCard("scripted", "m", "scripted")
    assert ("anthropic", "anthropic_messages") in {(card.provider, card.api) for card in cards}
    own = [(card.name, card.base_url, card.window) for card in cards if card.provider == "openai"]
    assert own == [("qwen3:8b", "http://localhost:11434", 40960)]


def test_another_provider_is_opened_with_its_own_settings(tmp_path: Path) -> None:
    async def opened() -> list[str]:
        models = available(tmp_path, OWN, {"provider": "scripted"})
        providers = [models.open(name) for name in ("scripted", "openai", "anthropic")]
        for provider in providers:
            await provider.close()
        return [provider.name for provider in providers]

    assert asyncio.run(opened()) == ["scripted", "openai", "anthropic"]


@pytest.mark.parametrize(
    ("provider", "told"),
    [("anthropic", "ANTHROPIC_API_KEY is not set"), ("nobody", "there is no provider 'nobody'")],
)
def test_a_provider_that_cannot_be_used_says_what_is_missing(tmp_path: Path, provider: str, told: str) -> None:
    with pytest.raises(LookupError, match=told):
        available(tmp_path).open(provider)
