"""The part of a codec that is the same on every wire: what the peer sends is split into lines, which are read.

`EngineSide` of every dialect is a `LineCodec`, and so is `HostCodec`, from which `HostSide` of every dialect is made.
"""

from typing import Generic

from polylect.dialects.base import Env, In
from polylect.wire import jsonl


class LineCodec(Generic[In]):
    """One end of a connection. A subclass says in `_receive_line` what a line means."""

    def __init__(self, env: Env, max_line: int) -> None:
        self._env = env
        self._lines = jsonl.Splitter(max_line)
        self._own_lines = jsonl.Splitter(max_line)
        """Lines that our own end has sent by other means."""

    def start(self) -> list[In]:
        return []

    def receive(self, data: bytes) -> list[In]:
        return [item for line in self._lines.feed(data) for item in self._receive_line(line)]

    def receive_eof(self) -> list[In]:
        return [item for line in self._lines.end() for item in self._receive_line(line)]

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[In]:
        raise NotImplementedError
