"""Makes messages from the published schemas: every field that a definition has, one entry for each kind of a list."""

from typing import Any

from mcp_servers.published_schema import definitions


def largest(name: str, revision: str) -> Any:
    """An instance of a definition with all its fields."""
    return _made(definitions(revision)[name], definitions(revision))


def _made(schema: dict[str, Any], all_definitions: dict[str, Any]) -> Any:
    match schema:
        case {"$ref": "#/$defs/JSONValue"}:  # any value, which it is defined by
            return "anything"
        case {"$ref": str()}:
            return _made(_named(schema, all_definitions), all_definitions)
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"anyOf": [first, *_]}:
            return _made(first, all_definitions)
        case {"type": "array", "items": item}:
            return [_made(one, all_definitions) for one in _named(item, all_definitions).get("anyOf", [item])]
        case {"properties": dict() as properties} if properties:
            return {key: _made(one, all_definitions) for key, one in properties.items()}
        case {"type": "object", "additionalProperties": dict() as one} if one:
            return {"key": _made(one, all_definitions)}
        case _:
            return _plain(schema)


def _named(schema: dict[str, Any], all_definitions: dict[str, Any]) -> dict[str, Any]:
    """The definition that a reference names, or the schema itself."""
    actual: dict[str, Any] = all_definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return actual


def _plain(schema: dict[str, Any]) -> Any:
    kind = schema.get("type", "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {}
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return {"uri": "file:///a/b", "byte": "AAAA"}.get(schema.get("format", ""), "text")
