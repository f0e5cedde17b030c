"""Shortens long output: the beginning and the end stay, and a note between them says how much is missing.

    cut_middle("a" * 60000, 50000)    25 000 characters, "... [truncated 10000 chars] ...", 25 000 characters

`cut_middle` is for a text that is in memory. `Capture` is for a stream of any length, of which it holds only the ends.
"""

import codecs


class Capture:
    """The first and the last `most` bytes of a stream of any length."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()

    @classmethod
    def of_ends(cls, most: int, head: bytes, tail: bytes, total: int) -> "Capture":
        """A capture that was filled in another process, from its ends."""
        capture = cls(most)
        capture.add(head + tail)
        capture.total = total
        return capture

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._most - len(self._head)
        if room:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._most :]
        if len(self._tail) > 2 * self._most:  # cut seldom, so that each byte is moved at most twice
            del self._tail[: -self._most]

    def head(self, most: int) -> bytes:
        return bytes(self._head[:most])

    def tail(self, most: int) -> bytes:
        return bytes((self._head + self._tail)[-most:]) if most else b""

    def text(self, most: int = 0, remark: str = "") -> str:
        """About `most` bytes of it. `remark` is added to the note about the others."""
        most = min(most or self._most, self._most)
        if self.total <= most:
            return self.head(most).decode(errors="replace")
        return joined_ends(self.head(most // 2), self.tail(most // 2), self.total, remark)


def joined_ends(head: bytes, tail: bytes, total: int, remark: str = "") -> str:
    """Both ends of a longer text, cut between characters, with a note of how much is missing."""
    start = next((at for at in range(min(4, len(tail))) if tail[at] & 0xC0 != 0x80), 0)
    first = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    missing = f"truncated {total - len(head) - len(tail)} bytes{'; ' if remark else ''}{remark}"
    return f"{first}\n\n... [{missing}] ...\n\n{tail[start:].decode(errors='replace')}"
