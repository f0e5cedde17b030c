"""Joins frames that omp 18 cuts into pieces (`rpc_chunk`), which it does under protocol version 2.

The pieces of one frame come in order with nothing between them. Anything else is an error of the engine.
"""

import binascii
from base64 import b64decode

from polylect.dialects.omp.host.fields import Fields, number, text


class Chunks:
    """The pieces of one frame come in order, with nothing between them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._id = ""
        self._parts: list[bytes] = []

    def add(self, frame: Fields) -> bytes | None:
        """The whole line, once its last piece is here. Raises ValueError if a piece does not fit."""
        id, index, count = text(frame, "chunkId"), number(frame, "index"), number(frame, "count")
        if index == 0:
            self._id, self._parts = id, []
        if id != self._id or index != len(self._parts) or index >= count:
            self.reset()
            raise ValueError("a piece of a frame is missing or out of order")
        self._parts.append(_decoded(text(frame, "data")))
        if sum(map(len, self._parts)) > self._most:
            self.reset()
            raise ValueError(f"the frame is longer than {self._most} bytes")
        if index + 1 < count:
            return None
        whole = b"".join(self._parts)
        self.reset()
        if len(whole) != number(frame, "byteLength"):
            raise ValueError("the frame is not as long as its pieces say")
        return whole

    def reset(self) -> None:
        self._id, self._parts = "", []


def _decoded(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"data: {error}") from None
