"""Turns events into lines. `_HANDLERS` says which method writes which event.

A turn is a stream on the wire, from `stream_start` to `stream_end`; steps are not written. `EventWriter` notes every
frame that it writes, because that decides what may follow: nothing carries the `msg_id` of a turn that has ended, and
an `error` during a turn would end it for hosts of 0.2.0. Events without a frame are counted in `lost`.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from polylect.dialects import line_limit
from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream import events, versions
from polylect.dialects.jsonstream.engine.output_lines import OutputLines
from polylect.dialects.jsonstream.engine.subagents import SubagentWriter
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.dialects.jsonstream.frames.table import EVENTS
from polylect.dialects.jsonstream.ready import USUAL_MODES, capabilities, ready_line
from polylect.dialects.jsonstream.wayland_desktop import CallAnnounced
from polylect.vocab import events as e
from polylect.vocab.content import Abilities, Failure, Usage
from polylect.wire import jsonl

_PIECE = 256 * 1024
_TEXT = b'{"type":"text_delta","text":'
_THINKING = b'{"type":"thinking","text":'
_encode = msgspec.json.Encoder().encode


def _tool(call: e.ToolCalled) -> shapes.Tool:
    return shapes.Tool(call.name, call.category, call.args, call.description)


class EventWriter:
    """Writes the events of one connection, or of one sub-agent. `abilities` are those of the engine, if known."""

    def __init__(self, version: str, abilities: Abilities | None = None, *, announce_calls: bool = False) -> None:
        self.lost: Counter[str] = Counter()
        """How many events the wire had no frame for, by the name of the event."""
        self.asks: dict[str, e.Ask] = {}
        """Asks that wait for their answer, by the call id that went over the wire."""
        self.suspended: dict[str, e.Ask | None] = {}
        """Asks that are answered by `approval_resume`, by its token; None once that has come."""
        self._version = version
        self._announce_calls = announce_calls
        self._out: list[bytes] = []
        self._turns: dict[str, bytes] = {}
        """Turns that were accepted and have not ended, each with the end of its text frames."""
        self._ended: set[str] = set()
        self._running: dict[str, str] = {}
        """Calls that run: their tool's name."""
        self._ready = False
        self._session = ""
        self._abilities = abilities or Abilities()
        self._mode = "default"
        self._model = ""
        self.tools: dict[str, list[str]] = {}
        """The tools of each MCP server."""
        self._called: dict[str, e.ToolCalled] = {}
        self._asks_without_call: dict[str, tuple[str, str]] = {}
        """Asks without a call, which are calls of their own on the wire: their call id and tool name."""
        self._subagents = SubagentWriter(lambda: EventWriter(version, self._abilities))
        self._inner_calls: set[str] = set()
        """Calls of sub-agents that run inside `sub_agent_event`."""
        self._shown_calls: set[str] = set()
        """Calls of sub-agents that somebody was asked about: they are shown like calls of the turn."""
        self._questions: dict[str, e.ToolStarted] = {}
        """Calls of `AskUserQuestion` that nobody has answered: hosts know a call that runs only after its request."""
        self._requested: set[str] = set()
        """Calls that a request was made for."""
        self._answering: dict[str, str] = {}
        """Which of them an ask belongs to."""
        self._declined: dict[str, str] = {}
        """Those that were not answered, and why."""
        self._chunks = OutputLines()
        self._compaction = e.CompactionStarted()
        self._window = 0

    def data_to_send(self) -> bytes:
        """The bytes written since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    @property
    def busy(self) -> bool:
        """A turn was accepted and has not ended."""
        return bool(self._turns)

    def can_write(self, kind: str) -> bool:
        """Whether events of this kind may be written: always, or while a flag is on."""
        flags = versions.FAMILIES.get(kind, ())
        return not flags or any(
            self._abilities.extras.get(flag) for flag in flags if flag in versions.FLAGS[self._version]
        )

    def write_frame(self, frame: shapes.Frame) -> None:
        self.note(frame)
        sort: Literal["deterministic"] | None = "deterministic" if versions.SORTS_MAPS[self._version] else None
        self._out.append(line_limit.line(msgspec.to_builtins(frame, order=sort), versions.MAX_FRAME))

    def note(self, frame: shapes.Frame) -> None:
        """Note a frame that this end writes, here or by other means."""
        match frame:
            case shapes.Ready(session_id=session) | shapes.OldReady(session_id=session):
                self._ready = True
                self._session = session or ""
            case shapes.StreamStart(msg_id):
                self.open(msg_id)
            case shapes.StreamEnd(msg_id) | shapes.OldStreamEnd(msg_id):
                self._turns.pop(msg_id, None)
                self._ended.add(msg_id)
            case shapes.ToolRequest(call_id=call_id):
                self.asks.setdefault(call_id, asks_format.ask_of(frame))
            case shapes.ToolRunning(call_id=call_id, tool_name=name):
                self._running[call_id] = name
            case shapes.ToolResult(call_id=call_id) | shapes.ToolCancelled(call_id=call_id):
                self._running.pop(call_id, None)
                self.asks.pop(call_id, None)
            case optional.ApprovalRequired(resume_token=token) if token:
                self.suspended.setdefault(token, asks_format.suspended_of(frame))
            case optional.ApprovalResumed(token):
                self.suspended.pop(token, None)

    def note_abilities(self, abilities: Abilities, mode: str) -> None:
        self._abilities = abilities
        self._mode = mode

    def write(self, event: e.Event) -> None:
        if event.agent and self.can_write("sub_agent_event") and not self._is_for_host(event):
            self._forward(event)
            return
        handler = _HANDLERS.get(type(event))
        if handler is None:
            self.lost[type(event).__name__] += 1
        else:
            handler(self, event)

    # Sub-agents.

    def _is_for_host(self, event: e.Event) -> bool:
        """An ask is put to the host like any other (A8), and its call is then shown to the end."""
        match event:
            case e.Ask() | e.AskClosed() | e.ToolCalled():
                return True
            case e.ToolStarted(call) | e.ToolOutput(call) | e.ToolFinished(call):
                return call in self._shown_calls
            case _:
                return False

    def _forward(self, event: e.Event) -> None:
        match event:
            case e.ToolStarted(call):
                self._inner_calls.add(call)
            case e.ToolFinished(call):
                self._inner_calls.discard(call)
                self._called.pop(call, None)
        for frame in self._subagents.frames(event):
            self.write_frame(frame)

    # The connection and its settings.

    def _write_ready(self, event: e.Ready) -> None:
        if self._ready:
            return
        self.note_abilities(event.abilities, event.mode)
        self._ready, self._session = True, event.session
        self._out.append(ready_line(self._version, event.session, self._capabilities()))

    def _setting_changed(self, event: e.SettingChanged) -> None:
        match event.key, event.value:
            case "mode", str(mode):
                self._mode = versions.OUR_MODES.get(mode, mode)
            case "model", str(model):
                self._model = model
            case "abilities", Abilities() as abilities:
                self._abilities = abilities
            case (("effort" | "thinking" | "thinking_budget" | "compaction" | "image_input"), _):
                pass
            case _:
                self.lost["SettingChanged"] += 1
                return
        offered = self._capabilities(complete=True)
        if self._version == "0.1.0":
            self.write_frame(shapes.OldConfigChanged(msgspec.convert(offered, shapes.OldCapabilities)))
        else:
            self.write_frame(shapes.ConfigChanged(msgspec.convert(offered, shapes.Capabilities)))

    def _server_changed(self, event: e.ServerChanged) -> None:
        match event.status:
            case "ready":
                self.tools[event.name] = list(event.tools)
                self.write_frame(shapes.McpReady(event.name, self.tools[event.name]))
            case "failed":
                self.server_failed(event.name, event.reason)
            case _:
                self.lost["ServerChanged"] += 1

    # A turn.

    def _turn_started(self, event: e.TurnStarted) -> None:
        self.write_frame(shapes.StreamStart(event.turn))

    def text(self, event: e.TextDelta) -> None:
        """The most frequent event, so the plain case has a path of its own: 0.3 us instead of 0.6."""
        text, tail = event.text, self._turns.get(event.turn)
        if tail and not event.agent and len(text) <= _PIECE:
            self._out.append(_TEXT + (_encode(text) if text.isascii() else _quote(text)) + tail)
        else:
            self.write(event)

    def _delta(self, event: e.TextDelta | e.ThinkingDelta) -> None:
        tail = self._turns.get(event.turn)
        if tail is None or event.agent:
            self.lost[type(event).__name__] += 1
            return
        head = _TEXT if isinstance(event, e.TextDelta) else _THINKING
        self._out += [head + _quote(piece) + tail for piece in line_limit.pieces(event.text, _PIECE)]

    def _turn_ended(self, event: e.TurnEnded) -> None:
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

    def _tool_called(self, event: e.ToolCalled) -> None:
        """Not written: `tool_request` tells of the call if somebody has to be asked."""
        self._called[event.call] = event

    def _ask(self, event: e.Ask) -> None:
        if self._suspends(event):
            self.suspended[event.ask] = event
            self.write_frame(asks_format.approval_required(event))
            self.write_frame(optional.Suspend("awaiting_approval", event.ask))
            return
        if event.call in self._questions:
            self._answering[event.ask] = event.call
        in_use = event.call in self.asks or event.call in self._inner_calls or self._asks_again(event)
        call_id = event.call if event.call and not in_use else event.ask
        called = self._called.get(event.call)
        tool = asks_format.tool_of(event, called)
        if called is None or call_id != event.call:
            self._asks_without_call[event.ask] = (call_id, tool.name)
        elif event.agent:
            self._shown_calls.add(event.call)
        self._requested.add(call_id)
        self.asks[call_id] = event  # before it is written (A3)
        self.write_frame(shapes.ToolRequest(self._turn(event), call_id, tool))

    def _asks_again(self, event: e.Ask) -> bool:
        """A question of a call that was asked about before is a request of its own: each is closed by itself."""
        return event.call in self._requested and event.kind != "permission"

    def _suspends(self, event: e.Ask) -> bool:
        """A running call needs permission for one of its steps."""
        running = event.call in self._running or event.call in self._inner_calls
        return running and event.kind == "permission" and self.can_write("approval_required")

    def _ask_closed(self, event: e.AskClosed) -> None:
        allowed = event.how in ("allowed", "answered")
        if event.ask in self.suspended:
            del self.suspended[event.ask]
            self.write_frame(optional.ApprovalResumed(event.ask, allowed))
        for call_id in [call_id for call_id, ask in self.asks.items() if ask.ask == event.ask]:
            del self.asks[call_id]
        if question := self._answering.pop(event.ask, ""):
            self._question_closed(question, allowed, event.reason or event.how)
        call_id, name = self._asks_without_call.pop(event.ask, ("", ""))
        if not call_id:
            return
        if allowed:
            self.write_frame(shapes.ToolResult(self._turn(event), call_id, name, "success", event.reason, "text"))
        else:
            self.write_frame(shapes.ToolCancelled(self._turn(event), call_id, event.reason or event.how))

    def _question_closed(self, call: str, answered: bool, reason: str) -> None:
        if answered:
            self._write_running(self._questions.pop(call))
        else:
            self._declined[call] = reason

    def _tool_started(self, event: e.ToolStarted) -> None:
        if event.name == asks_format.QUESTION and not event.agent and event.call not in self._requested:
            self._questions[event.call] = event
        else:
            self._write_running(event)

    def _write_running(self, event: e.ToolStarted) -> None:
        called = self._called.get(event.call)
        if self._announce_calls and called and not event.agent and event.call not in self._requested:
            self.write_frame(CallAnnounced(self._turn(event), event.call, _tool(called)))
        self.write_frame(shapes.ToolRunning(self._turn(event), event.call, event.name))

    def _tool_output(self, event: e.ToolOutput) -> None:
        if event.call in self._running and self.can_write("tool_chunk"):
            self._write_chunks(event, self._chunks.add(event.call, event.text, replace=event.replace))
        else:
            self.lost["ToolOutput"] += 1

    def _write_chunks(self, event: e.ToolOutput | e.ToolFinished, lines: list[str]) -> None:
        name = self._running.get(event.call, "")
        for line in lines:
            self.write_frame(optional.ToolChunk(self._turn(event), event.call, name, line))

    def _tool_finished(self, event: e.ToolFinished) -> None:
        called = self._called.pop(event.call, None)
        unsaid = called if event.outcome == "denied" and event.call not in self._requested else None
        self._shown_calls.discard(event.call)
        self._requested.discard(event.call)
        self._write_chunks(event, self._chunks.end(event.call))
        question, declined = self._questions.pop(event.call, None), self._declined.pop(event.call, None)
        if declined is not None:
            self.write_frame(shapes.ToolCancelled(self._turn(event), event.call, declined))
            return
        if question:
            self._write_running(question)
        if event.outcome in ("ok", "error"):
            self.write_frame(events.result(event, self._turn(event)))
        else:
            reason = event.reason or event.output or event.outcome
            about = (self._turn(event), event.call, reason)
            self.write_frame(shapes.ToolDenied(*about, _tool(unsaid)) if unsaid else shapes.ToolCancelled(*about))

    # What happens around a turn.

    def _alive(self, event: e.Alive) -> None:
        """A sign of life that no host shows as text (L3)."""
        if event.call in self._running:
            self.write_frame(shapes.ToolRunning(self._turn(event), event.call, self._running[event.call]))
        elif event.turn in self._turns:
            self.write_frame(shapes.Thinking("", event.turn))

    def _notice(self, event: e.Notice) -> None:
        self._info(event, event.text)

    def _display(self, event: e.Display) -> None:
        """A display of text is an `info`; others have no frame."""
        if (text := events.display_text(event)) is None:
            self.lost["Display"] += 1
        else:
            self._info(event, text)

    def _retry_started(self, event: e.RetryStarted) -> None:
        self._info(event, events.retry_text(event))

    def _compaction_started(self, event: e.CompactionStarted) -> None:
        """Not written: the end of the compaction is."""
        self._compaction = event
        self.lost["CompactionStarted"] += 1

    def _context_used(self, event: e.ContextUsed) -> None:
        self._window = event.size
        self.lost["ContextUsed"] += 1

    def _compaction_ended(self, event: e.CompactionEnded) -> None:
        if event.ok and self.can_write("compact_offload"):
            self.write_frame(events.offload(event, self._compaction, self._turn(event), self._window))
        else:
            self._info(event, events.compaction_text(event))

    def _budget_exceeded(self, event: e.BudgetExceeded) -> None:
        if self._version == "0.1.0":
            self._info(event, f"Budget {event.reason} exceeded: {event.observed} of {event.limit}")
        else:
            self.write_frame(optional.BudgetExceeded(event.reason, event.observed, event.limit))

    def _failed(self, event: e.Failed) -> None:
        self.refuse(events.fault(event.failure), self._turn(event))

    def _cost_changed(self, event: e.CostChanged) -> None:
        self._write_if_supported("session_cost", "CostChanged", lambda: events.cost(event, self._session))

    def _extra(self, event: e.Extra) -> None:
        self._write_if_supported(event.kind, f"Extra {event.kind}", lambda: events.extra(event, self._turn(event)))

    def _circuit_changed(self, event: e.CircuitChanged) -> None:
        self._write_if_supported("provider_circuit_event", "CircuitChanged", lambda: events.circuit(event))

    def _tool_crashed(self, event: e.ToolCrashed) -> None:
        frame = optional.ToolPanicked(self._turn(event), event.call, event.name, event.error)
        self._write_if_supported("tool_panicked", "ToolCrashed", lambda: frame)

    def _step_traced(self, event: e.StepTraced) -> None:
        self._write_if_supported("trace_event", "StepTraced", lambda: events.trace(event, self._turn(event)))

    def _extension_rejected(self, event: e.ExtensionRejected) -> None:
        frame = optional.PluginRegistrationFailed(event.extension, event.surface, event.code, event.message)
        self._write_if_supported("plugin_registration_failed", "ExtensionRejected", lambda: frame)

    def _extension_event(self, event: e.ExtensionEvent) -> None:
        frame = optional.PluginEvent(event.extension, event.kind, event.payload)
        self._write_if_supported("plugin_event", "ExtensionEvent", lambda: frame)

    def _write_if_supported(self, kind: str, name: str, frame: Callable[[], shapes.Frame]) -> None:
        """Write the frame if this version has it, its flag is on and no field is missing."""
        try:
            if kind not in EVENTS[self._version] or not self.can_write(kind):
                raise ValueError(kind)
            self.write_frame(frame())
        except ValueError:
            self.lost[name] += 1

    def _not_written(self, event: e.Event) -> None:
        """Not written: the other end derives it."""

    # Also used for replies to commands.

    def open(self, turn: str) -> None:
        """From now on frames may carry this msg_id."""
        self._turns.setdefault(turn, b',"msg_id":' + _quote(turn) + b"}\n")
        self._ended.discard(turn)

    def error(self, fault: shapes.Fault, msg_id: str | None = None) -> None:
        shape = shapes.OldError if versions.NULL_MSG_ID[self._version] else shapes.Error
        self.write_frame(shape(msg_id=msg_id, error=fault))

    def refuse(self, fault: shapes.Fault, msg_id: str = "") -> None:
        """Write a failure that ends no turn, in a form that hosts do not take for the end of one."""
        if self._turns and versions.ERRORS_END_TURNS[self._version]:
            self.write_frame(shapes.Info(msg_id, fault.message))
        else:
            self.error(fault, msg_id or None)

    def stream_end(self, turn: str, reason: str, usage: Usage) -> None:
        wire_usage = events.usage(usage)
        finish = versions.FINISH_REASONS[self._version].get(reason)
        self.write_frame(
            shapes.StreamEnd(turn, finish, wire_usage) if finish else shapes.OldStreamEnd(turn, wire_usage)
        )

    def server_failed(self, name: str, reason: str, *, explained: bool = False) -> None:
        if versions.SAYS_MCP_FAILED[self._version]:
            self.write_frame(shapes.McpFailed(name, reason))
            return
        if not explained:
            self.write_frame(shapes.Info("", f"The MCP server {name} could not be used: {reason}"))
        self.write_frame(shapes.McpReady(name, []))

    # What many events share.

    def _info(self, event: e.Event, message: str) -> None:
        self.write_frame(shapes.Info(self._turn(event), message))

    def _turn(self, event: e.Event) -> str:
        """Nothing carries the msg_id of a turn that has ended: hosts would take it for a new beginning."""
        return event.turn if event.turn in self._turns else ""

    def _capabilities(self, *, complete: bool = False) -> dict[str, object]:
        abilities = self._abilities
        return capabilities(
            self._version,
            approval=abilities.approval,
            thinking=abilities.thinking,
            effort_levels=abilities.effort_levels,
            modes=tuple(mode for mode in abilities.modes if mode in USUAL_MODES),
            mode=self._mode,
            mcp=abilities.mcp,
            images=abilities.images,
            model=self._model if complete else "",
            extras=abilities.extras,
            complete=complete,
        )


def _quote(text: str) -> bytes:
    try:
        return jsonl.escape_separators(_encode(text))
    except UnicodeEncodeError:  # a lone surrogate
        return jsonl.dump(text)[:-1]


_HANDLERS: dict[type[e.Event], Callable[[EventWriter, Any], None]] = {
    e.Ready: EventWriter._write_ready,
    e.SettingChanged: EventWriter._setting_changed,
    e.ServerChanged: EventWriter._server_changed,
    e.TurnStarted: EventWriter._turn_started,
    e.TextDelta: EventWriter._delta,
    e.ThinkingDelta: EventWriter._delta,
    e.TurnEnded: EventWriter._turn_ended,
    e.ToolCalled: EventWriter._tool_called,
    e.Ask: EventWriter._ask,
    e.AskClosed: EventWriter._ask_closed,
    e.ToolStarted: EventWriter._tool_started,
    e.ToolOutput: EventWriter._tool_output,
    e.ToolFinished: EventWriter._tool_finished,
    e.Alive: EventWriter._alive,
    e.Notice: EventWriter._notice,
    e.Display: EventWriter._display,
    e.RetryStarted: EventWriter._retry_started,
    e.CompactionStarted: EventWriter._compaction_started,
    e.CompactionEnded: EventWriter._compaction_ended,
    e.ContextUsed: EventWriter._context_used,
    e.CostChanged: EventWriter._cost_changed,
    e.BudgetExceeded: EventWriter._budget_exceeded,
    e.Failed: EventWriter._failed,
    e.CircuitChanged: EventWriter._circuit_changed,
    e.ToolCrashed: EventWriter._tool_crashed,
    e.StepTraced: EventWriter._step_traced,
    e.ExtensionRejected: EventWriter._extension_rejected,
    e.ExtensionEvent: EventWriter._extension_event,
    e.Extra: EventWriter._extra,
    e.StepStarted: EventWriter._not_written,
    e.BlockEnded: EventWriter._not_written,
    e.ReplyEnded: EventWriter._not_written,
    e.StepEnded: EventWriter._not_written,
}
