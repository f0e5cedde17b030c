"""Reads fields of an untyped JSON object: a missing field is empty, one of the wrong type raises ValueError.

Frames of an engine are read this way and not into structs: only the fields that we use are checked.
"""

from typing import Any, TypeVar

Fields = dict[str, Any]
Value = TypeVar("Value")


def text(fields: Fields, key: str) -> str:
    return _typed(fields, key, "", "a string")


def number(fields: Fields, key: str) -> int:
    return int(amount(fields, key))


def amount(fields: Fields, key: str) -> float:
    value = fields.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}: expected a number")
    return value


def flag(fields: Fields, key: str) -> bool:
    return fields.get(key) is True


def table(fields: Fields, key: str) -> Fields:
    return _typed(fields, key, Fields(), "an object")


def rows(fields: Fields, key: str) -> list[Fields]:
    return [row for row in _typed(fields, key, list[Any](), "a list") if isinstance(row, dict)]


def texts(fields: Fields, key: str) -> tuple[str, ...]:
    return tuple(item for item in _typed(fields, key, list[Any](), "a list") if isinstance(item, str))


def _typed(fields: Fields, key: str, empty: Value, kind: str) -> Value:
    """The field, which has to be of the same type as `empty`."""
    value = fields.get(key)
    if value is None:
        return empty
    if not isinstance(value, type(empty)):
        raise ValueError(f"{key}: expected {kind}")
    return value
