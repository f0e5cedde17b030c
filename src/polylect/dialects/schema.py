"""JSON Schema of a dialect's frames, generated from its structs.

Tests write and compare the files in `schemas/` with it; at run time only `one_of` is used, by the `frames/` modules.
A schema lists the words in use today, while our readers accept any word, because newer peers add some.
"""

from typing import Any

import msgspec
from msgspec import Meta

from polylect.dialects.base import Dialect


def one_of(*words: str) -> Meta:
    """Annotates a string field: the schema lists these words as an enum, while decoding accepts any string."""
    return Meta(extra_json_schema={"enum": list(words)})


def schema(dialect: Dialect, version: str) -> dict[str, Any]:
    """The schema document of one version. `$defs/events` and `$defs/commands` each match any frame of a direction."""
    shapes = dialect.shapes[version]
    frames = [shape for direction in shapes.values() for shape in direction.values()]
    refs, parts = msgspec.json.schema_components(frames, ref_template="#/$defs/{name}")
    for part in parts.values():
        if "description" in part:  # a docstring, whose indentation is kept before Python 3.13 and not after
            part["description"] = " ".join(part["description"].split())
    by_shape = dict(zip(frames, refs, strict=True))
    directions = {name: {"anyOf": [by_shape[shape] for shape in frames.values()]} for name, frames in shapes.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{dialect.name} {version}",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in directions],
        "$defs": {**directions, **parts},
    }


def text(dialect: Dialect, version: str) -> str:
    """The schema as indented JSON text, as it stands in its file."""
    encoded = msgspec.json.encode(schema(dialect, version))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def file_name(dialect: Dialect, version: str) -> str:
    """The name of the schema's file in `schemas/`."""
    return f"{dialect.name}-{version}.json"
