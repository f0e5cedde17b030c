"""Turns frames of an engine into events. `_HANDLERS` says which method reads which frame.

The events are those that the frame itself means; the `Completer` of the codec adds what the wire does not have, such as
steps. The reader remembers what the wire says only once (names of calls, mode, model). It holds an `error` and a cost
back, because only the next frame shows whether they belong to the end of the turn. Used by `codec`, and by `subagents`
for inner frames.
"""

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream import events
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.dialects.jsonstream.frames.table import EXTRAS
from polylect.dialects.jsonstream.host.engine_quirks import Quirks, quirks_of
from polylect.dialects.jsonstream.host.subagents import SubagentReader
from polylect.dialects.jsonstream.versions import FINISH_REASONS, OUR_MODES, VERSIONS
from polylect.vocab import events as e
from polylect.vocab.content import Abilities, Failure, Reason, Usage

_FINISHED = FINISH_REASONS["0.2.0"]
_REASONS: dict[str, Reason] = {_FINISHED[name]: name for name in get_args(Reason) if _FINISHED[name] != "stop"}
"""How a turn ended, by `finish_reason`. A `stop` does not say whether somebody stopped it."""
_BETWEEN = (shapes.StreamEnd, shapes.Pong, optional.SessionCost, optional.TraceEvent)
"""What may stand between an error and the end of the turn that failed by it."""
_READY_EXTRAS = ("session_persistence", "contract", "execution_policy")
_CALL_ECHO = re.compile(r"Tool call: \S+")
_RESULT_ECHO = re.compile(r"\[(.+?) (success|error)\](?: |$)")
_REPEATED_NOTICE = re.compile(r"crash replay protection is OFF |No published price for ")
"""How the notices begin that wayland-core sends with each prompt or each request of the model."""
_SERVER_REFUSED = re.compile(r"AddMcpServer '(.+?)'(?: failed)?: (.+)", re.DOTALL)
_SESSION_BROKEN = re.compile(
    r"Session persistence authority unavailable: |interrupted turn .*before starting a new message", re.DOTALL
)
"""wayland-core will answer no more in this session: a turn was interrupted, or its journal is at odds with itself."""
_NO_TOOLS = "it has no tools: the engine says the same of a server that could not be started"


def _denied_tool(frame: dict[str, Any]) -> shapes.Tool | None:
    """The call that polylect names where a rule of its own has denied it."""
    try:
        return msgspec.convert(frame.get("tool"), shapes.Tool)
    except msgspec.ValidationError:
        return None


class EventReader:
    """Reads the frames of one engine, or of one sub-agent if it has a `parent`, and keeps what later ones refer to.

    `version` is what the wire is taken for until `ready` shows it. `used_before` and `cost_before` are what the session
    had used and cost before this engine; None if nobody knows.
    """

    def __init__(
        self,
        parent: "EventReader | None" = None,
        *,
        version: str = VERSIONS[0],
        used_before: Usage | None = Usage(),  # noqa: B008  (frozen)
        cost_before: float | None = 0.0,
    ) -> None:
        self.quirks: Quirks = parent.quirks if parent else Quirks(version)
        self.used_before = used_before
        self.cost: float | None = cost_before
        """Of the session, as far as it is known."""
        self._cost_before = cost_before
        self.calls_without_result = 0
        """Of the turn that runs: while there are any, aionrs has stored a history that no model takes."""
        self.asks: dict[str, e.Ask] = parent.asks if parent else {}
        """Asks that nobody has answered, by id. Those of sub-agents are answered like all others."""
        self.boundaries: dict[str, asks_format.Boundary] = {}
        """Those of them that are about a place outside the workspace."""
        self.suspended: dict[str, e.Ask] = {}
        """Asks that are answered by `approval_resume`, by its token."""
        self.denied: set[str] = parent.denied if parent else set()
        """Calls that the host said no to."""
        self.stopped: set[str] = set()
        """Turns that the host stopped."""
        self.turns: set[str] = set()
        """Turns that were asked for or have begun, and have not ended."""
        self._begun: set[str] = set()
        self._ended: str | None = None
        """The turn that ended last."""
        self._names: dict[str, str] = {}
        self._started: set[str] = set()
        self._lone: set[str] = set()
        """Requests outside any turn: questions without a call."""
        self._subagents = SubagentReader(lambda: EventReader(self))
        self._failure: tuple[str, Failure] | None = None
        """An error during a turn: the next frame shows whether it ended the turn."""
        self._cost: e.CostChanged | None = None
        """A cost that may belong to the end of the turn: the next frame shows."""
        self._talking = False
        """The model has said something since it was last asked."""
        self._calling: set[str] = set()
        """Calls that have not finished."""
        self._questions: list[str] = []
        """Calls that ask the person something, in order."""
        self._notices: set[str] = set()
        """Notices of `_REPEATED_NOTICE` that the host has had."""
        self._abilities = Abilities()
        self._mode = ""
        self._model = ""

    def read(self, frame: shapes.Frame, fields: dict[str, Any]) -> list[e.Event]:
        if isinstance(frame, shapes.ToolResult) and frame.msg_id == self._ended and frame.msg_id not in self.turns:
            return []  # wayland-core, at any time after a stop; the call was closed with its turn
        before: list[e.Event] = []
        if not isinstance(frame, _BETWEEN):
            before = self._pop_failure() if isinstance(frame, shapes.Error) else self.flush()
        return before + _HANDLERS[type(frame)](self, frame, fields)

    def flush(self) -> list[e.Event]:
        """What was held back for the end of a turn that went on."""
        return [*self._pop_failure(), *self._pop_cost()]

    def _pop_failure(self) -> list[e.Event]:
        """The error that was held back and ended no turn."""
        held, self._failure = self._failure, None
        return [e.Failed(held[1], turn=held[0])] if held else []

    def _pop_cost(self) -> list[e.Event]:
        cost, self._cost = self._cost, None
        return [cost] if cost else []

    def knows(self, call: str) -> bool:
        return call in self._names

    # The connection and its settings.

    def _ready(self, frame: shapes.Ready, fields: dict[str, Any]) -> list[e.Event]:
        self.quirks = quirks_of(fields, self.quirks.version)
        self._abilities, self._mode = self._offered(frame, fields)
        extras = self._abilities.extras | {key: fields[key] for key in _READY_EXTRAS if key in fields}
        abilities, session = replace(self._abilities, extras=extras), frame.session_id or ""
        return [e.Ready(version=frame.version, mode=self._mode, abilities=abilities, session=session)]

    def _config_changed(self, frame: shapes.ConfigChanged, fields: dict[str, Any]) -> list[e.Event]:
        changed: list[e.Event] = []
        abilities, mode = self._offered(frame, fields)
        if mode != self._mode:
            changed.append(e.SettingChanged("mode", mode))
        if (model := frame.capabilities.current_model) and model != self._model:
            changed.append(e.SettingChanged("model", model))
            self._model = str(model)
        if abilities != self._abilities:
            changed.append(e.SettingChanged("abilities", abilities))
        self._abilities, self._mode = abilities, mode
        return changed

    def _offered(self, frame: shapes.Ready | shapes.ConfigChanged, fields: dict[str, Any]) -> tuple[Abilities, str]:
        mode = frame.capabilities.current_mode
        return events.abilities_of(fields.get("capabilities", {})), OUR_MODES.get(mode, mode)

    def _mcp_ready(self, frame: shapes.McpReady, fields: dict[str, Any]) -> list[e.Event]:
        if not frame.tools and self.quirks.empty_is_failed:
            return [e.ServerChanged(frame.name, "failed", reason=_NO_TOOLS)]
        return [e.ServerChanged(frame.name, "ready", tuple(frame.tools))]

    def _mcp_failed(self, frame: shapes.McpFailed, fields: dict[str, Any]) -> list[e.Event]:
        return [e.ServerChanged(frame.name, "failed", reason=frame.reason)]

    def _ignore(self, frame: shapes.Frame, fields: dict[str, Any]) -> list[e.Event]:
        return []

    # A turn.

    def _stream_start(self, frame: shapes.StreamStart, fields: dict[str, Any]) -> list[e.Event]:
        self.turns.add(frame.msg_id)
        self._begun.add(frame.msg_id)
        self._talking = False
        return [e.TurnStarted(turn=frame.msg_id)]

    def _text_delta(self, frame: shapes.TextDelta, fields: dict[str, Any]) -> list[e.Event]:
        self._talking = True
        return [e.TextDelta(frame.text, turn=frame.msg_id)]

    def _thinking(self, frame: shapes.Thinking, fields: dict[str, Any]) -> list[e.Event]:
        """An empty thought is a sign of life."""
        if not frame.text:
            return [e.Alive(turn=frame.msg_id)]
        self._talking = True
        return [e.ThinkingDelta(frame.text, turn=frame.msg_id)]

    def _stream_end(self, frame: shapes.StreamEnd, fields: dict[str, Any]) -> list[e.Event]:
        turn, finish = frame.msg_id, frame.finish_reason
        failure, usage = self._cause(turn, finish), self._usage(frame, fields)
        reason = _REASONS.get(finish) or ("error" if failure and not finish else self._quiet_end(turn))
        if reason == "error" and failure is None:
            failure = Failure("error", "the engine did not say why the turn failed", "engine")
        broken = self._broken_reply(turn, failure) if reason == "error" else []
        before = self.flush()
        self._talking = False
        self._calling.clear()
        self.calls_without_result = 0
        self._forget(turn)
        return [*broken, *before, e.TurnEnded(reason, usage, failure=failure, turn=turn)]

    def _usage(self, frame: shapes.StreamEnd, fields: dict[str, Any]) -> Usage:
        """What the turn took. A turn that failed, and a slash command, report zeros, which are no totals."""
        usage = events.turn_usage(frame, fields)
        if not self.quirks.totals_usage or not usage.tokens:
            return usage
        before, self.used_before = self.used_before, usage
        return Usage() if before is None else events.usage_since(usage, before)

    def _broken_reply(self, turn: str, failure: Failure | None) -> list[e.Event]:
        """If it is the model's service that failed, it was asked, though it may have said nothing."""
        if failure is None or failure.owner != "provider" or turn not in self._begun:
            return []
        step: list[e.Event] = [] if self._talking else [e.StepStarted(turn=turn)]
        return [*step, e.ReplyEnded("error", error=failure.message, turn=turn)]

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
        self._ended = turn
        self.turns.discard(turn)
        self._begun.discard(turn)
        self.stopped.discard(turn)
        for waiting in (self.asks, self.suspended):
            for ask in [ask for ask in waiting.values() if ask.turn == turn]:
                del waiting[ask.ask]
        self._subagents.clear()
        if not self.turns:
            self._names.clear()
            self._questions.clear()
            self._started.clear()
            self.denied.clear()
            self.boundaries.clear()

    # Calls and asks.

    def _tool_request(self, frame: shapes.ToolRequest, fields: dict[str, Any]) -> list[e.Event]:
        ask, tool = asks_format.ask_of(frame), frame.tool
        escalation = fields["tool"].get("escalation")  # later engines say why they ask
        if boundary := asks_format.boundary_of(escalation):
            self.boundaries[ask.ask] = boundary
            ask = replace(ask, reason=boundary.reason)
        elif isinstance(escalation, str):
            ask = replace(ask, reason=escalation)
        self.asks[ask.ask] = ask
        if not frame.msg_id:
            self._lone.add(frame.call_id)
            return [replace(ask, call="")]
        if frame.call_id in self._names:
            return [ask]
        self._names[frame.call_id] = tool.name
        if ask.kind != "permission":
            self._questions.append(frame.call_id)
        self._call(frame.call_id)
        return [asks_format.called_of(frame.call_id, tool, frame.msg_id), ask]

    def _tool_running(self, frame: shapes.ToolRunning, fields: dict[str, Any]) -> list[e.Event]:
        """A second `tool_running` of a call is a sign of life."""
        if frame.call_id in self._started:
            return [e.Alive(frame.call_id, frame.tool_name, turn=frame.msg_id)]
        self._started.add(frame.call_id)
        self._call(frame.call_id)
        self._names.setdefault(frame.call_id, frame.tool_name)
        started = e.ToolStarted(frame.call_id, frame.tool_name, turn=frame.msg_id)
        return [*self._close_ask(frame.call_id, "allowed"), started]

    def _call(self, call: str) -> None:
        self._calling.add(call)
        self._talking = False

    def _tool_chunk(self, frame: optional.ToolChunk, fields: dict[str, Any]) -> list[e.Event]:
        return [e.ToolOutput(frame.call_id, f"{frame.chunk}\n", turn=frame.msg_id)]

    def _tool_result(self, frame: shapes.ToolResult, fields: dict[str, Any]) -> list[e.Event]:
        return self._finish(frame.call_id, "allowed", events.finished_of(frame))

    def _tool_cancelled(self, frame: shapes.ToolCancelled, fields: dict[str, Any]) -> list[e.Event]:
        """The call was denied if the host said no, or if it was never announced and its turn was not stopped."""
        tool = _denied_tool(fields)
        name = self._names.get(frame.call_id, tool.name if tool else "")
        unannounced = frame.call_id not in self._names and frame.msg_id not in self.stopped
        denied = frame.call_id in self.denied or unannounced
        outcome: Literal["denied", "cancelled"] = "denied" if denied else "cancelled"
        finished = e.ToolFinished(frame.call_id, name, "", outcome, reason=frame.reason, turn=frame.msg_id)
        ended = self._finish(frame.call_id, "cancelled", finished)
        if tool is None or not unannounced:
            return ended
        return [asks_format.called_of(frame.call_id, tool, frame.msg_id), *ended]

    def _finish(self, call: str, how: Literal["allowed", "cancelled"], finished: e.ToolFinished) -> list[e.Event]:
        closed = self._close_ask(call, how)
        self._calling.discard(call)
        if call in self._lone:
            self._lone.discard(call)
            return closed
        return [*closed, finished]

    def _close_ask(self, call: str, how: Literal["allowed", "cancelled"]) -> list[e.Event]:
        """Closed without us: by a timeout, a stop, or somebody else's answer."""
        ask = self.asks.pop(call, None)
        if ask is None:
            return []
        answered = how == "allowed" and ask.kind != "permission"
        return [e.AskClosed(ask.ask, "answered" if answered else how, turn=ask.turn)]

    def _approval_required(self, frame: optional.ApprovalRequired, fields: dict[str, Any]) -> list[e.Event]:
        """Without a token of its own it only repeats a `tool_request`."""
        if frame.resume_token in ("", frame.call_id):
            return []
        ask = asks_format.suspended_of(frame)
        plan = {"plan": fields["plan"]} if "plan" in fields else {}
        ask = replace(ask, call=ask.call if self.knows(ask.call) else "", args=plan, turn=next(iter(self._begun), ""))
        self.suspended[ask.ask] = ask
        return [ask]

    def _approval_resumed(self, frame: optional.ApprovalResumed, fields: dict[str, Any]) -> list[e.Event]:
        """The echo of our own answer, or somebody else's."""
        ask = self.suspended.pop(frame.resume_token, None)
        return [e.AskClosed(ask.ask, "allowed" if frame.approved else "denied", turn=ask.turn)] if ask else []

    def _sub_agent_event(self, frame: optional.SubAgentEvent, fields: dict[str, Any]) -> list[e.Event]:
        return self._subagents.read(frame, fields, next(iter(self._begun), ""))

    # What happens around a turn.

    def _error(self, frame: shapes.Error, fields: dict[str, Any]) -> list[e.Event]:
        failure, turn = events.failure_of(frame.error), frame.msg_id or ""
        if _SESSION_BROKEN.search(failure.message):
            failure = Failure("session_interrupted", failure.message, "engine")
        if refused := _SERVER_REFUSED.fullmatch(failure.message):
            return [e.ServerChanged(refused[1], "failed", reason=refused[2])]
        if not self.turns and not turn:
            return [e.Failed(failure)]
        self._failure = (turn, failure)
        return []

    def _info(self, frame: shapes.Info, fields: dict[str, Any]) -> list[e.Event]:
        """aionrs and wayland-core repeat each call and each result, which have frames of their own, as an `info`."""
        if self._begun and _CALL_ECHO.fullmatch(frame.message):
            self.calls_without_result += 1
            return []
        result = _RESULT_ECHO.match(frame.message)
        if result and result[1] in self._names.values():
            self.calls_without_result = max(0, self.calls_without_result - 1)
            return self._finish_question(frame, result)
        return [] if self._was_said(frame.message) else [e.Notice(frame.message, turn=frame.msg_id)]

    def _finish_question(self, frame: shapes.Info, echo: re.Match[str]) -> list[e.Event]:
        """wayland-core sends no `tool_result` for a question that was answered, only the echo of one."""
        name, status = echo.groups()
        call = next((id for id in self._questions if id in self._calling and self._names.get(id) == name), "")
        if not call:
            return []
        outcome: Literal["ok", "error"] = "ok" if status == "success" else "error"
        output = frame.message[echo.end() :]
        return self._finish(call, "allowed", e.ToolFinished(call, name, output, outcome, turn=frame.msg_id))

    def _was_said(self, message: str) -> bool:
        """Whether it is a notice that the engine repeats and the host has had."""
        if not _REPEATED_NOTICE.match(message):
            return False
        was_said = message in self._notices
        self._notices.add(message)
        return was_said

    def _budget_exceeded(self, frame: optional.BudgetExceeded, fields: dict[str, Any]) -> list[e.Event]:
        return [e.BudgetExceeded(frame.reason, frame.observed, frame.limit)]

    def _session_cost(self, frame: optional.SessionCost, fields: dict[str, Any]) -> list[e.Event]:
        before = self._pop_cost()
        self._cost = events.cost_of(frame, self._cost_before if self.quirks.forgets_cost else 0.0)
        self.cost = self._cost.total.cost
        return before if self._begun and not self._calling else [*before, *self._pop_cost()]

    def _tool_panicked(self, frame: optional.ToolPanicked, fields: dict[str, Any]) -> list[e.Event]:
        return [e.ToolCrashed(frame.call_id, frame.tool_name, frame.panic_message, turn=frame.msg_id)]

    def _plugin_rejected(self, frame: optional.PluginRegistrationFailed, fields: dict[str, Any]) -> list[e.Event]:
        return [e.ExtensionRejected(frame.plugin_name, frame.surface, frame.error_kind, frame.message)]

    def _plugin_event(self, frame: optional.PluginEvent, fields: dict[str, Any]) -> list[e.Event]:
        return [e.ExtensionEvent(frame.plugin_name, frame.event_type, frame.payload)]

    def _extra(self, frame: shapes.Frame, fields: dict[str, Any]) -> list[e.Event]:
        return [events.extra_of(fields)]


_HANDLERS: dict[type[shapes.Frame], Callable[[EventReader, Any, dict[str, Any]], list[e.Event]]] = {
    **dict.fromkeys(EXTRAS.values(), EventReader._extra),
    shapes.Ready: EventReader._ready,
    shapes.ConfigChanged: EventReader._config_changed,
    shapes.McpReady: EventReader._mcp_ready,
    shapes.McpFailed: EventReader._mcp_failed,
    shapes.Pong: EventReader._ignore,
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
    optional.ToolChunk: EventReader._tool_chunk,
    optional.SubAgentEvent: EventReader._sub_agent_event,
    optional.ApprovalRequired: EventReader._approval_required,
    optional.Suspend: EventReader._ignore,
    optional.ApprovalResumed: EventReader._approval_resumed,
    optional.SessionCost: EventReader._session_cost,
    optional.BudgetExceeded: EventReader._budget_exceeded,
    optional.ProviderCircuitEvent: lambda reader, frame, fields: [events.circuit_of(frame)],
    optional.ToolPanicked: EventReader._tool_panicked,
    optional.TraceEvent: lambda reader, frame, fields: [events.trace_of(frame)],
    optional.PluginRegistrationFailed: EventReader._plugin_rejected,
    optional.PluginEvent: EventReader._plugin_event,
}
