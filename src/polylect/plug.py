"""Finds a dialect, a provider or a tool by the name of its module."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def load(shelf: str, name: str) -> ModuleType:
    """Import `polylect.<shelf>.<name>`. Raises LookupError if there is no such module."""
    if not name.isidentifier() or find_spec(f"polylect.{shelf}.{name}") is None:
        raise LookupError(f"polylect.{shelf} has no {name!r}")
    return import_module(f"polylect.{shelf}.{name}")
