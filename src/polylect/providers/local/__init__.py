"""A model in a file, run inside this process.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

import os

from polylect.providers.check import ProviderDescription

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.providers.check import Offer
    from polylect.providers.local.provider import Local, open_provider

__all__ = ["PROVIDER", "Local", "open_provider"]


class Description(ProviderDescription):
    name = "local"
    needs_model = False
    api = "local"

    def unusable_model(self, model: str) -> str | None:
        from polylect.providers.local import gguf

        return gguf.missing(model)

    def usual_model(self) -> str:
        from polylect.providers.local import gguf

        return os.path.basename(gguf.find(""))

    def offer(self, model: str, *, script: str, own: object, prices: object) -> "Offer | None":
        return False, (), False


PROVIDER = Description()


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from polylect.providers.local import provider

    return getattr(provider, name)
