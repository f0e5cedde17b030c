"""Opens the provider that the settings name, and the fallbacks behind it.

A provider module is found by its name (`plug.py`). `assembly.py` calls this at the start, `available_models.py` when a
host changes to another model.
"""

from collections.abc import Mapping
from functools import partial

import msgspec

from polylect import plug
from polylect.app.startup.config import Values
from polylect.providers.settings import ProviderSettings
from polylect.vocab.ports import Provider

_EXTRA = ("script", "model", "models", "prices", "api", "ca_file", "prompt_caching", "web_search")


def open_provider(values: Values, env: Mapping[str, str]) -> Provider:
    """The provider that the settings name, with its fallbacks behind a circuit breaker if there are any."""
    primary = open_one(values, env)
    fallbacks = values.get("chain")
    if not isinstance(fallbacks, list) or not fallbacks:
        return primary
    from polylect.providers.circuit import Breaker, Chain, Fallback  # few have fallbacks

    breaker = Breaker(
        msgspec.convert(values.get("failure_threshold", 3), int),
        msgspec.convert(values.get("recovery_timeout", 30.0), float),
    )
    behind = [
        Fallback(f"{row['provider']}:{row['model']}", row["model"], partial(open_one, row, env)) for row in fallbacks
    ]
    return Chain(primary, behind, breaker)


def open_one(values: Values, env: Mapping[str, str]) -> Provider:
    """One provider, without fallbacks."""
    fields = {field: values[field] for field in ProviderSettings.__struct_fields__ if values.get(field) is not None}
    extra = {key: values[key] for key in _EXTRA if values.get(key) is not None}
    settings = msgspec.convert({**fields, "env": env, "extra": extra}, ProviderSettings)
    provider: Provider = plug.load("providers", str(values["provider"])).open_provider(settings)
    return provider


def keys(values: Values) -> list[str]:
    """The API keys from flags and files, for `secrets.conceal`."""
    fallbacks = values.get("chain")
    tables = [values, *(fallbacks if isinstance(fallbacks, list) else ())]
    return [str(table["api_key"]) for table in tables if table.get("api_key")]
