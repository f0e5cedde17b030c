"""Server-sent events: bytes in pieces of any size to events.

`Parser` gives the data of each event. It ignores names, ids and retry times: every model API repeats what matters
inside the data. The model client reads replies through it. `EventParser` gives these fields too; MCP resumes streams
with them. CR, LF and CRLF end a line; comments and unknown fields are skipped.
"""

from msgspec import Struct

MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one event at most: more than the longest reply of any model."""
_MOST_LINES = 100_000
"""Lines of one event with all its fields: each costs far more memory than its bytes."""
_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True):
    """One event. `id` and `retry` (milliseconds) are None where the event has no such field."""

    data: bytes = b""
    name: str = "message"
    id: str | None = None
    retry: int | None = None


class Parser:
    """Reads one stream into the data of its events."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._blocks = _Blocks(max_event)

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now. Raises ValueError for an event that is too long."""
        return _data_of(self._blocks.feed(data))

    def end(self) -> list[bytes]:
        """The peer has closed: a last event counts if its lines are complete, also without the blank line."""
        return _data_of(self._blocks.end())


class EventParser:
    """Reads one stream into events, those without data included: they may carry an id or a time."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._blocks = _Blocks(max_event)

    def feed(self, data: bytes) -> list[Event]:
        """Every event that is complete now. Raises ValueError for an event that is too long or has too many lines."""
        return [event for block in self._blocks.feed(data) if (event := _event(block))]

    def end(self) -> list[Event]:
        """The same as that of `Parser`."""
        return [event for block in self._blocks.end() if (event := _event(block))]


class _Blocks:
    """Splits a stream into blocks of lines, each of which is one event."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._rest: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._ends_line = False
        """Whether the buffered bytes end with a newline."""
        self._first = True

    def feed(self, data: bytes) -> list[bytes]:
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
        return blocks

    def end(self) -> list[bytes]:
        rest = b"".join(self._rest)
        self._forget()
        return [rest.removesuffix(b"\n")] if rest.endswith(b"\n") else []

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


def _event(block: bytes) -> Event | None:
    """The event of a block; None for one that is empty or holds comments only. Raises ValueError for too many lines."""
    if block.count(b"\n") > _MOST_LINES:
        raise ValueError(f"an event has more than {_MOST_LINES} lines")
    fields: dict[bytes, bytes] = {}
    data: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name in (b"event", b"id", b"retry"):
            fields[name] = value.removeprefix(b" ")
    id, retry = fields.get(b"id"), fields.get(b"retry", b"")
    if not data and not fields:
        return None
    return Event(
        b"\n".join(data),
        fields.get(b"event", b"").decode(errors="replace") or "message",
        id.decode(errors="replace") if id is not None and b"\0" not in id else None,
        int(retry) if retry.isdigit() and len(retry) < 10 else None,
    )
