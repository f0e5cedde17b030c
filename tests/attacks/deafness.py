"""How long an engine is deaf: the longest time that a ping waited while the engine did something else.

A `Listener` sends a ping, reads until its answer comes, and sends the next one. So the longest wait is at least half
of the longest time in which the engine's event loop was held up.
"""

import json
import time
from collections.abc import Callable

from engine_process import Engine, Frame
from machine import PATIENCE

PING = b'{"type":"ping"}\n'


class Listener:
    """Pings one engine on json-stream, and keeps the longest wait for an answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.worst = 0.0
        """Seconds."""
        self.pings = 0

    def ping(self) -> list[bytes]:
        """One ping. Returns the lines that came before its answer."""
        lines: list[bytes] = []
        began = time.monotonic()
        self.engine.send(PING)
        while not (line := self.engine.line()).startswith(b'{"type":"pong"'):
            assert line, f"the engine has ended; on stderr: {self.engine.errors}"
            lines.append(line)
        self.worst = max(self.worst, time.monotonic() - began)
        self.pings += 1
        return lines

    def until(self, kind: str, within: float = PATIENCE) -> list[bytes]:
        """Ping until a frame of this kind has come. Returns all lines that came."""
        return self.while_waiting(lambda line: line.startswith(b'{"type":"%b"' % kind.encode()), within)

    def while_waiting(self, has_come: Callable[[bytes], bool], within: float = PATIENCE) -> list[bytes]:
        deadline, lines = time.monotonic() + within, []
        while not any(map(has_come, fresh := self.ping())):
            lines += fresh
            assert time.monotonic() < deadline, f"it did not come within {within} s; last: {lines[-3:]}"
        return lines + fresh


def results(lines: list[bytes]) -> list[Frame]:
    return [json.loads(line) for line in lines if line.startswith(b'{"type":"tool_result"')]
