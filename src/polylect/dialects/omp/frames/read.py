"""Turns lines of a host into command frames, or into the reason why a line is none.

Never raises. Nulls count as missing fields, because some hosts write them so. Used by both ends: the engine's to read
commands, the host's to note what it has sent by other means.
"""

from typing import Any

import msgspec

from polylect.dialects.omp.frames.table import ANSWERS, COMMANDS
from polylect.wire.jsonl import TooLong, parse


class Bad(msgspec.Struct, frozen=True):
    """A line that is no command: no JSON, no object, no type, or a known type with unusable fields."""

    why: str
    kind: str = ""
    id: Any = msgspec.UNSET


class Unknown(msgspec.Struct, frozen=True):
    kind: str
    id: Any = msgspec.UNSET


class Received(msgspec.Struct, frozen=True):
    """`id` is whatever the host sent. It is only echoed."""

    kind: str
    id: Any
    frame: Any


def read(line: bytes | TooLong) -> Received | Unknown | Bad:
    if isinstance(line, TooLong):
        return Bad(f"the line is longer than {line.limit} bytes")
    try:
        fields = parse(line)
    except ValueError as error:
        return Bad(str(error))
    kind, id = fields.get("type"), fields.get("id", msgspec.UNSET)
    if not isinstance(kind, str) or not kind:
        return Bad('the object has no "type" that is a string')
    if kind not in COMMANDS:
        return Unknown(kind, id)
    try:
        return Received(kind, id, msgspec.convert(_without_nulls(kind, fields), COMMANDS[kind]))
    except RecursionError:
        return Bad("nested too deeply", kind, id)
    except msgspec.ValidationError as error:
        return Bad(f"{kind}: {error}", kind, id)


def _without_nulls(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Removes null fields, which some hosts write for no value. The id of a request may be of any type or missing."""
    present = {key: value for key, value in fields.items() if value is not None or key == "events"}
    if kind not in ANSWERS:
        present.pop("id", None)
    return present
