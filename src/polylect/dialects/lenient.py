"""Reads fields of a peer's JSON object without trusting it: a field of the wrong type counts as absent.

The host's end reads with these instead of with typed shapes, because engines of other versions and vendors add, drop
and retype fields. Nothing here raises.
"""

from typing import Any

Object = dict[str, Any]


def text(fields: Object, key: str) -> str:
    return value if isinstance(value := fields.get(key), str) else ""


def whole(fields: Object, key: str) -> int:
    return value if isinstance(value := fields.get(key), int) and not isinstance(value, bool) else 0


def amount(fields: Object, key: str) -> float:
    return float(value) if isinstance(value := fields.get(key), int | float) and not isinstance(value, bool) else 0.0


def inner(fields: Object, key: str) -> Object:
    return value if isinstance(value := fields.get(key), dict) else {}


def objects(fields: Object, key: str) -> list[Object]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows := fields.get(key), list) else []


def words(fields: Object, key: str) -> list[str]:
    return [row for row in rows if isinstance(row, str)] if isinstance(rows := fields.get(key), list) else []
