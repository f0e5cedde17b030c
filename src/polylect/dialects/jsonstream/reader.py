"""Frames to events, as they mean it; the Completer makes them grammatical. Keeps what the wire says only once."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from polylect.dialects.jsonstream import events, questions, shapes
from polylect.dialects.jsonstream.versions import MODES
from polylect.vocab.content import Abilities, Failure
from polylect.vocab.events import (
    Alive,
    Ask,
    AskClosed,
    BudgetExceeded,
    Event,
    Extra,
    Failed,
    Notice,
    Ready,
    ServerChanged,
    SettingChanged,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

Reason = Literal["end", "cancelled", "length", "refused", "limit", "error"]

_REASONS: dict[str, Reason] = {"length": "length", "max_turns": "limit", "error": "error"}


class EventReader:
    def __init__(self) -> None:
        self.asks: dict[str, Ask] = {}
        """Asks that nobody has answered, by id."""
        self.denied: set[str] = set()
        """Calls that the host said no to."""
        self.stopped: set[str] = set()
        """Turns that the host stopped."""
        self.turns: set[str] = set()
        """Turns that were asked for or have begun, and have not ended."""
        self._begun: set[str] = set()
        self._names: dict[str, str] = {}
        self._started: set[str] = set()
        self._lone: set[str] = set()
        """Requests outside any turn: questions without a call."""
        self._failure: tuple[str, Failure] | None = None
        """An error during a turn: the next frame tells whether it ended the turn."""
        self._abilities = Abilities()
        self._mode = ""
        self._model = ""

    def read(self, frame: shapes.Frame, found: dict[str, Any]) -> list[Event]:
        before = [] if isinstance(frame, shapes.StreamEnd | shapes.Pong) else self.flush()
        return before + _MEANINGS[type(frame)](self, frame, found)

    def flush(self) -> list[Event]:
        """An error after which the turn went on has ended nothing."""
        held, self._failure = self._failure, None
        return [Failed(held[1], turn=held[0])] if held else []

    # The connection and its settings.

    def _ready(self, frame: shapes.Ready, found: dict[str, Any]) -> list[Event]:
        self._abilities, self._mode = self._offered(frame, found)
        session = frame.session_id or ""
        return [Ready(version=frame.version, mode=self._mode, abilities=self._abilities, session=session)]

    def _config_changed(self, frame: shapes.ConfigChanged, found: dict[str, Any]) -> list[Event]:
        changed: list[Event] = []
        abilities, mode = self._offered(frame, found)
        if mode != self._mode:
            changed.append(SettingChanged("mode", mode))
        if (model := frame.capabilities.current_model) and model != self._model:
            changed.append(SettingChanged("model", model))
            self._model = str(model)
        if abilities != self._abilities:
            changed.append(SettingChanged("abilities", abilities))
        self._abilities, self._mode = abilities, mode
        return changed

    def _offered(self, frame: shapes.Ready | shapes.ConfigChanged, found: dict[str, Any]) -> tuple[Abilities, str]:
        mode = frame.capabilities.current_mode
        return events.abilities_of(found.get("capabilities", {})), MODES.get(mode, mode)

    def _mcp_ready(self, frame: shapes.McpReady, found: dict[str, Any]) -> list[Event]:
        return [ServerChanged(frame.name, "ready", tuple(frame.tools))]

    def _mcp_failed(self, frame: shapes.McpFailed, found: dict[str, Any]) -> list[Event]:
        return [ServerChanged(frame.name, "failed", reason=frame.reason)]

    def _pong(self, frame: shapes.Pong, found: dict[str, Any]) -> list[Event]:
        return []

    # A turn.

    def _stream_start(self, frame: shapes.StreamStart, found: dict[str, Any]) -> list[Event]:
        self.turns.add(frame.msg_id)
        self._begun.add(frame.msg_id)
        return [TurnStarted(turn=frame.msg_id)]

    def _text_delta(self, frame: shapes.TextDelta, found: dict[str, Any]) -> list[Event]:
        return [TextDelta(frame.text, turn=frame.msg_id)]

    def _thinking(self, frame: shapes.Thinking, found: dict[str, Any]) -> list[Event]:
        """An empty thought is a sign of life."""
        return [ThinkingDelta(frame.text, turn=frame.msg_id) if frame.text else Alive(turn=frame.msg_id)]

    def _stream_end(self, frame: shapes.StreamEnd, found: dict[str, Any]) -> list[Event]:
        turn, finish = frame.msg_id, frame.finish_reason
        failure = self._cause(turn, finish)
        reason = _REASONS.get(finish) or ("error" if failure and not finish else self._quiet_end(turn))
        if reason == "error" and failure is None:
            failure = Failure("error", "the engine did not say why the turn failed", "engine")
        before = self.flush()
        self._forget(turn)
        return [*before, TurnEnded(reason, events.usage_of(frame.usage), failure=failure, turn=turn)]

    def _cause(self, turn: str, finish: str) -> Failure | None:
        """The error just before the end, if it belongs to this turn: aionrs and wayland send it without an id."""
        if self._failure is None:
            return None
        named, failure = self._failure
        if named != turn and (named or failure.owner == "host" or finish not in ("", "error")):
            return None
        self._failure = None
        return failure

    def _quiet_end(self, turn: str) -> Reason:
        """Only we know whether we stopped it. One that never began was dropped from a queue, or needed no model."""
        never_began = turn not in self._begun and (turn not in self.turns or bool(self._begun))
        return "cancelled" if turn in self.stopped or never_began else "end"

    def _forget(self, turn: str) -> None:
        self.turns.discard(turn)
        self._begun.discard(turn)
        self.stopped.discard(turn)
        self.asks = {ask.ask: ask for ask in self.asks.values() if ask.turn != turn}
        if not self.turns:
            self._names.clear()
            self._started.clear()
            self.denied.clear()

    # Calls and asks.

    def _tool_request(self, frame: shapes.ToolRequest, found: dict[str, Any]) -> list[Event]:
        ask, tool = questions.ask_of(frame), frame.tool
        self.asks[ask.ask] = ask
        if not frame.msg_id:
            self._lone.add(frame.call_id)
            return [replace(ask, call="")]
        if frame.call_id in self._names:
            return [ask]
        self._names[frame.call_id] = tool.name
        category = questions.category(tool.category)
        return [ToolCalled(frame.call_id, tool.name, tool.args, category, tool.description, turn=frame.msg_id), ask]

    def _tool_running(self, frame: shapes.ToolRunning, found: dict[str, Any]) -> list[Event]:
        """Said again, it is a sign of life."""
        if frame.call_id in self._started:
            return [Alive(frame.call_id, frame.tool_name, turn=frame.msg_id)]
        self._started.add(frame.call_id)
        self._names.setdefault(frame.call_id, frame.tool_name)
        started = ToolStarted(frame.call_id, frame.tool_name, turn=frame.msg_id)
        return [*self._close_ask(frame.call_id, "allowed"), started]

    def _tool_result(self, frame: shapes.ToolResult, found: dict[str, Any]) -> list[Event]:
        return self._finish(frame.call_id, "allowed", events.finished_of(frame))

    def _tool_cancelled(self, frame: shapes.ToolCancelled, found: dict[str, Any]) -> list[Event]:
        name = self._names.get(frame.call_id, "")
        outcome: Literal["denied", "cancelled"] = "denied" if frame.call_id in self.denied else "cancelled"
        finished = ToolFinished(frame.call_id, name, "", outcome, reason=frame.reason, turn=frame.msg_id)
        return self._finish(frame.call_id, "cancelled", finished)

    def _finish(self, call: str, how: Literal["allowed", "cancelled"], finished: ToolFinished) -> list[Event]:
        closed = self._close_ask(call, how)
        if call in self._lone:
            self._lone.discard(call)
            return closed
        return [*closed, finished]

    def _close_ask(self, call: str, how: Literal["allowed", "cancelled"]) -> list[Event]:
        """Closed without us: by a timeout, a stop, or somebody else's answer."""
        ask = self.asks.pop(call, None)
        if ask is None:
            return []
        answered = how == "allowed" and ask.kind != "permission"
        return [AskClosed(ask.ask, "answered" if answered else how, turn=ask.turn)]

    # What happens around a turn.

    def _error(self, frame: shapes.Error, found: dict[str, Any]) -> list[Event]:
        failure, turn = events.failure_of(frame.error), frame.msg_id or ""
        if not self.turns and not turn:
            return [Failed(failure)]
        self._failure = (turn, failure)
        return []

    def _info(self, frame: shapes.Info, found: dict[str, Any]) -> list[Event]:
        return [Notice(frame.message, turn=frame.msg_id)]

    def _budget_exceeded(self, frame: shapes.BudgetExceeded, found: dict[str, Any]) -> list[Event]:
        return [BudgetExceeded(frame.reason, frame.observed, frame.limit)]

    def _diagnostic(self, frame: shapes.Frame, found: dict[str, Any]) -> list[Event]:
        return [Extra(found["type"], {key: value for key, value in found.items() if key != "type"})]


_MEANINGS: dict[type[shapes.Frame], Callable[[EventReader, Any, dict[str, Any]], list[Event]]] = {
    shapes.Ready: EventReader._ready,
    shapes.ConfigChanged: EventReader._config_changed,
    shapes.McpReady: EventReader._mcp_ready,
    shapes.McpFailed: EventReader._mcp_failed,
    shapes.Pong: EventReader._pong,
    shapes.StreamStart: EventReader._stream_start,
    shapes.TextDelta: EventReader._text_delta,
    shapes.Thinking: EventReader._thinking,
    shapes.StreamEnd: EventReader._stream_end,
    shapes.ToolRequest: EventReader._tool_request,
    shapes.ToolRunning: EventReader._tool_running,
    shapes.ToolResult: EventReader._tool_result,
    shapes.ToolCancelled: EventReader._tool_cancelled,
    shapes.Error: EventReader._error,
    shapes.Info: EventReader._info,
    shapes.BudgetExceeded: EventReader._budget_exceeded,
    **dict.fromkeys(shapes.DIAGNOSTICS.values(), EventReader._diagnostic),
}
