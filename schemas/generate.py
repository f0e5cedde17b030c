"""Writes the schemas and the TypeScript types beside this file: `python -m schemas.generate`, in the root of the tree.

A test fails when they are out of date. The schemas are made of the structs of each dialect, the types of the schemas.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from schemas.typescript import declarations

from polylect import plug
from polylect.dialects.base import Dialect
from polylect.dialects.native.frames import Envelope, Head
from polylect.vocab.events import Ready
from polylect.vocab.json_form import ANY_TYPE, EVENTS, VALUES

Schema = dict[str, Any]

TYPESCRIPT = {
    ("native", "1"): "native.d.ts",
    ("jsonstream", "0.2.0"): "jsonstream.d.ts",
    ("jsonstream", "0.1.0"): "jsonstream-0.1.0.d.ts",
}
"""The wires that have types for TypeScript, by dialect and version, and the files."""
_VALUES = (
    "The values that `data_type` and `value_type` name. `state` is one value of the property `state`, `model_card[]` a "
    "list of values of the property `model_card`, and `[]` a list of plain JSON."
)


def schema(dialect: Dialect, version: str) -> Schema:
    """The schema document of one version. `$defs/events` and `$defs/commands` each match any frame of a direction."""
    shapes = dialect.shapes[version]
    frames = [shape for direction in shapes.values() for shape in direction.values()]
    values = list(VALUES.values()) if dialect.name == "native" else []
    refs, parts = msgspec.json.schema_components([*frames, *values], ref_template="#/$defs/{name}")
    by_shape = dict(zip([*frames, *values], refs, strict=True))
    for part in parts.values():
        _describe(part, part.get("description", ""))
    for shape, ref in by_shape.items():
        for base in shape.__mro__[1:-2]:  # without Struct and object
            _describe_fields(parts[_name(ref)], _fields(base.__doc__ or ""))
    if dialect.name == "native":
        _complete_native({kind: parts[_name(by_shape[kind])] for kind in EVENTS.values()}, parts)
        parts["values"] = {
            "description": _VALUES,
            "type": "object",
            "properties": {name: by_shape[kind] for name, kind in VALUES.items()},
        }
    directions = {name: {"anyOf": [by_shape[shape] for shape in frames.values()]} for name, frames in shapes.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{dialect.name} {version}",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in directions],
        "$defs": {**directions, **parts},
    }


def _name(ref: Schema) -> str:
    return str(ref["$ref"]).rpartition("/")[2]


# Docstrings to descriptions.


def _describe(part: Schema, docstring: str) -> None:
    """The beginning of a docstring describes the whole, its `Attributes:` describe the fields."""
    summary, *_ = re.split(r"^(?:Attributes|Raises):$", inspect.cleandoc(docstring), flags=re.MULTILINE)
    if docstring:
        part["description"] = _plain(summary)
    _describe_fields(part, _fields(docstring))


def _describe_fields(part: Schema, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if name in part.get("properties", {}):
            field = part["properties"][name]
            field.setdefault("description", text)


def _fields(docstring: str) -> dict[str, str]:
    _, _, section = inspect.cleandoc(docstring).partition("Attributes:\n")
    section, *_ = re.split(r"^\S", section, flags=re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE)
    return {name: _plain(text) for name, text in entries}


def _plain(text: str) -> str:
    """On one line, in words of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


# What only the native wire has: keys beside the event, and values whose types are named in the line.


def _complete_native(events: dict[type[Struct], Schema], parts: dict[str, Schema]) -> None:
    for part in parts.values():
        part.get("properties", {}).pop("unknown_fields", None)
    for kind, part in events.items():
        _add_fields(part, Head if kind is Ready else Envelope)
    for kind, (field, key) in ANY_TYPE.items():
        fields = events[kind]["properties"]
        what = f"The type of `{field}`, where that is more than plain JSON: see `$defs/values`."
        fields[key] = {"type": "string", "pattern": r"^[a-z_]*(\[\])?$", "description": what}
        fields[field]["x-type-named-by"] = key


def _add_fields(part: Schema, envelope: type[Struct]) -> None:
    added = msgspec.json.schema_components([envelope])[1][envelope.__name__]
    for base in envelope.__mro__[:-2]:
        _describe_fields(added, _fields(base.__doc__ or ""))
    part["properties"] |= added["properties"]
    part["required"] = [*part.get("required", []), *added["required"]]


# Files.


def text(dialect: Dialect, version: str) -> str:
    """The schema as indented JSON text, as it stands in its file."""
    encoded = msgspec.json.encode(schema(dialect, version))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def file_name(dialect: Dialect, version: str) -> str:
    """The name of the schema's file."""
    return f"{dialect.name}-{version}.json"


def files() -> dict[str, str]:
    """The text of every file that is generated, by its name."""
    made = {}
    for name in plug.dialects():
        dialect = plug.load("dialects", name).DIALECT
        for version in dialect.shapes:
            made[file_name(dialect, version)] = text(dialect, version)
            if target := TYPESCRIPT.get((name, version)):
                made[target] = declarations(schema(dialect, version), file_name(dialect, version))
    return made


if __name__ == "__main__":
    for name, content in files().items():
        Path(__file__).with_name(name).write_text(content, encoding="utf-8")
