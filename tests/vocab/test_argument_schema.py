"""Arguments against a tool's JSON Schema: what is wrong is named, what fits passes, and neither takes long."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from machine import cpu
from polylect.vocab.argument_schema import schema_error


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NUMBER = {**of(number={"type": "integer"}), "required": ["number"]}
DEEP = {
    **of(rows={"type": "array", "items": {"$ref": "#/$defs/row"}}),
    "$defs": {"row": {**of(id={"type": "integer", "minimum": 1}), "required": ["id"]}},
}
EITHER = of(when={"anyOf": [{"type": "integer"}, {"type": "null"}, {"type": "array", "maxItems": 1}]})


@pytest.mark.parametrize(
    ("schema", "args", "fault"),
    [
        (NUMBER, {"number": "seven"}, "Wrong parameter: number: expected integer, got a string"),
        (NUMBER, {"number": 7.5}, "Wrong parameter: number: expected integer, got a number"),
        (NUMBER, {"number": True}, "Wrong parameter: number: expected integer, got a boolean"),
        (NUMBER, {"number": None}, "Wrong parameter: number: expected integer, got null"),
        (NUMBER, {}, "Missing required parameter: number"),
        (of(a={"type": ["string", "null"]}), {"a": 3}, "Wrong parameter: a: expected string or null, got a number"),
        ({**of(a={}), "additionalProperties": False}, {"b": 1}, "Unknown parameter: b. Known ones: a"),
        (
            {**of(), "additionalProperties": {"type": "string"}},
            {"b": 1},
            "Wrong parameter: b: expected string, got a number",
        ),
        (of(unit={"enum": ["C", "F"]}), {"unit": "K"}, "Wrong parameter: unit: expected 'C', 'F', got 'K'"),
        (of(on={"const": 1}), {"on": True}, "Wrong parameter: on: expected 1, got True"),
        (DEEP, {"rows": [{"id": 1}, {}]}, "Missing required parameter: rows[1].id"),
        (DEEP, {"rows": [{"id": 0}]}, "Wrong parameter: rows[0].id: expected at least 1, got 0"),
        (of(a={"exclusiveMaximum": 3}), {"a": 3}, "Wrong parameter: a: expected less than 3, got 3"),
        (of(a={"minLength": 2}), {"a": "x"}, "Wrong parameter: a: expected a length of at least 2, got 1"),
        (of(a={"allOf": [{}, {"type": "string"}]}), {"a": 1}, "Wrong parameter: a: expected string, got a number"),
        (
            EITHER,
            {"when": [1, 2]},
            "Wrong parameter: when: expected integer, got an array; or Wrong parameter: when: expected null, "
            "got an array; or Wrong parameter: when: expected a number of items of at most 1, got 2",
        ),
        (of(a=False), {"a": 1}, "Unknown parameter: a"),
    ],
)
def test_what_is_wrong_is_named(schema: dict[str, Any], args: dict[str, Any], fault: str) -> None:
    assert schema_error(args, schema) == fault


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        (NUMBER, {"number": 7.0, "other": []}),
        (of(number={"type": "integer"}), {"number": None}),
        (EITHER, {"when": None}),
        (EITHER, {"when": [1]}),
        (DEEP, {"rows": [{"id": 3}]}),
        (of(a={"$ref": "https://example.org/schema.json"}), {"a": 1}),
        (of(a={"$ref": "#/nowhere/at/all"}), {"a": 1}),
        (of(a={"pattern": "^x$", "format": "date", "not": {}}), {"a": "y"}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"xa": 1}),
        ({"type": "object", "properties": [], "required": 5, "anyOf": "x", "enum": {}}, {"a": 1}),
        (of(a={"type": "int"}), {"a": "x"}),
        (of(a={"type": ["string", 4]}), {"a": 1}),
    ],
)
def test_what_fits_and_what_is_not_known_passes(schema: dict[str, Any], args: dict[str, Any]) -> None:
    assert schema_error(args, schema) == ""


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, {"allOf": [schema, schema]}]}
    return schema


LONG = "x" * 1_000_000
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "a loop of references": ({"$ref": "#"}, 1),
    "a loop with branches": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "string"}, 1),
    "branches of branches": (_nested(30), 1),
    "a pattern that backtracks": ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
    "a pattern in names": ({"patternProperties": {"^(a+)+$": False}}, {"a" * 40 + "!": 1}),
    "a long array": ({"items": {"anyOf": [{"type": "null"}] * 1000}}, [1] * 200_000),
    "branches over a long array": ({"anyOf": [{"items": {"type": "null"}}] * 100_000}, [1] * 1_000_000),
    "long names": ({"required": [LONG], "additionalProperties": {"type": "null"}}, {LONG + "y": LONG}),
    "long choices": ({"anyOf": [{"enum": [LONG]}] * 20_000}, LONG + "y"),
    "many choices": ({"anyOf": [{"enum": list(range(10_000))}] * 20_000}, -1),
    "a long reference": ({"anyOf": [{"$ref": "#" + "/x" * 500_000}] * 10_000}, 1),
    "many types": ({"anyOf": [{"type": ["string"] * 1_000_000}] * 10_000}, 1),
    "a huge number": ({"maximum": 1}, 10**10_000),
    "deep arguments": ({"items": {"$ref": "#/properties/a"}}, json.loads("[" * 90 + "]" * 90)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_or_argument_takes_no_time(name: str) -> None:
    schema, value = HOSTILE[name]
    began = time.process_time()
    schema_error({"a": value}, of(a=schema))
    schema_error({"a": value}, {**schema, "properties": {"a": schema}})
    took = time.process_time() - began
    assert took < 0.25 or took < cpu(0.25)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "bc"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
_TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": _TYPES | st.lists(_TYPES, min_size=1, max_size=2, unique=True),
            "enum": st.lists(_VALUES, min_size=1, max_size=2),
            "const": _VALUES,
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "maxLength": st.integers(0, 3),
            "minItems": st.integers(0, 3),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": st.sampled_from(["#/properties/a", "#/items", "elsewhere.json"]),
        },
    ),
    max_leaves=4,
)


@given(_SCHEMAS, _VALUES)
def test_what_fits_by_jsonschema_is_never_refused(schema: dict[str, Any], value: Any) -> None:
    whole = {"properties": {"a": schema}}
    try:
        fits = Draft202012Validator(whole).is_valid({"a": value})
    except Exception:  # noqa: BLE001  (references that lead nowhere, or round and round)
        return
    if fits:
        assert schema_error({"a": value}, whole) == ""
