"""The error of the services: a sentence for people and a word for the wire."""

from typing import Literal

Code = Literal["missing", "outside", "bad_params", "not_text", "too_large", "too_many", "unsupported", "failed"]


class ServiceFault(Exception):
    """What was asked for cannot be done.

    Attributes:
        code: Why: `missing` (no such file), `outside` (of the folders), `bad_params` (wrong fields, also an unknown
            terminal), `not_text`, `too_large`, `too_many` (terminals), `unsupported` (switched off), `failed` (the
            system says no).
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def text_field(fields: dict[str, object], key: str) -> str:
    """A field that has to be a text. Raises ServiceFault."""
    value = fields.get(key)
    if not isinstance(value, str):
        raise ServiceFault("bad_params", f"{key} has to be a text")
    return value


def whole_field(fields: dict[str, object], key: str, default: int) -> int:
    """A field that has to be a whole number, zero or more. Raises ServiceFault."""
    value = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ServiceFault("bad_params", f"{key} has to be a whole number, zero or more")
    return value
