"""Finds dialects, providers and tools by the names of their modules, so that adding one is adding a file.

`names` lists what a package holds without importing any of it, and `load` imports one of them. Both look at the
package's `__path__`, as the import system does. This is used before `ready`, so it does without importlib.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def load(shelf: str, name: str) -> "ModuleType":
    """Import `polylect.<shelf>.<name>`. Raises LookupError if there is no such module."""
    full = f"polylect.{shelf}.{name}"
    if not name.isidentifier():
        raise LookupError(f"polylect.{shelf} has no {name!r}")
    try:
        __import__(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise LookupError(f"polylect.{shelf} has no {name!r}") from None
    return sys.modules[full]


def lazy_names(package: str) -> "Callable[[str], object]":
    """A `__getattr__` for a package whose names are in its module `provider`: imported when one is asked for."""

    def find(name: str) -> object:
        if name not in sys.modules[package].__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(f"{package}.provider")
        return getattr(sys.modules[f"{package}.provider"], name)

    return find


def names(shelf: str, first: tuple[str, ...] = (), *, packages: bool = False) -> tuple[str, ...]:
    """The modules and packages of `polylect.<shelf>`, or only its packages: `first` in this order, then by name."""
    shelf = f"polylect.{shelf}"
    __import__(shelf)
    known: set[str] = set()
    for folder in sys.modules[shelf].__path__:
        for entry in os.listdir(folder):
            name, dot, ending = entry.partition(".")
            if ending == "py" if dot else os.path.exists(os.path.join(folder, name, "__init__.py")):
                known.add("" if packages and dot else name)
    known -= {"", "__init__"}
    return (*(name for name in first if name in known), *sorted(known.difference(first)))


def dialects() -> tuple[str, ...]:
    """The names of all dialects, as messages list them."""
    return names("dialects", ("native", "jsonstream", "omp", "claude", "acp"), packages=True)
