"""Reads fields of an untyped JSON object: a missing field is empty, one of the wrong type raises ValueError.

Frames of an engine are read this way and not into structs: only the fields that we use are checked.
"""

from typing import Any

Fields = dict[str, Any]


def text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected a string")
    return value


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
    value = fields.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key}: expected an object")
    return value


def rows(fields: Fields, key: str) -> list[Fields]:
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list")
    return [row for row in value if isinstance(row, dict)]


def texts(fields: Fields, key: str) -> tuple[str, ...]:
    value = fields.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list")
    return tuple(item for item in value if isinstance(item, str))
