"""OpenAI's own service, and everyone who speaks as it does.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

from polylect import plug
from polylect.providers.check import ProviderDescription

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylect.providers.openai.provider import OpenAI, base_url, open_provider

__all__ = ["PROVIDER", "OpenAI", "base_url", "open_provider"]


class Description(ProviderDescription):
    name = "openai"
    key_variables = ("OPENAI_API_KEY",)
    address_variables = ("OPENAI_BASE_URL",)
    credentials = (("OPENAI_API_KEY",),)
    default_model = "gpt-5.2"

    def lists(self, model: str) -> bool:
        return not model.startswith("claude")

    def may_serve(self, model: str) -> bool:
        return "anthropic." not in model and not model.startswith("claude")

    def is_elsewhere(self, base_url: str, env: "Mapping[str, str]") -> bool:
        """Only OpenAI itself is known to serve OpenAI's models: other servers have others."""
        return bool(base_url or env.get("OPENAI_BASE_URL"))

    def default_model_at(self, base_url: str, env: "Mapping[str, str]") -> str:
        return "" if self.is_elsewhere(base_url, env) else self.default_model


PROVIDER = Description()
__getattr__ = plug.lazy_names(__name__)
