"""Headers from arguments: which annotations count, which make a tool unusable, and what is sent."""

from typing import Any

import msgspec
import pytest

from polylect.mcp.protocol.param_headers import header_paths, param_headers

REGION = {"type": "string", "x-mcp-header": "Region"}


def paths(**properties: Any) -> dict[tuple[str, ...], str]:
    return header_paths(msgspec.json.encode({"type": "object", "properties": properties}))


def test_annotations_are_found_through_properties_only() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "B-1"}}}
    assert paths(region=REGION, a=inner, c={"type": "string"}) == {("region",): "Region", ("a", "b"): "B-1"}
    assert header_paths(b"{}") == {}
    assert header_paths(b'{"x-mcp-header"') == {}


def test_what_is_data_is_no_annotation() -> None:
    data = {"x-mcp-header": 5}
    assert paths(a={"type": "object", "default": data, "const": data, "enum": [data], "examples": [data]}) == {}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"type": ["string"], "x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"type": "string", "x-mcp-header": ""}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "é"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": 5}}, "is not the name of a header"),
        ({"a": REGION, "b": {"type": "string", "x-mcp-header": "REGION"}}, "twice"),
        ({"a": {"type": "array", "items": REGION}}, "at a place that no argument has"),
        ({"a": {"anyOf": [REGION]}}, "at a place that no argument has"),
        ({"a": {"if": REGION}}, "at a place that no argument has"),
        ({"a": {"$defs": {"b": REGION}}}, "at a place that no argument has"),
        ({"a": {"items": {"properties": {"b": REGION}}}}, "at a place that no argument has"),
    ],
)
def test_a_wrong_annotation_makes_the_tool_unusable(properties: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        paths(**properties)


def test_an_annotation_of_the_whole_is_wrong() -> None:
    with pytest.raises(ValueError, match="no argument has"):
        header_paths(b'{"type":"string","x-mcp-header":"A"}')


def test_arguments_become_headers_where_they_are_there() -> None:
    names = {("a",): "A", ("b", "c"): "C"}
    assert param_headers(names, {"a": "x y", "b": {"c": True}}) == {"mcp-param-a": "x y", "mcp-param-c": "true"}
    assert param_headers(names, {"a": -7, "b": {"c": False}}) == {"mcp-param-a": "-7", "mcp-param-c": "false"}
    assert param_headers(names, {"a": None, "b": 5}) == {}
    assert param_headers(names, {"a": 2**53, "b": {"c": [1]}}) == {}
    assert param_headers(names, {"b": {"c": 1.5}}) == {}
