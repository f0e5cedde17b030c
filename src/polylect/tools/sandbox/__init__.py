"""Confines commands and the tool worker: bubblewrap where it works, else Landlock, else nothing.

`sandbox.py` chooses and builds the command line, `policy.py` lists what is hidden and what is writable, `fence.py`
writes that list into a command line, `bwrap.py` and `landlock.py` apply it. The guardian imports `fence` and `landlock`
on a bare interpreter, so this file imports nothing by itself.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polylect.tools.sandbox.sandbox import Sandbox as Sandbox


def __getattr__(name: str) -> object:
    """`from polylect.tools.sandbox import Sandbox`, without loading it for whoever does not ask."""
    if name != "Sandbox":
        raise AttributeError(f"polylect.tools.sandbox has no {name!r}")
    from polylect.tools.sandbox.sandbox import Sandbox

    return Sandbox
