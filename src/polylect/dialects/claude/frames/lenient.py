"""Reads what a peer sent without trusting it: a field that is not what it should be counts as absent."""

from typing import Any

Object = dict[str, Any]


def text(found: Object, key: str) -> str:
    return value if isinstance(value := found.get(key), str) else ""


def whole(found: Object, key: str) -> int:
    return value if isinstance(value := found.get(key), int) and not isinstance(value, bool) else 0


def amount(found: Object, key: str) -> float:
    return float(value) if isinstance(value := found.get(key), int | float) and not isinstance(value, bool) else 0.0


def inner(found: Object, key: str) -> Object:
    return value if isinstance(value := found.get(key), dict) else {}


def objects(found: Object, key: str) -> list[Object]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows := found.get(key), list) else []


def words(found: Object, key: str) -> list[str]:
    return [row for row in rows if isinstance(row, str)] if isinstance(rows := found.get(key), list) else []
