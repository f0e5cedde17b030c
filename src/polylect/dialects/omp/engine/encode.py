"""Events to frames: which word of ours is which of the wire's."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from polylect.dialects.base import Env
from polylect.dialects.omp.engine.agent_stream import Lane
from polylect.dialects.omp.engine.line_writer import LIMITS, Pen
from polylect.dialects.omp.engine.objects import Speaker, spent
from polylect.dialects.omp.engine.replies import command
from polylect.dialects.omp.engine.subagents import Agents
from polylect.dialects.omp.frames import events as shapes
from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.frames.ui import Screen
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import Failure
from polylect.vocab.events import (
    Alive,
    ArgsDelta,
    AskClosed,
    BlockEnded,
    CompactionEnded,
    CompactionStarted,
    Display,
    Event,
    Extra,
    Failed,
    HostCallEnded,
    Notice,
    PlanChanged,
    QueueChanged,
    Ready,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

_STATUS = {"cancelled": "aborted", "error": "error"}
_STOPPED = "Compaction cancelled"
"""What a compaction says that was not let finish."""
_EXTRAS = (
    "ttsr_triggered", "retry_fallback_applied", "retry_fallback_succeeded", "extension_error", "irc_message",
    "goal_updated", "advisor_cost_changed", "advisor_yielded", "config_warnings_changed",
)  # fmt: skip


class Writer:
    def __init__(self, env: Env, speaker: Speaker, *, slim: bool) -> None:
        self.pen = Pen(LIMITS[speaker.version])
        self.speaker = speaker
        self.screen = Screen(self.pen, env, speaker.version)
        self.asked_to_compact = False
        """Whether a command asks for it: then its response tells all, and there are no events."""
        self._ready = False
        self._turns: dict[str, str] = {}
        """Turns that have begun, and why."""
        self.main = Lane(self.pen, self._who, env.now, slim=slim)
        self.agents = Agents(self.pen, self._who, env.now, _write_in)
        self._compaction = CompactionStarted()
        self._reminders = 0
        """How often the model was sent back to its list since the last prompt."""

    def _who(self) -> Speaker:
        return self.speaker

    @property
    def version(self) -> str:
        return self.speaker.version

    # Out.

    def take(self) -> bytes:
        self.main.flush()
        self.agents.flush()
        return self.pen.take()

    def due(self) -> int | None:
        waits = (self.main.due(), self.agents.due())
        return min((wait for wait in waits if wait is not None), default=None)

    def write(self, event: Event) -> None:
        kind = type(event)
        if event.agent and kind not in _OF_THE_HOST:
            self.agents.hear(event, self.main)
        elif word := _WORDS.get(kind):
            word(self, event)
        elif kind in _IN_A_LANE:
            _write_in(self.main, event)
        else:
            self.pen.lost[kind.__name__] += 1

    def note_ready(self) -> None:
        """It was said by other means."""
        self._ready = True

    # The connection and its settings.

    def _say_ready(self, event: Ready) -> None:
        if event.model:
            self._model(event.model)
        if not self._ready:
            self._ready = True
            self.pen.say(shapes.Ready())

    def _model(self, name: str) -> None:
        who = self.speaker
        self.speaker = Speaker(who.api, who.provider, name, who.version)

    def _setting_changed(self, event: SettingChanged) -> None:
        """Later hosts hear of it; the others ask."""
        frame: shapes.Frame
        match event.key, event.value:
            case "model", str(name):
                self._model(name)
                frame = shapes.ModelChanged(name)
            case "provider", str(name):
                self.speaker = Speaker(self.speaker.api, name, self.speaker.model, self.version)
                frame = shapes.ConfigUpdate({"provider": name})
            case "thinking", str(level):
                frame = shapes.ThinkingLevelChanged(level)
            case "session", str(id):
                frame = shapes.SessionInfoUpdate(session_id=id)
            case "name", str(name):
                frame = shapes.SessionInfoUpdate(session_name=name)
            case "commands", list() | tuple() as cards:
                told = [command(card) if isinstance(card, CommandCard) else card for card in cards]
                frame = shapes.AvailableCommandsUpdate(told)
            case key, value:
                frame = shapes.ConfigUpdate({key: value})
        if self.version == "18":
            self.pen.say(frame)
        else:
            self.pen.lost["SettingChanged"] += 1

    def _queue_changed(self, event: QueueChanged) -> None:
        if self.version == "pi":
            self.pen.say(shapes.QueueUpdate(list(event.soon), list(event.last)))
        else:
            self.pen.lost["QueueChanged"] += 1

    def _settled(self, event: Settled) -> None:
        self.pen.say(shapes.AgentSettled() if self.version == "pi" else shapes.SessionSettled())

    # A turn.

    def _turn_started(self, event: TurnStarted) -> None:
        self._turns[event.turn] = event.cause
        self._reminders = 0 if event.cause == "prompt" else self._reminders
        self.main.begin()

    def end_turn(self, event: TurnEnded, id: Any, *, accepted: bool) -> None:
        """A turn that was accepted and never began has a run all the same: somebody waits for its end (L1)."""
        cause = self._turns.pop(event.turn, "")
        if not cause and accepted and not self._turns:
            self.main.begin()
            cause = "prompt"
        if cause:
            self.main.end(event)
        self.pen.say(
            shapes.PromptResult(
                id=UNSET if cause == "engine" else id,
                agent_invoked=event.steps > 0,
                status=_STATUS.get(event.reason, "completed"),
                error=_error(event.failure) if event.failure else UNSET,
                session_settled=False,
                reason=event.reason,
                usage=spent(event.usage),
                steps=event.steps,
            )
        )

    def _user_message(self, event: UserMessage) -> None:
        if event.turn in self._turns:
            self.main.user_message(event)
        else:
            self.pen.lost["UserMessage"] += 1

    # What happens around a turn.

    def _alive(self, event: Alive) -> None:
        self.pen.say(shapes.Alive(event.call or UNSET, event.name or UNSET))

    def _compaction_started(self, event: CompactionStarted) -> None:
        self._compaction = event
        if self.version == "pi":
            self.pen.say(shapes.CompactionStart(event.reason))
        elif not self.asked_to_compact:
            self.pen.say(shapes.AutoCompactionStart(event.reason, "context-full"))

    def _compaction_ended(self, event: CompactionEnded) -> None:
        reason = self._compaction.reason
        result = compaction_result(event) if event.ok else UNSET
        again, error = event.ok and reason == "overflow", UNSET if event.ok else event.error
        aborted = not event.ok and event.error == _STOPPED
        if self.version == "pi":
            self.pen.say(
                shapes.CompactionEnd(
                    reason=reason, result=result, aborted=aborted, will_retry=again, error_message=error
                )
            )
        elif not self.asked_to_compact:
            self.pen.say(
                shapes.AutoCompactionEnd(
                    result=result, aborted=aborted, will_retry=again, error_message=error, action="context-full"
                )
            )

    def _plan_changed(self, event: PlanChanged) -> None:
        todos = [
            shapes.Todo(item.id or str(number), item.text, item.status) for number, item in enumerate(event.items, 1)
        ]
        self._reminders += not event.turn  # between turns it is the engine that speaks of it
        self.pen.say(shapes.TodoReminder(todos, max(1, self._reminders), 3) if todos else shapes.TodoAutoClear())

    def _failed(self, event: Failed) -> None:
        failure = event.failure
        self.pen.say(shapes.ExtensionError(failure.owner, failure.code, failure.message))

    def _extra(self, event: Extra) -> None:
        if event.kind in _EXTRAS:
            self.pen.tell(event.kind, event.data)
        else:
            self.pen.lost[f"Extra {event.kind}"] += 1


def compaction_result(event: CompactionEnded) -> m.CompactionResult:
    return m.CompactionResult(event.summary, event.kept, event.before)


def _error(failure: Failure) -> dict[str, Any]:
    told = {"message": failure.message, "code": failure.code, "owner": failure.owner}
    return {**told, "retryable": failure.retryable}


def _write_in(lane: Lane, event: Event) -> None:
    if word := _IN_A_LANE.get(type(event)):
        word(lane, event)
    else:
        lane.pen.lost[type(event).__name__] += 1


_IN_A_LANE: dict[type[Event], Callable[[Lane, Any], None]] = {
    UserMessage: Lane.user_message,
    StepStarted: lambda lane, event: lane.step_started(),
    TextDelta: Lane.text,
    ThinkingDelta: Lane.thinking,
    ArgsDelta: Lane.arguments,
    BlockEnded: Lane.block_ended,
    ReplyEnded: Lane.reply_ended,
    StepEnded: lambda lane, event: lane.step_ended(),
    ToolCalled: Lane.tool_called,
    ToolStarted: Lane.mark,
    ToolOutput: Lane.mark,
    ToolFinished: Lane.mark,
    RetryStarted: Lane.retry_started,
    RetryEnded: Lane.retry_ended,
}
"""What an agent does, the main one or another."""

_OF_THE_HOST = {AskClosed, HostCallEnded, Display, Notice, Failed, Extra}
"""What is the host's business whichever agent says it. All else of a sub-agent travels inside another frame."""

_WORDS: dict[type[Event], Callable[[Writer, Any], None]] = {
    Ready: Writer._say_ready,
    SettingChanged: Writer._setting_changed,
    QueueChanged: Writer._queue_changed,
    Settled: Writer._settled,
    TurnStarted: Writer._turn_started,
    UserMessage: Writer._user_message,
    AskClosed: lambda writer, event: writer.screen.ask_closed(event),
    HostCallEnded: lambda writer, event: writer.screen.host_call_ended(event),
    Display: lambda writer, event: writer.screen.display(event),
    Notice: lambda writer, event: writer.screen.notice(event),
    Alive: Writer._alive,
    CompactionStarted: Writer._compaction_started,
    CompactionEnded: Writer._compaction_ended,
    PlanChanged: Writer._plan_changed,
    Failed: Writer._failed,
    Extra: Writer._extra,
}
