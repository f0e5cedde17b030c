"""Holds messages of an agent against the published schemas of ACP, and refuses fields that these do not know.

The published schemas allow any field anywhere and any result to any method. Here a result is held against the shape
that its method has, first in the stable schema as it is, then in the unstable one with every object closed.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

FOLDER = Path(__file__).parent / "published"
Object = dict[str, Any]
_UNSTABLE = (
    *(f"session/{name}" for name in ("fork", "status", "set_title", "archive", "unarchive")),
    *("auth/status", "mcp/message"),
)


def check(message: Object, method: str = "", *, unstable: bool = False, version: int = 1) -> None:
    """Raises an error of jsonschema if a message of the agent is not as published.

    Args:
        message: A request, notification or response.
        method: The method that a response is the answer to.
        unstable: Whether it may be of a kind that the stable schema does not have.
        version: The version of the protocol that is spoken.
    """
    assert message["jsonrpc"] == "2.0"
    for newer in [True] if unstable else [False, True]:
        schema = f"v{version}{'-unstable' if newer else ''}"
        if message.get("method") in _UNSTABLE and not newer:
            continue
        if "method" in message:
            assert set(message) <= {"jsonrpc", "id", "method", "params"}
            side = "protocol" if message["method"] == "$/cancel_request" else "client"
            kind = "Request" if "id" in message else "Notification"
            _validator(_definition(message["method"], side, kind, schema), schema).validate(message["params"])
        elif "error" in message:
            assert set(message) == {"jsonrpc", "id", "error"}
            _validator("Error", schema).validate(message["error"])
        else:
            assert set(message) == {"jsonrpc", "id", "result"}
            if not method.startswith("_") and (newer or method not in _UNSTABLE):
                _validator(_definition(method, "agent", "Response", schema), schema).validate(message["result"])


@cache
def _schema(name: str) -> Object:
    schema: Object = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    if not name.endswith("-unstable"):
        return schema
    _drop_open_ends(schema)
    mixed_in = {name for definition in schema["$defs"].values() for name in _mixed_in(definition)}
    for name, definition in schema["$defs"].items():
        if "properties" in definition:
            if name not in mixed_in and "additionalProperties" not in definition:
                definition["unevaluatedProperties"] = False
        elif name not in mixed_in:
            for branch in (*definition.get("anyOf", ()), *definition.get("oneOf", ())):
                if "properties" in branch and "additionalProperties" not in branch:
                    branch["unevaluatedProperties"] = False
    return schema


def _drop_open_ends(node: Any) -> None:
    """In version 2 any union has a branch for kinds that do not exist yet. We send none of these."""
    if isinstance(node, dict):
        for key in ("anyOf", "oneOf"):
            if isinstance(node.get(key), list):
                node[key] = [branch for branch in node[key] if not ("not" in branch and "properties" in branch)]
        for value in node.values():
            _drop_open_ends(value)
    elif isinstance(node, list):
        for value in node:
            _drop_open_ends(value)


def _mixed_in(node: Any) -> set[str]:
    """The definitions whose fields stand beside others in one object."""
    names: set[str] = set()
    if isinstance(node, dict):
        parts = [*node.get("allOf", ()), *(one for key in ("anyOf", "oneOf") for one in node.get(key, ()))]
        if "properties" in node:
            names |= {part["$ref"].rpartition("/")[2] for part in _flat(parts) if "$ref" in part}
        for value in node.values():
            names |= _mixed_in(value)
    elif isinstance(node, list):
        for value in node:
            names |= _mixed_in(value)
    return names


def _flat(parts: list[Any]) -> list[Any]:
    inner = [more for part in parts if isinstance(part, dict) for more in part.get("allOf", ())]
    return [*parts, *inner]


@cache
def _definition(method: str, side: str, kind: str, schema: str) -> str:
    definitions = _schema(schema)["$defs"]
    actual = [
        name
        for name, definition in definitions.items()
        if (definition.get("x-method"), definition.get("x-side")) == (method, side) and name.endswith(kind)
    ]
    assert len(actual) == 1, f"{method} has no {kind} for the {side}: {actual}"
    return actual[0]


@cache
def _validator(name: str, schema: str) -> Validator:
    return Draft202012Validator({**_schema(schema), "anyOf": [{"$ref": f"#/$defs/{name}"}]})
