"""Turns frames into lines of limited length, and limits how often large frames are repeated.

An update of a message repeats the whole message so far. `Throttle` spaces such updates out. `ByteQuota` limits the
bytes of all repetitions together, so that the output stays proportional to the message. `LineWriter` also leaves out
events that a host has not subscribed to (`set_event_filter`), and under protocol 2 cuts long frames into chunks.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from polylect.dialects import line_limit
from polylect.dialects.omp.frames.events import Frame, MessageEnd, MessageStart, RpcChunk
from polylect.dialects.omp.frames.messages import Message
from polylect.wire import jsonl

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
_CHUNK = 256 * 1024
"""Bytes of a frame in one chunk of protocol 2, before base64."""
_UNFILTERED = frozenset({
    "available_commands_update", "agent_settled", "command_output", "config_update", "extension_error",
    "extension_ui_request", "host_tool_call", "host_tool_cancel", "host_uri_cancel", "host_uri_request",
    "prompt_result", "ready", "response", "session_info_update", "session_settled", "subagent_event",
    "subagent_lifecycle", "subagent_progress",
})  # fmt: skip
"""Frames that `set_event_filter` never leaves out: a host waits for them, or has subscribed to them otherwise."""


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
        self.numbers_messages = False
        """Whether messages get a `messageId`."""
        self._messages = 0
        self._chunks = 0
        self._longest = 0
        """The longest line under protocol 2, where longer frames are cut into chunks; 0 under protocol 1."""
        self._out: list[bytes] = []

    def use_chunks(self) -> None:
        """Protocol 2: from now on frames may be longer than a line."""
        self._longest, self.limit = LIMITS["18"], MAX_FRAME

    def next_message_id(self) -> str | UnsetType:
        self._messages += 1
        return f"msg-{self._messages}" if self.numbers_messages else UNSET

    def write_message(self, message: Message) -> None:
        """Write the start and the end of a message that is complete."""
        id = self.next_message_id()
        self.write(MessageStart(message, id))
        self.write(MessageEnd(message, id))

    def data_to_send(self) -> bytes:
        """The bytes written since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def write(self, frame: Frame, *, large: bool = False) -> int:
        """Write a frame. Returns the size of its line; 0 if the host has not subscribed to it.

        large   the frame holds whole replies, which may be many times as long as a line
        """
        kind = str(frame.__struct_config__.tag)
        return self.write_line(kind, line_limit.line(frame, self.limit, large=large)) if self._passes(kind) else 0

    def write_fields(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a frame of this type that has no struct."""
        frame = {"type": kind} | {key: value for key, value in fields.items() if key != "type"}
        self.write_line(kind, line_limit.line(frame, self.limit))

    def write_line(self, kind: str, line: bytes) -> int:
        """Write a line that was encoded by the caller. Returns its size."""
        if self._passes(kind):
            self._out += self._cut(line) if 0 < self._longest < len(line) else (line,)
        return len(line)

    def _cut(self, line: bytes) -> list[bytes]:
        """The chunks of a line, which follow one another with nothing in between."""
        from base64 import b64encode  # 1 ms, and only for very long lines

        self._chunks += 1
        frame = line[:-1]
        parts = [frame[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK)]
        chunk_id = f"rpc-{self._chunks}"
        return [
            jsonl.dump(RpcChunk(chunk_id, index, len(parts), len(frame), b64encode(part).decode()))
            for index, part in enumerate(parts)
        ]

    def _passes(self, kind: str) -> bool:
        return self.subscribed is None or kind in self.subscribed or kind in _UNFILTERED
