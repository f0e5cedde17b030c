"""How long an engine is deaf: the longest time that a ping waited while the engine did something else.

A `Listener` sends a ping, reads until its answer comes, and sends the next one as soon as the engine says more, or
after 10 ms. So the longest wait is at least half of the longest time in which the engine's event loop was held up, but
for these 10 ms; without them, two processes would do nothing but ping and pong. On a busy machine a ping also waits
for other processes; therefore the engine's own CPU time is measured beside the time by the clock.
"""

import json
import os
import time

from engine_process import Engine, Frame
from machine import PATIENCE, cpu, slowness

MOST = 0.25
"""Seconds within which a ping is answered on a quiet machine."""
PING = b'{"type":"ping"}\n'
_PAUSE = 0.01
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Listener:
    """Pings one engine, and keeps the longest wait for an answer.

    ping, pong   a question and the beginning of its answer, for wires without pings
    """

    def __init__(self, engine: Engine, ping: bytes | Frame = PING, pong: bytes = b'{"type":"pong"') -> None:
        self.engine = engine
        self._ping, self._pong = ping, pong
        self.worst = 0.0
        """The longest wait, in seconds."""
        self.worst_cpu = 0.0
        """The CPU time that the engine took during it."""

    def ping(self) -> list[bytes]:
        """One ping. Returns the lines that came before its answer."""
        lines: list[bytes] = []
        began, used = time.monotonic(), self._cpu()
        self.engine.send(self._ping)
        while not (line := self.engine.line()).startswith(self._pong):
            assert line, f"the engine has ended; on stderr: {self.engine.errors}"
            lines.append(line)
        if (took := time.monotonic() - began) > self.worst:
            self.worst, self.worst_cpu = took, self._cpu() - used
        return lines

    def forget(self) -> None:
        """Count from here on."""
        self.worst = self.worst_cpu = 0.0

    def check(self) -> None:
        """Every ping was answered in time, or the machine had no time for the engine."""
        if self.worst < MOST:
            return
        result = f"a ping waited {self.worst:.2f} s, {self.worst_cpu:.2f} s of them the engine was at work"
        assert self.worst_cpu < cpu(MOST * 0.8), result
        assert self.worst < 8 * MOST or self.worst < MOST * slowness(), result

    def _cpu(self) -> float:
        return self.engine.effort[1] * _TICK

    def until(self, kind: str) -> list[bytes]:
        """Ping until a frame of this kind has come. Returns all lines that came."""
        lines, came = self.ping_for(PATIENCE, kind)
        assert came, f"no {kind} came within {PATIENCE} s; last: {lines[-3:]}"
        return lines

    def ping_for(self, seconds: float, until: str) -> tuple[list[bytes], bool]:
        """Ping until a frame of this kind has come, or for so long. Returns all lines, and whether it has come."""
        deadline, lines, expected = time.monotonic() + seconds, list[bytes](), b'{"type":"%b"' % until.encode()
        while time.monotonic() < deadline:
            lines += (fresh := self.ping())
            if any(line.startswith(expected) for line in fresh):
                return lines, True
            self.engine.says_something(_PAUSE)
        return lines, False


def results(lines: list[bytes]) -> list[Frame]:
    return [json.loads(line) for line in lines if line.startswith(b'{"type":"tool_result"')]
