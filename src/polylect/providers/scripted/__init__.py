"""The scripted provider: a model that plays a script, with no key and no network.

`provider` is the provider, `parse` reads a script, `script_match` decides which reply comes next and `playback`
plays one reply. docs/scripted.md describes the format.
"""

from polylect.providers.scripted.provider import Scripted, open_provider

__all__ = ["Scripted", "open_provider"]
