"""Events to lines. Keeps what has been said, because that decides what may still be said.

A turn is what the wire calls a stream, from `stream_start` to `stream_end`; a step has no word here.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from polylect.dialects import fit
from polylect.dialects.jsonstream import events, questions, shapes
from polylect.dialects.jsonstream.ready import capabilities
from polylect.dialects.jsonstream.versions import (
    ERRORS_END_TURNS,
    FINISH_REASONS,
    MODES,
    NULL_MSG_ID,
    SAYS_MCP_FAILED,
    SORTS_MAPS,
)
from polylect.vocab.content import Abilities, Failure, Usage
from polylect.vocab.events import (
    Alive,
    Ask,
    AskClosed,
    BlockEnded,
    BudgetExceeded,
    CompactionEnded,
    Event,
    Extra,
    Failed,
    Notice,
    Ready,
    ReplyEnded,
    RetryStarted,
    ServerChanged,
    SettingChanged,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from polylect.wire import jsonl

MAX_FRAME = 8 * 1024 * 1024
"""Deployed readers drop longer lines, or end the engine for one."""

_PIECE = 256 * 1024
_TEXT = b'{"type":"text_delta","text":'
_THINKING = b'{"type":"thinking","text":'
_encode = msgspec.json.Encoder().encode


class EventWriter:
    def __init__(self, version: str) -> None:
        self.lost: Counter[str] = Counter()
        """What this wire has no word for, by the name of the event."""
        self.asks: dict[str, Ask] = {}
        """Asks that wait for their answer, by the call id that went over the wire."""
        self._version = version
        self._out: list[bytes] = []
        self._turns: dict[str, bytes] = {}
        """Turns that were accepted and have not ended, each with the end of its text frames."""
        self._ended: set[str] = set()
        self._called: dict[str, ToolCalled] = {}
        self._running: dict[str, str] = {}
        self._lone_asks: dict[str, tuple[str, str]] = {}
        """Asks without a call, which are calls of their own on the wire: their call id and tool name."""
        self._ready = False
        self._abilities = Abilities()
        self._mode = "default"
        self._model = ""

    def take(self) -> bytes:
        """The bytes written since the last time."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def write(self, event: Event) -> None:
        word = _WORDS.get(type(event))
        if word is None:
            self.lost[type(event).__name__] += 1
        else:
            word(self, event)

    def say(self, frame: shapes.Frame) -> None:
        self.note(frame)
        sort: Literal["deterministic"] | None = "deterministic" if SORTS_MAPS[self._version] else None
        self._out.append(fit.line(msgspec.to_builtins(frame, order=sort), MAX_FRAME))

    def note(self, frame: shapes.Frame) -> None:
        """Our end says this, here or by other means."""
        match frame:
            case shapes.Ready() | shapes.OldReady():
                self._ready = True
            case shapes.StreamStart(msg_id):
                self.open(msg_id)
            case shapes.StreamEnd(msg_id) | shapes.OldStreamEnd(msg_id):
                self._turns.pop(msg_id, None)
                self._ended.add(msg_id)
            case shapes.ToolRequest(call_id=call_id):
                self.asks.setdefault(call_id, questions.ask_of(frame))
            case shapes.ToolRunning(call_id=call_id, tool_name=name):
                self._running[call_id] = name
            case shapes.ToolResult(call_id=call_id) | shapes.ToolCancelled(call_id=call_id):
                self._running.pop(call_id, None)
                self.asks.pop(call_id, None)

    def note_abilities(self, abilities: Abilities, mode: str) -> None:
        self._abilities = abilities
        self._mode = mode

    # What is also said in answer to commands.

    def open(self, turn: str) -> None:
        """From now on there may be frames with this msg_id."""
        self._turns.setdefault(turn, b',"msg_id":' + _quote(turn) + b"}\n")
        self._ended.discard(turn)

    def error(self, fault: shapes.Fault, msg_id: str | None = None) -> None:
        shape = shapes.OldError if NULL_MSG_ID[self._version] else shapes.Error
        self.say(shape(msg_id=msg_id, error=fault))

    def stream_end(self, turn: str, reason: str, usage: Usage) -> None:
        said = events.usage(usage)
        finish = FINISH_REASONS[self._version].get(reason)
        self.say(shapes.StreamEnd(turn, finish, said) if finish else shapes.OldStreamEnd(turn, said))

    def server_failed(self, name: str, reason: str) -> None:
        if SAYS_MCP_FAILED[self._version]:
            self.say(shapes.McpFailed(name, reason))
        else:
            self.say(shapes.Info("", f"The MCP server {name} could not be used: {reason}"))
            self.say(shapes.McpReady(name, []))

    # The connection and its settings.

    def _say_ready(self, event: Ready) -> None:
        if self._ready:
            return
        self.note_abilities(event.abilities, event.mode)
        session, offered = event.session or None, self._capabilities(complete=False)
        if self._version == "0.1.0":
            old = msgspec.convert(offered, shapes.OldCapabilities)
            self.say(shapes.OldReady(version=self._version, session_id=session, capabilities=old))
        else:
            new = msgspec.convert(offered, shapes.Capabilities)
            self.say(shapes.Ready(version=self._version, session_id=session, capabilities=new))

    def _setting_changed(self, event: SettingChanged) -> None:
        match event.key, event.value:
            case "mode", str(mode):
                self._mode = MODES.get(mode, mode)
            case "model", str(model):
                self._model = model
            case "abilities", Abilities() as abilities:
                self._abilities = abilities
            case (("effort" | "thinking"), _):
                pass
            case _:
                self.lost["SettingChanged"] += 1
                return
        offered = self._capabilities(complete=True)
        if self._version == "0.1.0":
            self.say(shapes.OldConfigChanged(msgspec.convert(offered, shapes.OldCapabilities)))
        else:
            self.say(shapes.ConfigChanged(msgspec.convert(offered, shapes.Capabilities)))

    def _capabilities(self, *, complete: bool) -> dict[str, object]:
        return capabilities(
            self._version,
            approval=self._abilities.approval,
            thinking=self._abilities.thinking,
            effort_levels=self._abilities.effort_levels,
            modes=self._abilities.modes,
            mode=self._mode,
            mcp=self._abilities.mcp,
            model=self._model if complete else "",
            extras=self._abilities.extras,
            complete=complete,
        )

    def _server_changed(self, event: ServerChanged) -> None:
        match event.status:
            case "ready":
                self.say(shapes.McpReady(event.name, list(event.tools)))
            case "failed":
                self.server_failed(event.name, event.reason)
            case _:
                self.lost["ServerChanged"] += 1

    # A turn.

    def _turn_started(self, event: TurnStarted) -> None:
        self.say(shapes.StreamStart(event.turn))

    def text(self, event: TextDelta) -> None:
        """Nearly all that is ever said, so the plain case is written out: 0.3 us instead of 0.6."""
        text, tail = event.text, self._turns.get(event.turn)
        if tail and not event.agent and len(text) <= _PIECE:
            self._out.append(_TEXT + (_encode(text) if text.isascii() else _quote(text)) + tail)
        else:
            self._delta(_TEXT, event)

    def _thinking(self, event: ThinkingDelta) -> None:
        self._delta(_THINKING, event)

    def _delta(self, head: bytes, event: TextDelta | ThinkingDelta) -> None:
        tail = self._turns.get(event.turn)
        if tail is None or event.agent:
            self.lost[type(event).__name__] += 1
            return
        self._out += [head + _quote(piece) + tail for piece in fit.pieces(event.text, _PIECE)]

    def _turn_ended(self, event: TurnEnded) -> None:
        if event.turn in self._ended:
            self.lost["TurnEnded"] += 1
            return
        failure = event.failure
        if failure is None and event.reason == "error":
            failure = Failure("error", "the turn failed", "engine")
        if failure:
            self.error(events.fault(failure), event.turn)
        self.stream_end(event.turn, event.reason, event.usage)

    # Calls and asks.

    def _tool_called(self, event: ToolCalled) -> None:
        """Said by `tool_request` if somebody has to be asked, and else not at all."""
        self._called[event.call] = event

    def _ask(self, event: Ask) -> None:
        call_id = event.call if event.call and event.call not in self.asks else event.ask
        called = self._called.get(event.call)
        tool = questions.tool_of(event, called)
        if called is None or call_id != event.call:
            self._lone_asks[event.ask] = (call_id, tool.name)
        self.asks[call_id] = event  # before it is written (A3)
        self.say(shapes.ToolRequest(self._turn(event), call_id, tool))

    def _ask_closed(self, event: AskClosed) -> None:
        for call_id in [call_id for call_id, ask in self.asks.items() if ask.ask == event.ask]:
            del self.asks[call_id]
        call_id, name = self._lone_asks.pop(event.ask, ("", ""))
        if not call_id:
            return
        if event.how in ("allowed", "answered"):
            self.say(shapes.ToolResult(self._turn(event), call_id, name, "success", event.reason, "text"))
        else:
            self.say(shapes.ToolCancelled(self._turn(event), call_id, event.reason or event.how))

    def _tool_started(self, event: ToolStarted) -> None:
        self.say(shapes.ToolRunning(self._turn(event), event.call, event.name))

    def _tool_finished(self, event: ToolFinished) -> None:
        self._called.pop(event.call, None)
        if event.outcome in ("ok", "error"):
            self.say(events.result(event, self._turn(event)))
        else:
            reason = event.reason or event.output or event.outcome
            self.say(shapes.ToolCancelled(self._turn(event), event.call, reason))

    # What happens around a turn.

    def _alive(self, event: Alive) -> None:
        """L3: a word that no host shows as text."""
        if event.call in self._running:
            self.say(shapes.ToolRunning(self._turn(event), event.call, self._running[event.call]))
        elif event.turn in self._turns:
            self.say(shapes.Thinking("", event.turn))

    def _notice(self, event: Notice) -> None:
        self._info(event, event.text)

    def _retry_started(self, event: RetryStarted) -> None:
        self._info(event, events.retry_text(event))

    def _compaction_ended(self, event: CompactionEnded) -> None:
        self._info(event, events.compaction_text(event))

    def _budget_exceeded(self, event: BudgetExceeded) -> None:
        if self._version == "0.1.0":
            self._info(event, f"Budget {event.reason} exceeded: {event.observed} of {event.limit}")
        else:
            self.say(shapes.BudgetExceeded(event.reason, event.observed, event.limit))

    def _failed(self, event: Failed) -> None:
        if self._turns and ERRORS_END_TURNS[self._version]:
            self._info(event, event.failure.message)
        else:
            self.error(events.fault(event.failure), self._turn(event) or None)

    def _extra(self, event: Extra) -> None:
        shape = shapes.EVENTS[self._version].get(event.kind)
        try:
            if shape is None or event.kind not in shapes.DIAGNOSTICS:
                raise ValueError(event.kind)
            self.say(msgspec.convert({**event.data, "type": event.kind}, shape))
        except ValueError:
            self.lost[f"Extra {event.kind}"] += 1

    def _rebuilt(self, event: Event) -> None:
        """Not said: the other end finds it out by itself."""

    def _info(self, event: Event, message: str) -> None:
        self.say(shapes.Info(self._turn(event), message))

    def _turn(self, event: Event) -> str:
        """Nothing carries the msg_id of a turn that has ended: hosts would take it for a new beginning."""
        return event.turn if event.turn in self._turns else ""


_WORDS: dict[type[Event], Callable[[EventWriter, Any], None]] = {
    Ready: EventWriter._say_ready,
    SettingChanged: EventWriter._setting_changed,
    ServerChanged: EventWriter._server_changed,
    TurnStarted: EventWriter._turn_started,
    TextDelta: EventWriter.text,
    ThinkingDelta: EventWriter._thinking,
    TurnEnded: EventWriter._turn_ended,
    ToolCalled: EventWriter._tool_called,
    Ask: EventWriter._ask,
    AskClosed: EventWriter._ask_closed,
    ToolStarted: EventWriter._tool_started,
    ToolFinished: EventWriter._tool_finished,
    Alive: EventWriter._alive,
    Notice: EventWriter._notice,
    RetryStarted: EventWriter._retry_started,
    CompactionEnded: EventWriter._compaction_ended,
    BudgetExceeded: EventWriter._budget_exceeded,
    Failed: EventWriter._failed,
    Extra: EventWriter._extra,
    StepStarted: EventWriter._rebuilt,
    BlockEnded: EventWriter._rebuilt,
    ReplyEnded: EventWriter._rebuilt,
    StepEnded: EventWriter._rebuilt,
}


def _quote(text: str) -> bytes:
    try:
        return jsonl.armour(_encode(text))
    except UnicodeEncodeError:  # a lone surrogate
        return jsonl.dump(text)[:-1]
