"""The frames between the engine and a worker, over a socket pair whose far end is the worker's standard input.

A frame is 12 bytes of lengths, then a message, then bytes that are not text:

    engine to worker    {"operation": "read", "arguments": {...}}    descriptors come with the first byte
    worker to engine    GREETING, once it serves
                        {"value": {...}}, or {"error": text, "kind": KIND, "errno": number}

KIND is `tool`, `missing` (a tool's error about a file that does not exist), `os` or `crash`.

Requests travel in Python's own `marshal` format: the worker trusts the engine, and it runs the same interpreter. The
engine does not trust the worker, so replies are JSON. The worker writes it without the package `json`, whose import
takes a fifth of the worker's start. Paths and texts may hold lone surrogates, which stricter JSON libraries refuse.
"""

import marshal
from _json import encode_basestring

HEAD = 12
GREETING = b"w"
MOST_MESSAGE = 256 * 1024 * 1024
MOST_DATA = 1024 * 1024 * 1024
MOST_FILES = 4
"""Descriptors that one request may carry."""


def pack_request(message: dict[str, object], data: bytes = b"") -> bytes:
    """The whole frame of a request. Raises ValueError if the worker would not read one of that size."""
    return _frame(marshal.dumps(message), data)


def unpack_request(body: bytes) -> dict[str, object]:
    """The message of a request, in the worker."""
    message: dict[str, object] = marshal.loads(body)
    return message


def pack_reply(message: dict[str, object], data: bytes = b"") -> bytes:
    """The whole frame of a reply. Raises ValueError if the engine would not read one of that size."""
    return _frame(_json_text(message).encode("utf-8", "surrogatepass"), data)


def unpack_reply(body: memoryview) -> dict[str, object]:
    """The message of a reply, in the engine. Raises ValueError if it is none."""
    import json  # not at the top: the worker does not need it

    message = json.loads(str(body, "utf-8", "surrogatepass"))
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def lengths(head: bytes) -> tuple[int, int]:
    """Of the message and of the bytes behind it. Raises ValueError for what no peer of ours sends."""
    body, data = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:HEAD], "big")
    if body > MOST_MESSAGE or data > MOST_DATA:
        raise ValueError("the message is too long")
    return body, data


def _frame(body: bytes, data: bytes) -> bytes:
    if len(body) > MOST_MESSAGE or len(data) > MOST_DATA:
        raise ValueError("the message is too long")
    return b"".join((len(body).to_bytes(4, "big"), len(data).to_bytes(8, "big"), body, data))


def _json_text(value: object) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case None | bool():
            return "null" if value is None else "true" if value else "false"
        case int() | float():
            return repr(value)
        case dict():
            return "{" + ",".join(f"{encode_basestring(key)}:{_json_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_json_text, value)) + "]"
    raise TypeError(f"a reply cannot hold {type(value).__name__}")
