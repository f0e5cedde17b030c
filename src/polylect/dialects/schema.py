"""What the `frames/` modules of all dialects share: the words of a field, and tables of the frames of a module.

A schema lists the words in use today, while our readers accept any word, because newer peers add some. The files in
`schemas/` are made of these tables by `schemas/generate.py`.
"""

from types import ModuleType
from typing import TypeVar

from msgspec import Meta, Struct

Shape = TypeVar("Shape", bound=Struct)


def one_of(*words: str) -> Meta:
    """Annotates a string field: the schema lists these words as an enum, while decoding accepts any string."""
    return Meta(extra_json_schema={"enum": list(words)})


def defined_in(module: ModuleType, base: type[Shape]) -> list[type[Shape]]:
    """The structs that a module itself defines as subclasses of `base`, in their order."""
    shapes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, base)]
    return [shape for shape in shapes if shape.__module__ == module.__name__ and shape is not base]


def by_name(*shapes: type[Shape]) -> dict[str, type[Shape]]:
    """The frames by the names that they have on the wire."""
    return {str(shape.__struct_config__.tag): shape for shape in shapes}
