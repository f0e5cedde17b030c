"""Headers that repeat arguments of a call: `x-mcp-header` in a tool's schema, from revision 2026-07-28 on. Pure.

    {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}     the schema of a tool
    {"region": "eu"}                                                             the arguments of a call
    Mcp-Param-Region: eu                                                         goes with the request

Gateways route by these headers, and servers refuse calls without them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_KEY = "x-mcp-header"
_TYPES = ("string", "integer", "boolean")
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_LARGEST = 2**53 - 1
"""Larger integers have no exact value in JavaScript, and no header."""
_ONE_SCHEMA = frozenset(
    (
        *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_SEVERAL_SCHEMAS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_NAMED_SCHEMAS = frozenset(["$defs", "definitions", "dependentSchemas", "patternProperties"])
"""Keywords of JSON Schema below which there are schemas. What is below others is data, and may have any names."""

Path = tuple[str, ...]
"""The names of the properties that lead to an argument."""


def header_paths(schema: bytes) -> dict[Path, str]:
    """By argument, the name that follows `Mcp-Param-`. Raises ValueError with a reason if an annotation is wrong.

    A tool with a wrong one must not be used.
    """
    if _KEY.encode() not in schema:
        return {}
    try:
        root = msgspec.json.decode(schema)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    paths: dict[Path, str] = {}
    names: set[str] = set()
    for path, fields in _schemas(root):
        if _KEY not in fields:
            continue
        name = fields[_KEY]
        if not path:
            raise ValueError(f"{_KEY} is at a place that no argument has")
        if not isinstance(name, str) or not name or not _TOKEN.issuperset(name):
            raise ValueError(f"{_KEY} of {'.'.join(path)} is not the name of a header")
        if fields.get("type") not in _TYPES:
            raise ValueError(f"{_KEY} of {'.'.join(path)}, which is not a string, an integer or a boolean")
        if name.lower() in names:
            raise ValueError(f"{_KEY} has the name {name} twice")
        names.add(name.lower())
        paths[path] = name
    return paths


def param_headers(paths: Mapping[Path, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a call, by their names in small letters. What the call leaves out has none."""
    headers = {}
    for path, name in paths.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        match value:
            case bool():
                headers[f"mcp-param-{name.lower()}"] = "true" if value else "false"
            case str():
                headers[f"mcp-param-{name.lower()}"] = value
            case int() if abs(value) <= _LARGEST:
                headers[f"mcp-param-{name.lower()}"] = str(value)
    return headers


def _schemas(root: object) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema inside a schema. Its path is None if it is reached by anything but `properties`."""
    waiting: list[tuple[Path | None, object]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), inner) for name, inner in value.items()]
            elif keyword in _ONE_SCHEMA:
                waiting.append((None, value))
            elif keyword in _SEVERAL_SCHEMAS and isinstance(value, list):
                waiting += [(None, inner) for inner in value]
            elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                waiting += [(None, inner) for inner in value.values()]
