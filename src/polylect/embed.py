"""An engine inside your own Python program: `open_engine` and what belongs to it; docs/embedding.md shows how.

async with open_engine("anthropic", model="claude-sonnet-4-5", api_key="...") as agent:
    print((await agent.ask("What is in this folder?")).text)

The names are those of `polylect.app.embed`, imported when the first of them is used: importing this module costs
nothing.
"""

import sys

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.app.embed import ENV, Wire, open_engine, run_engine

__all__ = ["ENV", "Wire", "open_engine", "run_engine"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"polylect.embed has no {name!r}")
    __import__("polylect.app.embed")
    return getattr(sys.modules["polylect.app.embed"], name)


def __dir__() -> list[str]:
    return __all__
