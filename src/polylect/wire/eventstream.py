"""AWS event streams: binary messages, each with headers, a payload and two checksums.

    total length (4) | headers length (4) | crc of these (4) | headers | payload | crc of all before it (4)

`apis/bedrock_stream.py` reads replies with it.
"""

from binascii import crc32
from struct import Struct as Layout

from msgspec import Struct

MAX_MESSAGE = 24 * 1024 * 1024
_PRELUDE = Layout(">III")
_CRC = Layout(">I")
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The length of a header's value by its type. Types 6 (bytes) and 7 (text) begin with their length."""


class Message(Struct, frozen=True):
    """One message. Only headers that are text are kept: message, event and exception types are."""

    headers: dict[str, str]
    payload: bytes


class Parser:
    """Splits bytes that arrive in pieces of any size into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises ValueError if the bytes are not such a stream."""
        self._rest += data
        messages = []
        at = 0
        while len(self._rest) - at >= _PRELUDE.size:
            total, headers, crc = _PRELUDE.unpack_from(self._rest, at)
            if crc32(self._rest[at : at + 8]) != crc or not headers + 16 <= total <= MAX_MESSAGE:
                raise ValueError("not an AWS event stream")
            if len(self._rest) - at < total:
                break
            messages.append(_message(bytes(self._rest[at : at + total]), headers))
            at += total
        del self._rest[:at]
        return messages


def _message(data: bytes, headers: int) -> Message:
    if crc32(data[:-4]) != _CRC.unpack_from(data, len(data) - 4)[0]:
        raise ValueError("a message of the AWS event stream is damaged")
    start = _PRELUDE.size
    return Message(_headers(data[start : start + headers]), data[start + headers : -4])


def _headers(data: bytes) -> dict[str, str]:
    headers = {}
    at = 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
        at += 1 + data[at]
        kind = data[at] if at < len(data) else -1
        at += 1
        size = _SIZES.get(kind, int.from_bytes(data[at : at + 2], "big"))
        if kind in (6, 7):
            at += 2
        elif kind not in _SIZES:
            raise ValueError("a header of the AWS event stream cannot be read")
        if kind == 7:
            headers[name] = data[at : at + size].decode("utf-8", "replace")
        at += size
    return headers
