"""Turns frames into lines of limited length, and limits how often large frames are repeated.

An update of a message repeats the whole message so far. `Throttle` spaces such updates out. `ByteQuota` limits the
bytes of all repetitions together, so that the output stays proportional to the message. `LineWriter` also leaves out
events that a host has not subscribed to (`set_event_filter`).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from polylect.dialects import line_limit
from polylect.dialects.omp.frames.events import ExtensionUIRequest, Frame, Ready, Response

LIMITS = {"13": 8 * 1024 * 1024, "18": 1024 * 1024, "pi": 8 * 1024 * 1024}
"""The longest line. omp 18 refuses longer ones; the others know no limit, and readers in use allow 16 MiB or more."""
MAX_FRAME = max(LIMITS.values())
_WINDOW = 50
"""Milliseconds between two updates of the same block, as omp has it."""
_RATE = 1500
"""Bytes that updates of one block may take in a millisecond. An update repeats the whole message, so without a limit
the output would grow with the square of its length; with it, long messages are updated less often."""
_SAVED = 1000
"""Milliseconds for which unused bytes of a `ByteQuota` are saved up."""
_ALWAYS = (Ready, Response, ExtensionUIRequest)


class Throttle:
    """Says when the next update of a block may be written. The first may be written at once."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._next = 0

    def due(self) -> int:
        """Milliseconds until the next update may be written."""
        return max(0, self._next - self._now())

    def record(self, size: int) -> None:
        self._next = self._now() + max(_WINDOW, size // _RATE)

    def restart(self) -> None:
        self._next = 0


class ByteQuota:
    """The bytes that repetitions may take: `_RATE`, and what was not used is saved up for at most a second."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._paid_at = 0.0
        """The time by which everything that was spent is covered by the rate."""

    def allows(self, size: int) -> bool:
        return max(0.0, self._paid_at - self._now()) + size / _RATE <= _SAVED

    def spend(self, size: int) -> None:
        self._paid_at = max(self._paid_at, self._now()) + size / _RATE


class LineWriter:
    """Collects lines of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.lost: Counter[str] = Counter()
        """How many events the wire had no frame for, by the name of the event."""
        self.subscribed: frozenset[str] | None = None
        """The types of events that the host wants; None for all."""
        self.limit = limit
        self._out: list[bytes] = []

    def data_to_send(self) -> bytes:
        """The bytes written since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def write(self, frame: Frame, *, large: bool = False) -> int:
        """Write a frame. Returns the size of its line; 0 if the host has not subscribed to it.

        large   the frame holds whole replies, which may be many times as long as a line
        """
        if not (isinstance(frame, _ALWAYS) or self._is_subscribed(str(frame.__struct_config__.tag))):
            return 0
        line = line_limit.line(frame, self.limit, large=large)
        self._out.append(line)
        return len(line)

    def write_fields(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a frame of this type that has no struct."""
        frame = {"type": kind} | {key: value for key, value in fields.items() if key != "type"}
        self.write_line(kind, line_limit.line(frame, self.limit))

    def write_line(self, kind: str, line: bytes) -> int:
        """Write a line that was encoded by the caller. Returns its size."""
        if self._is_subscribed(kind):
            self._out.append(line)
        return len(line)

    def _is_subscribed(self, kind: str) -> bool:
        return self.subscribed is None or kind in self.subscribed
