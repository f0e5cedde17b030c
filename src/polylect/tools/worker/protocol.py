"""The frames between the engine and a worker, over a socket pair whose far end is the worker's standard input.

A frame is 12 bytes of lengths, then a JSON object, then bytes that are not text:

    engine to worker    {"operation": "read", "arguments": {...}}    descriptors come with the first byte
    worker to engine    {"value": {...}}, or {"error": text, "kind": "tool" | "os" | "crash", "errno": number}

JSON is read and written by the standard library on both sides: paths and texts may hold lone surrogates, which stricter
codecs refuse, and importing one of those would double the worker's start.
"""

import json

HEAD = 12
MOST_JSON = 256 * 1024 * 1024
MOST_DATA = 1024 * 1024 * 1024
MOST_FILES = 4
"""Descriptors that one request may carry."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def pack(message: dict[str, object], data: bytes = b"") -> bytes:
    """The whole frame. Raises ValueError if a message is too long to be read at the other end."""
    body = _encode(message).encode("utf-8", "surrogatepass")
    if len(body) > MOST_JSON or len(data) > MOST_DATA:
        raise ValueError("the message is too long")
    return b"".join((len(body).to_bytes(4, "big"), len(data).to_bytes(8, "big"), body, data))


def lengths(head: bytes) -> tuple[int, int]:
    """Of the JSON and of the bytes behind it. Raises ValueError for what no peer of ours sends."""
    body, data = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:HEAD], "big")
    if body > MOST_JSON or data > MOST_DATA:
        raise ValueError("the message is too long")
    return body, data


def unpack(body: bytes | memoryview) -> dict[str, object]:
    """The JSON object of a frame. Raises ValueError if it is none."""
    message = json.loads(str(body, "utf-8", "surrogatepass"))
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message
