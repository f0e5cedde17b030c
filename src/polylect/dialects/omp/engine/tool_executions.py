"""Writes running calls: `tool_execution_start`, updates with the output so far, `tool_execution_end` and its message.

Updates repeat the arguments and the last part of the output, and are throttled. A call that never ran (denied, skipped)
gets a start and an end all the same. Used by `agent_stream`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from polylect.dialects.omp.engine.line_writer import LineWriter, Throttle
from polylect.dialects.omp.engine.messages import text_and_images
from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.frames.events import (
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from polylect.vocab.events import ToolCalled, ToolFinished, ToolOutput

_TAIL = 50 * 1024
"""Characters of the output so far that an update repeats. The end has everything that the model is told."""


class _Execution:
    def __init__(self, called: ToolCalled, now: Callable[[], int]) -> None:
        self.called = called
        self.started = now()
        self.output = ""
        self.held = False
        self.throttle = Throttle(now)


class Executions:
    def __init__(self, line_writer: LineWriter, now: Callable[[], int], *, timed: bool) -> None:
        self._line_writer = line_writer
        self._now = now
        self._timed = timed
        """Whether the end of a call says how long it took."""
        self._called: dict[str, ToolCalled] = {}
        self._running: dict[str, _Execution] = {}

    def called(self, event: ToolCalled) -> None:
        self._called[event.call] = event

    def start(self, call: str, name: str) -> None:
        called = self._called.get(call) or ToolCalled(call, name)
        self._running[call] = _Execution(called, self._now)
        args: dict[str, Any] = called.args
        self._line_writer.write(ToolExecutionStart(call, name, args, called.description or UNSET))

    def output(self, event: ToolOutput) -> None:
        running = self._running.get(event.call)
        if running is None:
            self._line_writer.lost["ToolOutput"] += 1
            return
        running.output = (event.text if event.replace else running.output + event.text)[-_TAIL:]
        running.held = True
        if not running.throttle.due():
            self._update(running)

    def due(self) -> int | None:
        """In how many milliseconds something that is held back has to go."""
        return min((running.throttle.due() for running in self._running.values() if running.held), default=None)

    def flush(self) -> None:
        for running in self._running.values():
            if running.held and not running.throttle.due():
                self._update(running)

    def note_progress(self, call: str, agent: str, text: str) -> None:
        """What a sub-agent of this call is doing, for hosts that have no other word for it."""
        if running := self._running.get(call):
            called = running.called
            result = m.ToolOutcome(text_and_images(text))
            self._line_writer.write(ToolExecutionUpdate(call, called.name, called.args, result, agent))

    def finish(self, event: ToolFinished) -> m.ToolResultMessage:
        """A call that never ran is told from its start to its end all the same."""
        if event.call not in self._running:
            self.start(event.call, event.name)
        if (running := self._running.pop(event.call)).held:
            self._update(running)
        self._called.pop(event.call, None)
        details = UNSET if event.metadata is None else event.metadata
        content, failed = text_and_images(event.output, event.images), event.outcome != "ok"
        odd = event.outcome not in ("ok", "error")
        self._line_writer.write(
            ToolExecutionEnd(
                event.call,
                event.name,
                m.ToolOutcome(content, details),
                failed,
                event.outcome if odd else UNSET,
                event.reason if odd and event.reason else UNSET,
                self._now() - running.started if self._timed else UNSET,
            )
        )
        message = m.ToolResultMessage(event.call, event.name, content, failed, self._now(), details)
        self._line_writer.write_message(message)
        return message

    def _update(self, running: _Execution) -> None:
        called = running.called
        result = m.ToolOutcome(text_and_images(running.output))
        size = self._line_writer.write(ToolExecutionUpdate(called.call, called.name, called.args, result))
        running.held = False
        running.throttle.record(size)
