"""Frames to lines, and how often a frame that repeats all that came before it may be said."""

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
_ALWAYS = (Ready, Response, ExtensionUIRequest)


class Throttle:
    """When the next update may go. The first may go at once."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._next = 0

    def due(self) -> int:
        """In so many milliseconds."""
        return max(0, self._next - self._now())

    def record(self, size: int) -> None:
        self._next = self._now() + max(_WINDOW, size // _RATE)

    def restart(self) -> None:
        self._next = 0


class LineWriter:
    def __init__(self, limit: int) -> None:
        self.lost: Counter[str] = Counter()
        """What this wire has no word for, by the name of the event."""
        self.subscribed: frozenset[str] | None = None
        """Events that the host wants to hear, if it does not want all."""
        self.limit = limit
        self._out: list[bytes] = []

    def data_to_send(self) -> bytes:
        """The bytes written since the last time."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def write(self, frame: Frame) -> None:
        if isinstance(frame, _ALWAYS) or self._is_subscribed(str(frame.__struct_config__.tag)):
            self._out.append(line_limit.line(frame, self.limit))

    def write_fields(self, kind: str, fields: dict[str, Any]) -> None:
        """A frame of this type that has no shape, or not always the same."""
        frame = {"type": kind} | {key: value for key, value in fields.items() if key != "type"}
        self.write_line(kind, line_limit.line(frame, self.limit))

    def write_line(self, kind: str, line: bytes) -> int:
        """A line of this type that was made elsewhere; its size."""
        if self._is_subscribed(kind):
            self._out.append(line)
        return len(line)

    def _is_subscribed(self, kind: str) -> bool:
        return self.subscribed is None or kind in self.subscribed
