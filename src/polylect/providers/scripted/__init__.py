"""The scripted provider: a model that plays a script, with no key and no network.

`parse` reads a script, `script_match` decides which reply comes next and `playback` plays one reply. docs/scripted.md
describes the format.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

from polylect import plug
from polylect.providers.check import ProviderDescription

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.providers.check import Offer
    from polylect.providers.scripted.provider import Scripted, open_provider

__all__ = ["PROVIDER", "Scripted", "open_provider"]


class Description(ProviderDescription):
    name = "scripted"
    needs_model = False
    api = "scripted"

    def offer(self, model: str, *, script: str, own: object, prices: object) -> "Offer | None":
        if not script:
            return True, (), True
        from polylect.providers.scripted.parse import read_script  # 40 ms, and only for a script of one's own

        head = read_script(script).head
        return head.model.thinking, head.model.effort_levels, head.price is not None


PROVIDER = Description()
__getattr__ = plug.lazy_names(__name__)
