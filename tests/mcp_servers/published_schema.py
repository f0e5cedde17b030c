"""Holds messages of MCP against the published schemas, and refuses fields that these do not know.

The published schemas allow any field anywhere and any result to any method. Here every object is closed, and a result
is held against the shape that belongs to its method. The schemas in `published/` are those of the public repository
modelcontextprotocol/modelcontextprotocol (commit b0f60ba5, folder `schema/`), without their texts.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

FOLDER = Path(__file__).parent / "published"
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
OLDER = ("2024-11-05", "2025-03-26")
"""Revisions whose messages the oldest schema here describes too."""
VERSION = "io.modelcontextprotocol/protocolVersion"
Object = dict[str, Any]
Side = Literal["client", "server"]
_NO_FIELDS = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""Requests whose result has no fields of its own."""


class Wire:
    """One connection, whose messages are checked in the order in which they were sent.

    A request names its revision itself (2026-07-28), or `initialize` has settled one. Requests are remembered, so that
    an answer is held against the shape that belongs to its method.
    """

    def __init__(self) -> None:
        self.revision = ""
        self.methods: dict[Side, list[str]] = {"client": [], "server": []}
        """The methods that each side has used."""
        self._requests: dict[tuple[Side, str], str] = {}

    def check(self, message: Object, side: Side) -> None:
        """Raises an error of jsonschema, or AssertionError, if a message of this side is not as published."""
        self.note(message, side)
        check(message, side, self._revision(message), self._answered(message, side))

    def note(self, message: Object, side: Side) -> None:
        """Remember what later messages depend on, without a check: for messages of a peer that may be wrong."""
        if "method" in message:
            self.methods[side].append(message["method"])
            if "id" in message:
                self._requests[side, _key(message["id"])] = message["method"]
        elif self._answered(message, side) == "initialize" and isinstance(message.get("result"), dict):
            self.revision = str(message["result"].get("protocolVersion", ""))

    def _answered(self, message: Object, side: Side) -> str:
        """The method of the request that this message answers; empty if it is no answer."""
        other: Side = "server" if side == "client" else "client"
        return "" if "method" in message else self._requests.get((other, _key(message.get("id"))), "")

    def _revision(self, message: Object) -> str:
        params = message.get("params")
        if isinstance(params, dict):
            if message.get("method") == "initialize":
                return str(params.get("protocolVersion", ""))
            return str((params.get("_meta") or {}).get(VERSION) or self.revision)
        return self.revision


def check(message: Object, side: Side, revision: str, method: str = "") -> None:
    """Raises an error of jsonschema, or AssertionError, if one message is not as published.

    Args:
        message: A request, notification or response.
        side: Who has sent it.
        revision: The revision that is spoken; an unknown one is held against the newest with a handshake.
        method: The method of the request that a response is the answer to; empty for an error that answers none.
    """
    revision = revision if revision in REVISIONS else REVISIONS[0] if revision in OLDER else REVISIONS[1]
    assert message["jsonrpc"] == "2.0"
    if "id" in message:
        assert isinstance(message["id"], str | int) or (message["id"] is None and "error" in message)
    if "method" in message:
        assert set(message) <= {"jsonrpc", "id", "method", "params"}
        definition = _of_method(message["method"], side, "Request" if "id" in message else "Notification", revision)
        _validator(definition, revision, "params").validate(message.get("params", {}))
    elif "error" in message:
        assert set(message) == {"jsonrpc", "id", "error"}
        assert set(message["error"]) <= {"code", "message", "data"}
        assert isinstance(message["error"]["code"], int)
        assert isinstance(message["error"]["message"], str)
    else:
        assert set(message) == {"jsonrpc", "id", "result"}
        assert method, f"an answer to a request that was never made: {message}"
        _validator(_result_of(method, message["result"], revision), revision).validate(message["result"])


def definitions(revision: str) -> Object:
    schema = _schema(revision)
    actual: Object = schema.get("$defs") or schema["definitions"]
    return actual


def names_of(kind: str, revision: str) -> list[str]:
    """The definitions that a union of the schema, such as ServerNotification, consists of."""
    union = definitions(revision).get(kind, {})
    return [part["$ref"].rpartition("/")[2] for part in union.get("anyOf", ()) if "$ref" in part]


def _key(id_: Any) -> str:
    return json.dumps(id_)


def _of_method(method: str, side: Side, kind: str, revision: str) -> str:
    """The definition of a request or notification. The side that may send it is checked where the schema says it."""
    for name, definition in definitions(revision).items():
        actual = definition.get("properties", {}).get("method", {}).get("const")
        if actual == method and name.endswith(kind) and not name.startswith(("Client", "Server")):
            allowed = names_of(f"{side.title()}{kind}", revision)
            assert not allowed or name in allowed, f"{method} is not for a {side}"
            return name
    raise AssertionError(f"{revision} has no {kind} {method}")


def _result_of(method: str, result: Object, revision: str) -> str:
    if method in _NO_FIELDS:
        return "Result"
    if result.get("resultType") == "input_required":
        return "InputRequiredResult"
    for name, definition in definitions(revision).items():
        if definition.get("properties", {}).get("method", {}).get("const") == method and name.endswith("Request"):
            return name.removesuffix("Request") + "Result"
    raise AssertionError(f"{revision} has no result of {method}")


@cache
def _schema(revision: str) -> Object:
    schema: Object = json.loads((FOLDER / f"{revision}.json").read_text("utf-8"))
    for name, definition in (schema.get("$defs") or schema["definitions"]).items():
        if not name.endswith(("Error", "MetaObject")):  # errors mix definitions; meta objects are open to everybody
            _close(definition)
    return schema


def _close(node: Any) -> None:
    """Forbid fields that the schema does not name, in every object that names some. `_meta` is always allowed."""
    match node:
        case {"properties": dict() as properties, **rest}:
            if properties and "additionalProperties" not in rest and "allOf" not in rest:
                node["additionalProperties"] = False
                properties.setdefault("_meta", {"type": "object"})
            for name, one in properties.items():
                if name not in ("inputSchema", "outputSchema"):  # these are schemas themselves
                    _close(one)
            for key in ("items", "anyOf", "additionalProperties"):
                _close(rest.get(key))
        case dict():
            for one in node.values():
                _close(one)
        case list():
            for one in node:
                _close(one)


@cache
def _validator(name: str, revision: str, part: str = "") -> Validator:
    schema = _schema(revision)
    definition = definitions(revision)[name]
    if part:
        definition = definition["properties"].get(part, {"type": "object", "additionalProperties": False})
    key = "$defs" if "$defs" in schema else "definitions"
    return Draft202012Validator({key: schema[key], "allOf": [definition]})
