"""Where extensions are, and how one is loaded."""

import os
import sys
from collections.abc import Callable
from typing import Any

GROUP = "polylect.extensions"
Extend = Callable[..., Any]


def files_in(folder: str) -> list[str]:
    """The extensions of a folder by name. What begins with an underscore belongs to another."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(".py") and not name.startswith("_")]


def from_file(path: str) -> Extend:
    """Run a file and give its `extend`. Whatever the file raises is raised."""
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
    found: Extend = extend
    return found


def installed() -> list[tuple[str, Callable[[], Extend]]]:
    """Those of installed packages."""
    from importlib.metadata import distributions  # 20 ms, and only where `offered` has seen one

    points = [point for found in distributions(path=_places()) for point in found.entry_points if point.group == GROUP]
    return [(point.value, point.load) for point in points]


def offered() -> bool:
    """Does any installed package have one? A look into their folders: 1 ms for sixty of them."""
    group = f"[{GROUP}]".encode()
    for folder in _places():
        for name in os.listdir(folder):
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                        if group in file.read():
                            return True
                except OSError:
                    continue
    return False


def _places() -> list[str]:
    """Where packages are installed. Other folders of the path may be a project's, which nobody has vouched for."""
    found = dict.fromkeys(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    return [path for path in found if os.path.isdir(path)]
