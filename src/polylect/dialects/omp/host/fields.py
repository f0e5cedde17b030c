"""Fields of what an engine said: what is missing is empty, what is of the wrong kind is a ValueError for people."""

from typing import Any

Found = dict[str, Any]


def text(found: Found, key: str) -> str:
    value = found.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected a string")
    return value


def number(found: Found, key: str) -> int:
    return int(amount(found, key))


def amount(found: Found, key: str) -> float:
    value = found.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}: expected a number")
    return value


def flag(found: Found, key: str) -> bool:
    return found.get(key) is True


def table(found: Found, key: str) -> Found:
    value = found.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key}: expected an object")
    return value


def rows(found: Found, key: str) -> list[Found]:
    value = found.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list")
    return [row for row in value if isinstance(row, dict)]


def texts(found: Found, key: str) -> tuple[str, ...]:
    value = found.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list")
    return tuple(item for item in value if isinstance(item, str))
