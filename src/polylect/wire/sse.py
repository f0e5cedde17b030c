"""Server-sent events: bytes in pieces of any size to the data of each event.

Names, ids and retry times of events are ignored: every model API repeats what matters inside the data. The model
client reads replies through it.
"""

MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one event at most: more than the longest reply of any model."""
_BOM = b"\xef\xbb\xbf"


class Parser:
    """Reads one stream. CR, LF and CRLF end a line; comments and unknown fields are skipped."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._rest: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._ends_line = False
        """Whether the buffered bytes end with a newline."""
        self._first = True

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now. Raises ValueError for an event that is too long."""
        data = self._with_lf(data)
        if b"\n\n" not in data and not (self._ends_line and data.startswith(b"\n")):
            self._buffer(data)  # no event ends here: what is kept is not looked at again
            return []
        if self._rest:
            self._rest.append(data)
            data = b"".join(self._rest)
            self._forget()
        if self._first:
            data = self._without_bom(data)
        *blocks, rest = data.split(b"\n\n")
        self._buffer(rest)
        return _data_of(blocks)

    def end(self) -> list[bytes]:
        """The peer has closed: a last event counts if its lines are complete, also without the blank line."""
        rest = b"".join(self._rest)
        self._forget()
        return _data_of([rest.removesuffix(b"\n")]) if rest.endswith(b"\n") else []

    def _with_lf(self, data: bytes) -> bytes:
        if self._after_cr:
            self._after_cr = not data
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _without_bom(self, data: bytes) -> bytes:
        self._first = False
        return data.removeprefix(_BOM)

    def _forget(self) -> None:
        self._rest.clear()
        self._size = 0
        self._ends_line = False

    def _buffer(self, piece: bytes) -> None:
        if not piece:
            return
        self._rest.append(piece)
        self._size += len(piece)
        self._ends_line = piece.endswith(b"\n")
        if self._size > self._max_event:
            self._forget()
            raise ValueError(f"an event is longer than {self._max_event} bytes")


def _data_of(blocks: list[bytes]) -> list[bytes]:
    events: list[bytes] = []
    for block in blocks:
        at = block.find(b"data: ")
        # One data line that ends the block, as all model servers send it; anything else goes the long way.
        if (at == 0 or (at > 0 and block[at - 1] == 10)) and block.find(b"\n", at) < 0:
            events.append(block[at + 6 :])
        elif block:
            events += _by_lines(block)
    return events


def _by_lines(block: bytes) -> list[bytes]:
    values = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            values.append(value.removeprefix(b" "))
    return [b"\n".join(values)] if values else []
