"""Writes the schemas beside this file: `python schemas/generate.py`. A test fails when they are out of date."""

from pathlib import Path
from typing import Any

import msgspec

from polylect import plug
from polylect.dialects.base import Dialect

DIALECTS = plug.dialects()


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
    """The name of the schema's file."""
    return f"{dialect.name}-{version}.json"


if __name__ == "__main__":
    for name in DIALECTS:
        dialect = plug.load("dialects", name).DIALECT
        for version in dialect.shapes:
            target = Path(__file__).with_name(file_name(dialect, version))
            target.write_text(text(dialect, version), encoding="utf-8")
