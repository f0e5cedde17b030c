"""Anthropic's own service, and gateways that speak as it does.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

from polylect.providers.check import ProviderDescription, model_offer

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.providers.anthropic.provider import Anthropic, messages_url, open_provider

__all__ = ["PROVIDER", "Anthropic", "messages_url", "open_provider"]


class Description(ProviderDescription):
    name = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    address_variables = ("ANTHROPIC_BASE_URL",)
    credentials = (("ANTHROPIC_API_KEY",), ("ANTHROPIC_AUTH_TOKEN",))
    default_model = "claude-sonnet-5"
    api = "anthropic_messages"

    def lists(self, model: str) -> bool:
        return model.startswith("claude")

    def may_serve(self, model: str) -> bool:
        return "anthropic." not in model and (model.startswith("claude") or model_offer(model) is None)


PROVIDER = Description()


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from polylect.providers.anthropic import provider

    return getattr(provider, name)
