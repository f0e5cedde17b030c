"""Finds extensions in folders and in installed packages, and loads them.

An extension of a package is an entry point of the group `polylect.extensions`. Only `site-packages` and
`dist-packages` are searched: other folders of `sys.path` may belong to a project that nobody has checked. Called by
`extensions.py`, and at the start by `app/serving/assembly.py`, which must not pay for `importlib.metadata` (20 ms) when
there is no extension.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from polylect.system.plain_files import names_in

GROUP = "polylect.extensions"
Extend = Callable[..., Any]
Source = tuple[str, Callable[[], Extend]]
"""The name of an extension, and a function that loads it."""


def files_in(folder: str) -> list[str]:
    """The Python files of a folder, sorted by name, without those whose name begins with an underscore."""
    return [
        os.path.join(folder, name) for name in names_in(folder) if name.endswith(".py") and not name.startswith("_")
    ]


def from_file(path: str) -> Extend:
    """Run a file and return its function `extend`. Raises ImportError, and whatever the file raises."""
    from importlib.util import module_from_spec, spec_from_file_location  # 4 ms, and only where there is an extension

    name = os.path.basename(path).removesuffix(".py")
    spec = spec_from_file_location(f"polylect_extension_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    extend = getattr(module, "extend", None)
    if not callable(extend):
        raise ImportError("it has no function extend(polylect)")
    function: Extend = extend
    return function


def installed_extensions() -> list[Source]:
    """The extensions of installed packages."""
    from importlib.metadata import distributions  # 20 ms, and only where `has_installed` is true

    packages = distributions(path=_package_folders())
    points = (point for package in packages for point in package.entry_points)
    return [(point.value, point.load) for point in points if point.group == GROUP]


def has_installed() -> bool:
    """Whether an installed package has an extension. Takes 1 ms for sixty packages."""
    group = f"[{GROUP}]".encode()
    for folder in _package_folders():
        for name in os.listdir(folder):
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                        if group in file.read():
                            return True
                except OSError:
                    continue
    return False


def _package_folders() -> list[str]:
    """The folders of `sys.path` in which packages are installed."""
    folders = dict.fromkeys(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    return [path for path in folders if os.path.isdir(path)]
