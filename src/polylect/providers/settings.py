"""The settings that a provider is opened with.

`app/serving/open_provider.py` fills it from flags, settings and the environment; each provider takes from it what it
needs. Nothing else of the configuration reaches a provider.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from polylect.providers.check import first_set, label_fault
from polylect.vocab.errors import ProviderError


class ProviderSettings(Struct, frozen=True):
    """What flags, environment and configuration say. Empty means: not said. `env` is the process environment."""

    api_key: str = ""
    base_url: str = ""
    region: str = ""
    project: str = ""
    profile: str = ""
    stream_timeout: float = 300.0
    max_retries: int = 4
    env: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        """Without the key and the environment: settings end up in logs."""
        return f"ProviderSettings(base_url={self.base_url!r}, region={self.region!r}, project={self.project!r})"

    def find(self, *names: str) -> str:
        """The first of these environment variables that is set to something."""
        return first_set(self.env, names)


def host_label(provider: str, name: str, value: str) -> str:
    """A setting that becomes part of an address, such as a region. Raises ProviderError if it cannot be one."""
    if fault := label_fault(provider, name, value):
        raise ProviderError("bad_request", fault)
    return value
