"""How much of an output is kept, and what is said in the place of the rest."""


def cut_middle(text: str, most: int, where: str = "") -> str:
    """At most about `most` characters: the head, a line that says how many are missing, the tail."""
    if len(text) <= most:
        return text
    half = most // 2
    place = f"; all of it is in {where}" if where else ""
    return f"{text[:half]}\n\n... [truncated {len(text) - 2 * half} chars{place}] ...\n\n{text[-half:]}"


def cut_line(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]} ... [line cut, {len(line)} chars]"


class Capture:
    """The first and the last bytes of a stream of any length."""

    def __init__(self, first: int, last: int) -> None:
        self._first = first
        self._last = last
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._first - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._last:  # cut seldom, so that each byte is moved at most twice
            del self._tail[: -self._last]

    def text(self) -> str:
        tail = self._tail[-self._last :]
        lost = self.total - len(self._head) - len(tail)
        if not lost:
            return (self._head + tail).decode(errors="replace")
        gap = f"\n\n... [{lost} bytes not kept] ...\n\n"
        return self._head.decode(errors="replace") + gap + tail.decode(errors="replace")
