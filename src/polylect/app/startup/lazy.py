"""Modules that others import and we may never use are loaded at their first use: 15 ms and 6 MiB of a start.

The lazy loader of importlib cannot do this: there, the second import of a module loads it. `app/startup/start.py` and
`app/main.py` enter `LazyImports` around the imports of a start; docs/performance.md says how to turn it off, and which
Python will do without it.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from types import ModuleType

from polylect.app.startup import PLAIN_IMPORTS

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from typing import Any

LAZY_MODULES = frozenset(
    {"ssl", "asyncio.sslproto", "asyncio.staggered", "inspect", "linecache", "textwrap"}
    | {"locale", "platform", "base64", "copy", "msgspec.inspect", "msgspec.toml", "msgspec.yaml", "httptools"}
    | {"polylect.engine.commands.queries", "polylect.engine.context.attachments"}  # imported as modules, for this
)
_REQUIRED = {"ssl": "_ssl"}
"""A Python may be built without these; then the import has to fail as it always does."""
HIDDEN_MODULES = frozenset({"typing_extensions"})
"""msgspec prefers it to typing if it is installed; it loads inspect, and from 3.11 on typing has what we need."""
_lock = RLock()  # one for all, so that they cannot be taken in two orders


class LazyImports:
    """While entered, modules in LAZY_MODULES are not loaded when imported; HIDDEN_MODULES are not found."""

    def __enter__(self) -> None:
        self._finder = _Finder()
        if not PLAIN_IMPORTS:
            sys.meta_path.insert(0, self._finder)

    def __exit__(self, *exc: object) -> None:
        if not PLAIN_IMPORTS:
            sys.meta_path.remove(self._finder)


class _LoadingModule(ModuleType):
    """A module that is being loaded: other threads that use it wait."""

    def __getattribute__(self, name: str) -> Any:
        with _lock:
            return ModuleType.__getattribute__(self, name)


class _LazyModule(ModuleType):
    """A module that is loaded when one of its attributes is first used."""

    def __getattribute__(self, name: str) -> Any:
        spec = ModuleType.__getattribute__(self, "__spec__")
        if name == "__spec__":  # every import statement looks at it
            return spec
        if spec.name == "ssl" and name == "SSLSocket":  # asyncio asks at each connection whether the socket is one
            return _SSLSocket(self)
        if spec.name == "platform" and name == "system":  # uuid asks when it is imported
            return _system
        return getattr(_loaded(self), name)


def _system() -> str:
    """As `platform.system`, which needs nothing else of its module where there is a uname."""
    return os.uname().sysname


class _SSLSocket:
    """Stands for `ssl.SSLSocket` while ssl is not loaded: no socket is one yet. Any other use of the class loads it."""

    def __init__(self, ssl: ModuleType) -> None:
        self._ssl = ssl

    def __instancecheck__(self, value: object) -> bool:
        return type(self._ssl) is not _LazyModule and isinstance(value, self._ssl.SSLSocket)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (_loaded(self._ssl).SSLSocket,)

    def __getattr__(self, name: str) -> Any:
        return getattr(_loaded(self._ssl).SSLSocket, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _loaded(self._ssl).SSLSocket(*args, **options)


def _loaded(module: ModuleType) -> ModuleType:
    """The module, loaded by this call if nothing has used it before."""
    with _lock:
        if type(module) is _LazyModule:
            _load(module)
    return module


def _load(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    module.__class__ = _LoadingModule
    try:
        spec.loader.exec_module(module)
    except BaseException:
        module.__class__ = _LazyModule
        raise
    module.__class__ = ModuleType


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in HIDDEN_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in LAZY_MODULES or (name in _REQUIRED and not self._find(_REQUIRED[name], None)):
            return None
        spec = self._find(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)  # type: ignore[assignment]  # a loader by its methods
        return spec

    def _find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """As Python does it, by the other finders; one from before `find_spec` is skipped."""
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        return next((spec for finder in finders if (spec := finder.find_spec(name, path)) is not None), None)


class _LazyLoader:
    """Loads nothing at the import, and makes the module a `_LazyModule`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        module.__class__ = _LazyModule
