"""Which model answers when nobody has said which: never one that only pretends."""

import os
from collections.abc import Sequence
from typing import Any

from polylect.app import config

_KEYS = {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai"}


class NoProvider(Exception):
    """The text says what to set."""


def known_provider(engine: str | Sequence[str], wishes: dict[str, Any], cwd: str) -> None:
    """An engine of ours is told its provider: as wished, as configured, else as the keys say."""
    if (
        not isinstance(engine, str)
        or not engine.startswith("polylect")
        or wishes.get("provider")
        or wishes.get("script")
    ):
        return
    env = dict(os.environ)
    if config.provider_named(env, cwd):
        return
    found = next((provider for key, provider in _KEYS.items() if env.get(key)), "")
    if not found:
        keys = " or ".join(_KEYS)
        raise NoProvider(f"no model is configured: set {keys}, or give --provider; --provider scripted needs no key")
    wishes["provider"] = found
