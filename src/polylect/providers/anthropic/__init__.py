"""Anthropic's own service, and gateways that speak as it does.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

from polylect import plug
from polylect.providers.check import ClaudeDescription

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.providers.anthropic.provider import Anthropic, messages_url, open_provider

__all__ = ["PROVIDER", "Anthropic", "messages_url", "open_provider"]


class Description(ClaudeDescription):
    name = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    address_variables = ("ANTHROPIC_BASE_URL",)
    credentials = (("ANTHROPIC_API_KEY",), ("ANTHROPIC_AUTH_TOKEN",))
    default_model = "claude-sonnet-5"


PROVIDER = Description()
__getattr__ = plug.lazy_names(__name__)
