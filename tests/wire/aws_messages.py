"""Encodes AWS event stream messages, as a model server sends them."""

from binascii import crc32


def encode(headers: dict[str, str], payload: bytes) -> bytes:
    """One message as bytes."""
    fields = b"".join(_sized(name, 1) + b"\x07" + _sized(value, 2) for name, value in headers.items())
    sizes = (len(fields) + len(payload) + 16).to_bytes(4, "big") + len(fields).to_bytes(4, "big")
    message = sizes + crc32(sizes).to_bytes(4, "big") + fields + payload
    return message + crc32(message).to_bytes(4, "big")


def _sized(text: str, width: int) -> bytes:
    data = text.encode()
    return len(data).to_bytes(width, "big") + data
