"""JSON Schema of a dialect's frames, made from its shapes."""

from typing import Any

import msgspec
from msgspec import Meta

from polylect.dialects.base import Dialect


def one_of(*words: str) -> Meta:
    """The words of today: a schema lists them, a reader takes any."""
    return Meta(extra_json_schema={"enum": list(words)})


def schema(dialect: Dialect, version: str) -> dict[str, Any]:
    """One document. Each direction is a definition of its own (`$defs/events`, `$defs/commands`): any frame of it."""
    shapes = dialect.shapes[version]
    frames = [shape for direction in shapes.values() for shape in direction.values()]
    refs, parts = msgspec.json.schema_components(frames, ref_template="#/$defs/{name}")
    for part in parts.values():
        if "description" in part:  # a docstring, whose indentation is kept before Python 3.13 and not after
            part["description"] = " ".join(part["description"].split())
    by_shape = dict(zip(frames, refs, strict=True))
    directions = {name: {"anyOf": [by_shape[shape] for shape in found.values()]} for name, found in shapes.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{dialect.name} {version}",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in directions],
        "$defs": {**directions, **parts},
    }


def text(dialect: Dialect, version: str) -> str:
    """The schema as it is kept in a file."""
    encoded = msgspec.json.encode(schema(dialect, version))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def file_name(dialect: Dialect, version: str) -> str:
    return f"{dialect.name}-{version}.json"
