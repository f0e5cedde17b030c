"""Holds lines of the native wire against its schema, which is all that an author of a host has."""

from collections.abc import Iterable
from typing import Any

from jsonschema import Draft202012Validator
from schemas import generate

from polylect.dialects.native.dialect import DIALECT

SCHEMA = generate.schema(DIALECT, "1")


def valid(direction: str, lines: Iterable[dict[str, Any]]) -> None:
    """Every line is one of the frames of its type, by the schema, and has no key that the schema does not name."""
    frames = {}
    for option in SCHEMA["$defs"][direction]["anyOf"]:
        part = SCHEMA["$defs"][option["$ref"].rpartition("/")[2]]
        frames[part["properties"]["type"]["enum"][0]] = part | {"unevaluatedProperties": False}
    for line in lines:
        _check(frames[line["type"]], line)
        for value, name in (("data", line.get("data_type")), ("value", line.get("value_type"))):
            if name is not None:
                _check(_value_schema(name), line[value])


def _value_schema(name: str) -> dict[str, Any]:
    """What `data_type` and `value_type` mean, as docs/native.md says."""
    element = SCHEMA["$defs"]["values"]["properties"][name.removesuffix("[]")] if name != "[]" else {}
    return {"type": "array", "items": element} if name.endswith("[]") else element


def _check(part: dict[str, Any], value: object) -> None:
    validator = Draft202012Validator({**part, "$defs": SCHEMA["$defs"]})
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not errors, errors
