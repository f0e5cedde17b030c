"""Modules that others import and we may never use are loaded at their first use: 15 ms and 6 MiB of a start.

The lazy loader of importlib cannot do this: there, the second import of a module loads it.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from types import ModuleType

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from typing import Any

LATER = frozenset(
    {"ssl", "asyncio.sslproto", "asyncio.staggered", "inspect", "linecache", "textwrap"}
    | {"locale", "platform", "base64", "copy", "msgspec.inspect", "msgspec.toml", "msgspec.yaml", "httptools"}
)
_ANSWERS: dict[tuple[str, str, str], object] = {
    ("uuid", "platform", "system"): lambda: os.uname().sysname,
    ("asyncio.base_events", "ssl", "SSLSocket"): type("NoSocket", (), {}),  # while ssl is not loaded, none is one
}
"""Who asks which module for what, and can be told without loading it."""
_NEEDS = {"ssl": "_ssl"}
"""A Python may be built without these; then the import has to fail as it always does."""
HIDDEN = frozenset({"typing_extensions"})
"""msgspec prefers it to typing if it is installed; it loads inspect, and from 3.11 on typing has what we need."""
_lock = RLock()  # one for all, so that they cannot be taken in two orders


class LazyImports:
    """While entered, importing one of LATER costs next to nothing, and those in HIDDEN are not found."""

    def __enter__(self) -> None:
        self._finder = _Finder()
        sys.meta_path.insert(0, self._finder)

    def __exit__(self, *exc: object) -> None:
        sys.meta_path.remove(self._finder)


class _Loading(ModuleType):
    """A module that is being loaded: whoever else wants something of it waits."""

    def __getattribute__(self, name: str) -> Any:
        with _lock:
            return ModuleType.__getattribute__(self, name)


class _Later(ModuleType):
    """A module nobody has used."""

    def __getattribute__(self, name: str) -> Any:
        spec = ModuleType.__getattribute__(self, "__spec__")
        if name == "__spec__":  # every import statement looks at it
            return spec
        asker = sys._getframe(1).f_globals.get("__name__", "")
        if answer := _ANSWERS.get((asker, spec.name, name)):
            return answer
        with _lock:
            if type(self) is _Later:
                _load(self)
        return getattr(self, name)


def _load(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    module.__class__ = _Loading
    try:
        spec.loader.exec_module(module)
    except BaseException:
        module.__class__ = _Later
        raise
    module.__class__ = ModuleType


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in LATER or (name in _NEEDS and not self._find(_NEEDS[name], None)):
            return None
        spec = self._find(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Deferred(spec.loader)  # type: ignore[assignment]  # a loader by its methods
        return spec

    def _find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        others = (finder.find_spec(name, path) for finder in sys.meta_path if finder is not self)
        return next((spec for spec in others if spec is not None), None)


class _Deferred:
    """Loads nothing, and leaves the module as one that can."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        module.__class__ = _Later
