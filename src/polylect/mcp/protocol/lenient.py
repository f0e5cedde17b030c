"""Reads JSON of peers that do not keep to the protocol: one wrong part costs that part, never the rest.

    {"name": "a", "description": 5}       a tool without a description: a wrong optional field counts as missing
    [{"name": "a"}, 5, {"name": "b"}]     two tools, and one entry that was wrong
    {"text": "\\ud83d", "n": NaN}          half a character becomes U+FFFD, and NaN becomes null

Unknown fields are ignored. What is correct takes the fast way through msgspec; only what it refuses is looked at again.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from polylect.wire import jsonl

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
_MOST_MENDED = 1024 * 1024
"""Bytes that are read by Python's own JSON reader, which takes 10 ms for them."""
_MOST_FAULT = 200
_MOST_ENTRIES = 1000
"""Entries of a list that are read one by one."""


class Malformed(ValueError):
    """What a peer sent has not the shape that the protocol says. The text tells which part and why."""


class Entries(Struct, frozen=True):
    """The entries of a list that could be read. `wrong` were not, `left_out` were too many; `fault` is the first."""

    items: list[Any]
    wrong: int = 0
    left_out: int = 0
    fault: str = ""


def read(data: Raw | bytes, shape: type[S]) -> S:
    """Reads one struct. Raises Malformed if a required field is missing or wrong, or if it is no object."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (ValueError, RecursionError):
        fields = decode(data, dict[str, Raw])
        return _by_fields(fields, shape)


def decode(data: Raw | bytes, shape: type[T]) -> T:
    """Decodes JSON; where it is not quite JSON, after mending it. Raises Malformed."""
    value: T = decode_any(data, shape)
    return value


def decode_any(data: Raw | bytes, shape: Any = Any) -> Any:
    """As `decode`, for any value and for types that are no classes."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)[:_MOST_FAULT]) from None
    except (ValueError, RecursionError) as error:
        try:
            return msgspec.json.decode(mended(bytes(data)), type=shape)
        except (ValueError, RecursionError):
            raise Malformed(str(error)[:_MOST_FAULT]) from None


def mended(data: bytes) -> bytes:
    """The same in JSON that everybody reads. Raises ValueError, also if it is too long to be mended."""
    if len(data) > _MOST_MENDED:
        raise ValueError("it is too long to be mended")
    value = json.loads(data.decode(errors="replace"), parse_constant=lambda name: None)
    return jsonl.dump(value)


def read_entries(data: Raw | bytes, read_one: Callable[[Raw], T], most: int) -> Entries:
    """Reads at most so many entries of a list, each by itself. Raises Malformed if it is no list."""
    rows = decode(data, list[Raw])
    entries = read_rows(rows[:most], read_one)
    return msgspec.structs.replace(entries, left_out=max(0, len(rows) - most))


def read_rows(rows: Iterable[Raw], read_one: Callable[[Raw], T]) -> Entries:
    """Reads each row by itself, and counts those that are wrong."""
    items: list[T] = []
    wrong, fault = 0, ""
    for row in rows:
        try:
            items.append(read_one(row))
        except Malformed as error:
            wrong, fault = wrong + 1, fault or str(error)
    return Entries(items, wrong, 0, fault)


def _by_fields(fields: dict[str, Raw], shape: type[S]) -> S:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name not in fields:
            if field.required:
                raise Malformed(f"{field.encode_name} is missing")
            continue
        try:
            values[field.name] = _value(fields[field.encode_name], field.type)
        except Malformed as error:
            if field.required:
                raise Malformed(f"{field.encode_name}: {error}") from None
    return shape(**values)


def _value(data: Raw, shape: Any) -> Any:
    """A field. Of a list, the entries that can be read."""
    try:
        return decode_any(data, shape)
    except Malformed:
        lists = [option for option in (shape, *get_args(shape)) if get_origin(option) is list]
        if not lists or not bytes(data).startswith(b"["):
            raise
        [item] = get_args(lists[0])
        return read_entries(data, lambda row: decode_any(row, item), _MOST_ENTRIES).items
