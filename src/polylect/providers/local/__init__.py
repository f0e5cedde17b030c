"""A model in a file, run inside this process.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

import os

from polylect import plug
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
__getattr__ = plug.lazy_names(__name__)
