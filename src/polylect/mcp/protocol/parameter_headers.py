"""Arguments of a call that a server wants to see in headers of HTTP too (2026-07-28). Pure.

Marks in the schema of a tool say which:

    {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}    the schema of a tool
    {"region": "us-west1"}                                                      the arguments of a call
    Mcp-Param-Region: us-west1                                                  the header

A tool whose marks are wrong must not be used. `mcp/connection.py` calls both functions; the transport encodes the
values.
"""

import re
from collections.abc import Mapping
from typing import Any

from polylect.mcp.protocol.lenient import Malformed, decode_any

MARK = "x-mcp-header"
Paths = dict[str, tuple[str, ...]]
"""For each header, the names that lead from the arguments to its value."""
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_TYPES = ("string", "integer", "boolean")
_LARGEST = 2**53 - 1
_VALUES = ("default", "const", "enum", "examples")
"""Keywords whose value is no schema."""
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value has schemas by name."""


def marked_parameters(schema: bytes) -> Paths:
    """The headers that the schema of a tool asks for. Raises Malformed if a mark is wrong or at a wrong place."""
    if MARK.encode() not in schema:
        return {}
    paths: Paths = {}
    try:
        _collect(decode_any(schema), (), paths)
    except RecursionError:
        raise Malformed("its schema is too deep") from None
    return {f"mcp-param-{name}": path for name, path in paths.items()}


def parameter_headers(paths: Paths, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a call. Arguments that are missing or null have none."""
    values = {name: _text(_value(path, arguments)) for name, path in paths.items()}
    return {name: value for name, value in values.items() if value is not None}


def _collect(schema: Any, path: tuple[str, ...] | None, paths: Paths) -> None:
    """Adds the marks of a schema. `path` is None where arguments have no fixed place, as in arrays and choices."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, None, paths)
    if not isinstance(schema, dict):
        return
    if MARK in schema:
        name = _checked(schema, path)
        if name in paths:
            raise Malformed(f"two parameters have the header {name!r}")
        paths[name] = path or ()
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            for name, one in value.items():
                _collect(one, (*path, name) if key == "properties" and path is not None else None, paths)
        elif key not in _VALUES:
            _collect(value, None, paths)


def _checked(schema: dict[str, Any], path: tuple[str, ...] | None) -> str:
    name = schema[MARK]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Malformed(f"{MARK} is no name of a header")
    if not path:
        raise Malformed(f"{MARK} {name!r} is at a place where no argument has it")
    if schema.get("type") not in _TYPES:
        raise Malformed(f"{MARK} {name!r} is at a parameter that is no text, whole number or truth value")
    return name.lower()


def _value(path: tuple[str, ...], arguments: Any) -> Any:
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) <= _LARGEST:
            return str(value)
        case str():
            return value
        case _:
            return None
