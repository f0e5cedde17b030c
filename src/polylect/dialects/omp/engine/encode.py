"""Turns events into frames. The tables `_HANDLERS` and `_AGENT_EVENTS` say which function writes which event.

What an agent does (text, calls, steps) goes to its `AgentStream`; what concerns the host whichever agent it comes from
(asks, notices) goes to `HostUI`; the rest is written here. Events that the wire has no frame for are counted in `lost`,
so that nothing is dropped in silence. Called by `codec.EngineSide.send`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.omp.engine.agent_stream import AgentStream
from polylect.dialects.omp.engine.host_ui import HostUI
from polylect.dialects.omp.engine.line_writer import LIMITS, LineWriter
from polylect.dialects.omp.engine.messages import MessageAuthor, usage_object
from polylect.dialects.omp.engine.replies import command
from polylect.dialects.omp.engine.subagents import Agents
from polylect.dialects.omp.frames import events as shapes
from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.frames.commands import SetEventFilter
from polylect.dialects.omp.frames.table import EXTRAS
from polylect.dialects.omp.ready import READY
from polylect.dialects.omp.stop_reasons import STATUSES
from polylect.vocab import events as e
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import Failure, StreamRule

_STOPPED = "Compaction cancelled"
"""The error of a compaction that was cancelled."""


class EventWriter:
    """Writes all events of one connection. `slim` leaves the message so far out of updates."""

    def __init__(self, env: Env, author: MessageAuthor, *, slim: bool) -> None:
        self.line_writer = LineWriter(LIMITS[author.version])
        self.line_writer.numbers_messages = author.version == "18"
        self.author = author
        self.ui = HostUI(self.line_writer, env, author.version)
        self.compact_requested = False
        """Whether a command asked for the compaction: then omp writes its response and no events."""
        self._ready = False
        self._filter: list[str] | None = None
        """The events that the host wants, in its words."""
        self._turns: dict[str, str] = {}
        """Turns that have begun, and why."""
        self.main = AgentStream(self.line_writer, lambda: self.author, env.now, updates="slim" if slim else "full")
        self.agents = Agents(self.line_writer, lambda: self.author, env.now, _write_agent_event)
        self._compaction = e.CompactionStarted()
        self._aborted = False
        """Whether the last turn was cancelled."""
        self._reminders = 0
        """How often the model was sent back to its list since the last prompt."""

    @property
    def version(self) -> str:
        return self.author.version

    # Output.

    def data_to_send(self) -> bytes:
        self.main.flush()
        self.agents.flush()
        return self.line_writer.data_to_send()

    def due(self) -> int | None:
        waits = (self.main.due(), self.agents.due())
        return min((wait for wait in waits if wait is not None), default=None)

    def write(self, event: e.Event) -> None:
        kind = type(event)
        if event.agent and kind not in _HOST_EVENTS:
            self.agents.write(event, self.main)
        elif handler := _HANDLERS.get(kind):
            handler(self, event)
        elif kind in _AGENT_EVENTS:
            _write_agent_event(self.main, event)
        else:
            self.line_writer.lost[kind.__name__] += 1

    def filter_events(self, request: SetEventFilter) -> dict[str, Any]:
        """Leave out what the host does not want to hear. Returns the data of the response."""
        if not isinstance(events := request.events, UnsetType):
            self._filter = events
            self.line_writer.subscribed = None if events is None else frozenset(events)
        if isinstance(updates := request.message_updates, UnsetType):
            return {"events": self._filter}
        self.main.updates = "delta" if updates == "delta" else "full"
        return {"events": self._filter, "messageUpdates": self.main.updates}

    def note_ready(self) -> None:
        """`ready` was written by the start-up code."""
        self._ready = True

    # The connection and its settings.

    def _write_ready(self, event: e.Ready) -> None:
        if event.model:
            self._model(event.model)
        if not self._ready:
            self._ready = True
            self.line_writer.write_line("ready", READY[self.version])

    def _model(self, name: str) -> None:
        self.author = replace(self.author, model=name)

    def _setting_changed(self, event: e.SettingChanged) -> None:
        """Only omp 18 has frames for it; hosts of the other versions ask for the state."""
        frame: shapes.Frame
        match event.key, event.value:
            case "model", str(name):
                self._model(name)
                frame = shapes.ModelChanged(name)
            case "provider", str(name):
                self.author = replace(self.author, provider=name)
                frame = shapes.ConfigUpdate({"provider": name})
            case "thinking", str(level):
                frame = shapes.ThinkingLevelChanged(level)
            case "session", str(id):
                frame = shapes.SessionInfoUpdate(session_id=id)
            case "name", str(name):
                frame = shapes.SessionInfoUpdate(session_name=name)
            case "commands", list() | tuple() as cards:
                commands = [command(card) if isinstance(card, CommandCard) else card for card in cards]
                frame = shapes.AvailableCommandsUpdate(commands)
            case key, value:
                frame = shapes.ConfigUpdate({key: value})
        if self.version == "18":
            self.line_writer.write(frame)
        else:
            self.line_writer.lost["SettingChanged"] += 1

    def _queue_changed(self, event: e.QueueChanged) -> None:
        if self.version == "13":
            self.line_writer.lost["QueueChanged"] += 1
        else:
            self.line_writer.write(shapes.QueueUpdate(list(event.soon), list(event.last)))

    def _settled(self, event: e.Settled) -> None:
        self.line_writer.write(shapes.AgentSettled(self._aborted) if self.version == "pi" else shapes.SessionSettled())

    # A turn.

    def _turn_started(self, event: e.TurnStarted) -> None:
        self._turns[event.turn] = event.cause
        self._reminders = 0 if event.cause == "prompt" else self._reminders
        self.main.begin()

    def end_turn(self, event: e.TurnEnded, id: Any, *, accepted: bool) -> None:
        """A turn that was accepted and never began has a run all the same: somebody waits for its end (L1)."""
        cause = self._turns.pop(event.turn, "")
        self._aborted = event.reason == "cancelled"
        if not cause and accepted and not self._turns:
            self.main.begin()
            cause = "prompt"
        if cause:
            self.main.end(event)
        own = {"reason": event.reason, "usage": usage_object(event.usage), "steps": event.steps}
        self._prompt_result(event, UNSET if cause == "engine" else id, invoked=event.steps > 0, **own)

    def end_joined(self, event: e.TurnEnded, id: Any) -> None:
        """The result of a prompt that has joined the turn which ended: without usage, which is the turn's."""
        self._prompt_result(event, id, invoked=True)

    def _prompt_result(self, event: e.TurnEnded, id: Any, *, invoked: bool, **own: Any) -> None:
        status = STATUSES.get(event.reason, "completed")
        error = _error(event.failure) if event.failure else UNSET
        self.line_writer.write(
            shapes.PromptResult(id=id, agent_invoked=invoked, status=status, error=error, session_settled=False, **own)
        )

    def _user_message(self, event: e.UserMessage) -> None:
        if event.turn in self._turns:
            self.main.user_message(event)
        else:
            self.line_writer.lost["UserMessage"] += 1

    # What happens around a turn.

    def _alive(self, event: e.Alive) -> None:
        self.line_writer.write(shapes.Alive(event.call or UNSET, event.name or UNSET))

    def _compaction_started(self, event: e.CompactionStarted) -> None:
        self._compaction = event
        if self.version == "pi":
            self.line_writer.write(shapes.CompactionStart(event.reason))
        elif not self.compact_requested:
            self.line_writer.write(shapes.AutoCompactionStart(event.reason, "context-full"))

    def _compaction_ended(self, event: e.CompactionEnded) -> None:
        reason = self._compaction.reason
        result = compaction_result(event, self.version) if event.ok else UNSET
        again, error = event.ok and reason == "overflow", UNSET if event.ok else event.error
        aborted = not event.ok and event.error == _STOPPED
        if self.version == "pi":
            self.line_writer.write(
                shapes.CompactionEnd(
                    reason=reason, result=result, aborted=aborted, will_retry=again, error_message=error
                )
            )
        elif not self.compact_requested:
            self.line_writer.write(
                shapes.AutoCompactionEnd(
                    result=result, aborted=aborted, will_retry=again, error_message=error, action="context-full"
                )
            )

    def _plan_changed(self, event: e.PlanChanged) -> None:
        todos = [
            shapes.Todo(item.id or str(number), item.text, item.status) for number, item in enumerate(event.items, 1)
        ]
        self._reminders += not event.turn  # between turns it is a reminder of the engine
        self.line_writer.write(
            shapes.TodoReminder(todos, max(1, self._reminders), 3) if todos else shapes.TodoAutoClear()
        )

    def _failed(self, event: e.Failed) -> None:
        failure = event.failure
        self.line_writer.write(shapes.ExtensionError(failure.owner, failure.code, failure.message))

    def _extension_failed(self, event: e.ExtensionFailed) -> None:
        self.line_writer.write(shapes.ExtensionError(event.extension, event.moment, event.error))

    def _rules_matched(self, event: e.RulesMatched) -> None:
        self.line_writer.write(shapes.TtsrTriggered([_rule_row(rule) for rule in event.rules]))

    def _extra(self, event: e.Extra) -> None:
        if event.kind in EXTRAS:
            self.line_writer.write_fields(event.kind, event.data)
        else:
            self.line_writer.lost[f"Extra {event.kind}"] += 1


def compaction_result(event: e.CompactionEnded, version: str) -> m.CompactionResult:
    after = event.after if version == "pi" else UNSET
    return m.CompactionResult(event.summary, event.first_kept, event.before, after)


def _rule_row(rule: StreamRule) -> dict[str, Any]:
    return {"name": rule.name, "path": rule.path, "content": rule.text, "condition": rule.pattern}


def _error(failure: Failure) -> dict[str, Any]:
    return {
        "message": failure.message,
        "code": failure.code,
        "owner": failure.owner,
        "retryable": failure.retryable,
    }


def _write_agent_event(stream: AgentStream, event: e.Event) -> None:
    if handler := _AGENT_EVENTS.get(type(event)):
        handler(stream, event)
    else:
        stream.line_writer.lost[type(event).__name__] += 1


_AGENT_EVENTS: dict[type[e.Event], Callable[[AgentStream, Any], None]] = {
    e.UserMessage: AgentStream.user_message,
    e.StepStarted: lambda stream, event: stream.step_started(),
    e.TextDelta: AgentStream.text,
    e.ThinkingDelta: AgentStream.thinking,
    e.ArgsDelta: AgentStream.arguments,
    e.BlockEnded: AgentStream.block_ended,
    e.ReplyEnded: AgentStream.reply_ended,
    e.StepEnded: lambda stream, event: stream.step_ended(),
    e.ToolCalled: AgentStream.tool_called,
    e.ToolStarted: AgentStream.tool_event,
    e.ToolOutput: AgentStream.tool_event,
    e.ToolFinished: AgentStream.tool_event,
    e.RetryStarted: AgentStream.retry_started,
    e.RetryEnded: AgentStream.retry_ended,
}
"""Events that go to the stream of their agent."""

_HOST_EVENTS = {
    e.AskClosed, e.CircuitChanged, e.Display, e.ExtensionEvent, e.ExtensionFailed, e.ExtensionRejected, e.Extra,
    e.Failed, e.HostCallEnded, e.Notice, e.RulesMatched, e.StepTraced, e.StructuredAnswer, e.ToolCrashed,
}  # fmt: skip
"""Events that concern the host whichever agent they come from. Others of a sub-agent go into `subagent_event`."""

_HANDLERS: dict[type[e.Event], Callable[[EventWriter, Any], None]] = {
    e.Ready: EventWriter._write_ready,
    e.SettingChanged: EventWriter._setting_changed,
    e.QueueChanged: EventWriter._queue_changed,
    e.Settled: EventWriter._settled,
    e.TurnStarted: EventWriter._turn_started,
    e.UserMessage: EventWriter._user_message,
    e.AskClosed: lambda writer, event: writer.ui.ask_closed(event),
    e.HostCallEnded: lambda writer, event: writer.ui.host_call_ended(event),
    e.Display: lambda writer, event: writer.ui.display(event),
    e.Notice: lambda writer, event: writer.ui.notice(event),
    e.Alive: EventWriter._alive,
    e.CompactionStarted: EventWriter._compaction_started,
    e.CompactionEnded: EventWriter._compaction_ended,
    e.PlanChanged: EventWriter._plan_changed,
    e.Failed: EventWriter._failed,
    e.ExtensionFailed: EventWriter._extension_failed,
    e.RulesMatched: EventWriter._rules_matched,
    e.Extra: EventWriter._extra,
}
