"""The JSON Schema of a tool's arguments: made of a Struct for our own tools, and checked for those of others.

Tools of extensions, MCP servers and hosts state a schema but do not always check it themselves. The engine does it
before such a tool runs (`engine/turn/calls.py`), so that the model is answered with what is wrong. Both the schema and
the arguments come from strangers, and the check runs on the engine's event loop. So it is not `jsonschema` but a subset
without patterns: every node it visits is counted, and a check that takes too many steps or goes too deep is given up.

The invariant: arguments that fit are never refused. What the check does not know (`pattern`, `format`, `not`, `if`,
references to other documents), what is malformed in a schema, and what a given-up check has not looked at, passes.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

_MOST_STEPS = 10_000
"""Nodes and list entries that are looked at: about 50 ms."""
_MOST_DEPTH = 64
_MOST_SHOWN = 200
_MOST_NAME = 80
_MOST_REFERENCE = 1000
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@cache
def schema_of(arguments: type[Struct]) -> dict[str, Any]:
    """Returns the JSON Schema for the model: without titles, and with every definition in its place, because not every
    vendor follows references.

    Args:
        arguments: The Struct of the arguments; the texts of its fields are their descriptions.
    """
    generated = msgspec.json.schema(arguments)
    return _plain(generated["$defs"][arguments.__name__], generated["$defs"])


def _plain(shape: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in shape:
        return _plain(named[shape["$ref"].rpartition("/")[2]], named)
    shape = {key: value for key, value in shape.items() if key not in ("title", "additionalProperties")}
    if "enum" in shape:
        shape["type"] = "string"  # some vendors require the type beside an enum
    if "items" in shape:
        shape["items"] = _plain(shape["items"], named)
    if "properties" in shape:
        shape["properties"] = {name: _plain(field, named) for name, field in shape["properties"].items()}
        shape.pop("description", "")  # the docstring of the Struct, which is not for the model
    return shape


def schema_error(args: dict[str, Any], schema: dict[str, Any]) -> str:
    """Returns what is wrong with the arguments of a call, in one line for the model; empty if nothing is known to be
    wrong.

    `{"number": "seven"}` for an integer is `Wrong parameter: number: expected integer, got a string`.

    Args:
        args: The arguments that the model gave.
        schema: The JSON Schema of the tool.
    """
    check = _Check(schema)
    try:
        return next(check.faults(args, schema, "", 0), "")
    except (_GivenUp, RecursionError):
        return ""


class _GivenUp(Exception):
    """The check has taken more steps than it may."""


class _Check:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._steps = 0

    def faults(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        """The faults of `value`, which is at `place` in the arguments."""
        self._count(1)
        if depth > _MOST_DEPTH:
            raise _GivenUp
        if schema is False:
            yield f"Unknown parameter: {_short(place)}"
        if not isinstance(schema, dict):
            return
        yield from self._referred(value, schema, place, depth)
        yield from self._alone(value, schema, place)
        if isinstance(value, dict):
            yield from self._members(value, schema, place, depth)
        if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
            for index, item in enumerate(value):
                self._count(1)
                if index >= len(_list(schema, "prefixItems")):
                    yield from self.faults(item, items, f"{place}[{index}]", depth + 1)
        for part in _list(schema, "allOf"):
            yield from self.faults(value, part, place, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            yield from self._alternatives(value, _list(schema, keyword), place, depth)

    def _alone(self, value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
        """What concerns the value itself, and not what is in it."""
        kinds = _kinds(schema.get("type"))
        if kinds and not any(_is(value, kind) for kind in kinds):
            yield _wrong(place, f"expected {' or '.join(kinds)}, got {_NAMES.get(type(value), 'something else')}")
        choices = [schema["const"]] if "const" in schema else _list(schema, "enum")
        self._count(len(choices))
        if choices and not any(_same(value, choice) for choice in choices):
            yield _wrong(place, f"expected {_short(', '.join(map(_shown, choices[:20])))}, got {_shown(value)}")
        for keyword, (measure, fits, words) in _BOUNDS.items():
            bound, size = _number(schema.get(keyword)), measure(value)
            if bound is not None and size is not None and not fits(size, bound):
                yield _wrong(place, f"{words} {_shown(bound)}, got {_shown(size)}")

    def _members(self, value: dict[str, Any], schema: dict[str, Any], place: str, depth: int) -> Iterator[str]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        self._count(len(_list(schema, "required")))
        required = dict.fromkeys(name for name in _list(schema, "required") if isinstance(name, str))
        for name in required:
            if name not in value:
                yield f"Missing required parameter: {_short(_below(place, name))}"
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        for name, member in value.items():
            where = _below(place, name)
            if name in properties:
                if member is not None or name in required:  # null is a common word for: not given
                    yield from self.faults(member, properties[name], where, depth + 1)
            elif others is False:
                names = ", ".join(str(each)[:_MOST_NAME] for each in islice(properties, 20))
                yield f"Unknown parameter: {_short(where)}. Known ones: {_short(names)}"
            else:
                yield from self.faults(member, others, where, depth + 1)

    def _referred(self, value: Any, schema: dict[str, Any], place: str, depth: int) -> Iterator[str]:
        """References lead only into the same schema; others pass."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#") or len(reference) > _MOST_REFERENCE:
            return
        target: Any = self._root
        for part in reference[1:].split("/")[1:]:
            self._count(1)
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, dict) else None
        yield from self.faults(value, target, place, depth + 1)

    def _alternatives(self, value: Any, choices: list[Any], place: str, depth: int) -> Iterator[str]:
        faults: list[str] = []
        for choice in choices:
            fault = next(self.faults(value, choice, place, depth + 1), "")
            if not fault:
                return
            faults.append(fault)
        if faults:
            yield "; or ".join(dict.fromkeys(faults[:5]))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise _GivenUp


def _length(kind: type[str] | type[list[Any]]) -> Callable[[Any], int | None]:
    return lambda value: len(value) if isinstance(value, kind) else None


def _number(value: Any) -> float | None:
    return value if _is(value, "number") else None


_BOUNDS: dict[str, tuple[Callable[[Any], float | None], Callable[[float, float], bool], str]] = {
    "minimum": (_number, lambda size, bound: size >= bound, "expected at least"),
    "maximum": (_number, lambda size, bound: size <= bound, "expected at most"),
    "exclusiveMinimum": (_number, lambda size, bound: size > bound, "expected more than"),
    "exclusiveMaximum": (_number, lambda size, bound: size < bound, "expected less than"),
    "minLength": (_length(str), lambda size, bound: size >= bound, "expected a length of at least"),
    "maxLength": (_length(str), lambda size, bound: size <= bound, "expected a length of at most"),
    "minItems": (_length(list), lambda size, bound: size >= bound, "expected a number of items of at least"),
    "maxItems": (_length(list), lambda size, bound: size <= bound, "expected a number of items of at most"),
}
"""Keywords with a number: what is measured (None where it does not apply), what fits, and the words for it."""


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):  # which Python takes for a number
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _kinds(named: Any) -> list[str]:
    """The types that are allowed; none where that is not known."""
    kinds = named[: len(_KINDS) + 1] if isinstance(named, list) else [named]
    return (
        kinds if len(kinds) <= len(_KINDS) and all(isinstance(kind, str) and kind in _KINDS for kind in kinds) else []
    )


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _below(place: str, name: str) -> str:
    name = name[:_MOST_NAME]
    return f"{place}.{name}" if place else name


def _same(value: Any, choice: Any) -> bool:
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _shown(value: Any) -> str:
    match value:
        case str():
            return _short(repr(value[:_MOST_SHOWN]))
        case int() if value.bit_length() < 128:
            return repr(value)
        case bool() | float() | None:
            return repr(value)
        case _:
            return _NAMES.get(type(value), "something else")


def _wrong(place: str, what: str) -> str:
    return f"Wrong parameter: {_short(place)}: {what}" if place else f"Wrong parameters: {what}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
