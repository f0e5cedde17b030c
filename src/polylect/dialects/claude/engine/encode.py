"""Writes events of the engine as frames of the wire: a turn, its messages and calls, and what happens around it.

`EventWriter` has one handler for each type of event (`_HANDLERS`). The codec hands it every event except replies,
asks and host calls, which `control_requests` and `asks` write. An event that the wire has no frame for is counted in
`LineWriter.lost`.

Two rules of the wire shape this module. `system/init` precedes every frame of a turn (`_open_turn`). A block that was
cut short carries `aborted`, which only the event after the block tells, so the last block is held back for up to 20
milliseconds (`due`).
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UNSET

from polylect.dialects.claude.engine.block_stream import BlockStream
from polylect.dialects.claude.engine.engine_info import EngineInfo, commands_of
from polylect.dialects.claude.engine.extras import extra
from polylect.dialects.claude.engine.git_operations import changes
from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.engine.prompts import Prompts
from polylect.dialects.claude.engine.subagents import Tasks
from polylect.dialects.claude.engine.tool_results import structured_result
from polylect.dialects.claude.engine.turn_state import (
    API_ERRORS,
    SessionCost,
    TurnState,
    api_text,
    is_of_the_service,
    result,
)
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab import events as e
from polylect.vocab.content import Failure
from polylect.wire.lazy_regex import pattern

_SPILLED = pattern(r"/\S+/spill/[\w-]+\.txt")
_GRACE = 20
"""Milliseconds that the last block is held back. The engine sends the end of an interrupted reply within this time."""
SYNTHETIC = "<synthetic>"
"""The model name of messages that no model has written."""
States = bool | Literal["hidden"]
"""Whether `session_state_changed` is written. "hidden" writes it with `sdk_host_only`."""
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_TOOLS = "[Request interrupted by user for tool use]"


class EventWriter:
    def __init__(self, out: LineWriter, info: EngineInfo, prompts: Prompts, *, partial: bool, states: States) -> None:
        self.out = out
        self.info = info
        self._prompts = prompts
        self._partial = partial
        self._states = states
        self.main = BlockStream(out, parent=None, partial=partial, shown=True, marks={})
        self.tasks = Tasks(out)
        self.cost = SessionCost()
        self.turn: TurnState | None = None
        self.failed = False
        """Whether the last result was an error."""
        self.mode_waits = False
        """A mode change was requested and its frame is not written yet: it follows the answer to the request."""
        self.asked_calls: set[str] = set()
        """Calls that the host was asked about. Their denial gets no `permission_denied` frame."""
        self._calls: dict[str, e.ToolCalled] = {}
        self._started: dict[str, int] = {}
        self._request_at = 0
        self._state = "idle"
        self._held_stream: BlockStream | None = None
        """The stream whose last block is held back until the next event, and since when."""
        self._held_at = 0
        self._trigger = "auto"

    def write(self, event: e.Event) -> None:
        if self._held_stream and not isinstance(event, e.ReplyEnded):
            self._held_stream.release()
        handler = _HANDLERS.get(type(event))
        if handler is None:
            self.out.lost[type(event).__name__] += 1
        else:
            handler(self, event)

    # Shared by the handlers below.

    def _stream_of(self, event: e.Event) -> BlockStream:
        if not event.agent:
            return self.main
        stream = self.tasks.stream(event.agent)
        stream.model = stream.model or self.info.model
        return stream

    def _open_turn(self) -> TurnState | None:
        """Write `system/init` unless this turn has it. Only the status frames of a manual compaction may precede it."""
        if self.turn and not self.turn.opened:
            self.turn.opened = True
            self.out.write(self.info.init(self.out, self.turn.uuids))
        return self.turn

    def _write_user(
        self, text: str, stream: BlockStream | None = None, *, synthetic: bool = False, replay: bool = False
    ) -> None:
        stream = stream or self.main
        self.out.write_new(
            shapes.User,
            message=shapes.Words([shapes.TextBlock(text)]),
            parent_tool_use_id=stream.parent,
            timestamp=self.out.timestamp(),
            isSynthetic=synthetic,
            isReplay=replay,
            **stream.marks,
        )

    def _write_synthetic(self, text: str, stop: str, error: str = "") -> None:
        blocks: list[shapes.Spoken] = [shapes.TextBlock(text)]
        message = shapes.Message(self.out.new_id(), SYNTHETIC, blocks, stop_reason=stop, stop_sequence="")
        self.out.write_new(
            shapes.Assistant, message=message, parent_tool_use_id=None, error=error, is_api_error_message=bool(error)
        )

    def _write_notices(self, turn: TurnState) -> None:
        for text in turn.answers:
            self.out.inform(text)
        turn.answers = []

    # A turn.

    def _turn_started(self, event: e.TurnStarted) -> None:
        self.write_state("running")
        uuids = self._prompts.started(event.turn, unasked=event.cause == "engine")
        self.turn = TurnState(event.turn, uuids, self.out.now(), unasked=event.cause == "engine")
        self.main.uuids, self.main.first_at, self.main.reply = uuids, 0, []
        self.main.turn, self.main.lines = event.turn, 0

    def _user_message(self, event: e.UserMessage) -> None:
        if event.agent:
            self._write_user(event.text, self._stream_of(event))
            return
        turn = self._open_turn()
        if event.origin == "prompt":
            self._prompts.replay(event.turn)
        elif not (turn and turn.unasked and not turn.steps):
            self._write_user(event.text, synthetic=event.origin != "replay", replay=event.origin == "replay")

    def _step_started(self, event: e.StepStarted) -> None:
        if event.agent:
            self._stream_of(event).begin()
            return
        if turn := self._open_turn():
            self._write_notices(turn)
            turn.step_started()
        self.main.begin()
        self._request_at = self.out.now()
        if self._partial:
            self.out.write_new(notices.Status, subtype="status", status="requesting")

    def _delta(self, event: e.TextDelta | e.ThinkingDelta | e.ArgsDelta) -> None:
        self._open_stream(event).delta(event)

    def _block_ended(self, event: e.BlockEnded) -> None:
        self._held_stream, self._held_at = self._open_stream(event), self.out.now()
        self._held_stream.block(event.block)

    def due(self) -> int | None:
        """In how many milliseconds the block that is held back must be written; None if there is none."""
        if not (self._held_stream and self._held_stream.holds):
            return None
        return max(self._held_at + _GRACE - self.out.now(), 0)

    def data_to_send(self) -> bytes:
        if self._held_stream and self.due() == 0:
            self._held_stream.release()
        return self.out.data_to_send()

    def _open_stream(self, event: e.Event) -> BlockStream:
        if not event.agent and (turn := self._open_turn()):
            turn.steps = turn.steps or 1
        return self._stream_of(event)

    def _reply_ended(self, event: e.ReplyEnded) -> None:
        stream = self._open_stream(event)
        stream.ended(event)
        if event.agent:
            self.tasks.spent(event.agent, event.usage)
        else:
            self.cost.api_ms += max(self.out.now() - self._request_at, 0)
            if self.turn:
                self.turn.replied(event)

    def _ignore(self, event: e.Event) -> None:
        """Writes nothing: the host end derives this event from other frames."""

    def _turn_ended(self, event: e.TurnEnded) -> None:
        if self.turn is None or event.turn != self.turn.id:
            self._never_began(event)
            return
        turn, self.turn = self._open_turn() or self.turn, None
        if turn.without_model and event.reason == "end":
            self._answer_locally(turn)
        self._write_notices(turn)
        if event.failure and event.reason == "error" and is_of_the_service(event.failure):
            self._api_error(event.failure)
        if event.reason == "cancelled":
            self._write_user(INTERRUPTED_TOOLS if turn.called else INTERRUPTED)
        self.main.finish()
        turn.first_at = self.main.first_at
        if event.reason != "limit":
            self.cost.budget = None
        self._write_result(event, turn, "".join(self.main.reply) or "\n".join(turn.answers))

    def _write_result(self, event: e.TurnEnded, turn: TurnState, text: str) -> None:
        frame = result(event, turn, self.cost, self.out, text, len(self._prompts.waiting))
        self.failed = frame.is_error
        self.out.write(frame)
        self._prompts.ended(event.turn, "cancelled" if event.reason == "cancelled" else "completed")

    def _never_began(self, event: e.TurnEnded) -> None:
        """End a turn whose prompt was still queued."""
        if event.reason == "cancelled" and self._prompts.cancelled(event.turn):
            return
        self._write_result(event, TurnState(event.turn, self._prompts.uuids(event.turn), self.out.now()), "")

    def _queue_changed(self, event: e.QueueChanged) -> None:
        """Writes nothing; the receipt of an interrupt lists the queue."""
        self._prompts.queued = event.prompts

    def refused(self, turn: str, failure: Failure) -> None:
        """Write a result for a prompt that the engine refused (L1)."""
        self._never_began(e.TurnEnded("error", failure=failure, turn=turn))

    # Messages that no model has written.

    def _answer_locally(self, turn: TurnState) -> None:
        self._prompts.replay(turn.id)
        text = "\n".join(turn.answers)
        if not text:
            return
        if turn.compacted:
            self._write_user(f"<local-command-stdout>{text}</local-command-stdout>", replay=True)
        else:
            self._write_synthetic(text, "end_turn")
        self.main.reply, turn.answers = [text], []

    def _api_error(self, failure: Failure) -> None:
        self.main.finish()
        self._write_synthetic(api_text(failure), "stop_sequence", API_ERRORS.get(failure.code, ("unknown", 0))[0])

    # Calls.

    def _tool_called(self, event: e.ToolCalled) -> None:
        self._calls[event.call] = event
        if not event.agent and self.turn:
            self.turn.called = True
        self._open_stream(event).call(event.call, event.name, event.args)
        self.tasks.called(event)

    def _tool_started(self, event: e.ToolStarted) -> None:
        self._started[event.call] = self.out.now()

    def _tool_finished(self, event: e.ToolFinished) -> None:
        self._stream_of(event).flush()
        if event.outcome == "denied":
            self.deny(event.call, event.name)
            if event.call not in self.asked_calls and self.out.newer:
                self._write_denied(event)
        host_was_asked = event.call in self.asked_calls
        details = self._structured_result(event)
        content = _content(event, host_was_asked=host_was_asked)
        block = shapes.ToolResultBlock(event.call, content, event.outcome != "ok")
        frame = shapes.User(
            message=shapes.Words([block]),
            parent_tool_use_id=self._stream_of(event).parent,
            timestamp=self.out.timestamp(),
            tool_use_result=UNSET if event.agent else details,
            tool_result_meta=[_meta(event, host_was_asked=host_was_asked)],
            **self.out.envelope(),
            **self._stream_of(event).marks,
        )
        self.out.tool_result(frame, block, _whole(event))
        self._forget_call(event.call)

    def _structured_result(self, event: e.ToolFinished) -> Any:
        """The `tool_use_result` of a call. If git has changed the repository, a frame says so before the result."""
        called, duration = self._calls.get(event.call), self._running_for(event.call)
        details = self.tasks.result(event) or structured_result(event, called.args if called else {}, duration)
        if not isinstance(details, dict):
            return UNSET if details is None else details
        if event.name == "Bash" and event.outcome == "ok":
            self._write_repository_changes(details.get("gitOperation", {}))
        return {**details, **(event.metadata or {})}  # from an engine of this family it has all fields already

    def _write_repository_changes(self, operation: dict[str, Any]) -> None:
        if not self.out.newer or "vcs_state_changed" in self.out.relayed:
            return
        for kind, branch in changes(operation):
            self.out.write_new(
                notices.VcsStateChanged, subtype="vcs_state_changed", kind=kind, cwd=self.info.cwd, branch=branch
            )

    def _running_for(self, call: str) -> int:
        """Milliseconds since the call began to run."""
        return self.out.now() - self._started.get(call, self.out.now())

    def _forget_call(self, call: str) -> None:
        self._calls.pop(call, None)
        self._started.pop(call, None)
        self.asked_calls.discard(call)

    def deny(self, call: str, name: str) -> None:
        """Add a call to the `permission_denials` of the result."""
        called = self._calls.get(call)
        if self.turn and call:
            args = called.args if called else {}
            self.turn.denials[call] = shapes.Denial(name or (called.name if called else ""), call, args)

    def _write_denied(self, event: e.ToolFinished) -> None:
        self.out.write_new(
            notices.PermissionDenied,
            subtype="permission_denied",
            tool_name=event.name,
            tool_use_id=event.call,
            message=event.output,
            agent_id=event.agent,
            decision_reason=event.reason,
        )

    def _alive(self, event: e.Alive) -> None:
        if not event.call:
            self.out.write(shapes.KeepAlive())
            return
        parent = self._stream_of(event).parent
        self.out.write_new(
            notices.ToolProgress,
            tool_use_id=event.call,
            tool_name=event.name,
            parent_tool_use_id=parent,
            elapsed_time_seconds=self._running_for(event.call) / 1000,
        )

    def flush(self, event: e.Event) -> None:
        """Write what is held back of this agent, so that a request that follows comes after it."""
        if not event.agent:
            self._open_turn()
        self._stream_of(event).flush()

    # Agents.

    def _agent_started(self, event: e.AgentStarted) -> None:
        self._open_turn()
        called = self._calls.get(event.call)
        self.tasks.start(event, str(called.args.get("subagent_type") or "") if called else "")

    # The connection and its settings.

    def _ready(self, event: e.Ready) -> None:
        self.info.ready(event)
        self.main.model = self.info.model
        self.out.session = event.session or self.out.session

    def _setting_changed(self, event: e.SettingChanged) -> None:
        key, value = event.key, event.value
        if key == "session" and isinstance(value, str):
            self._switch_session(value)
        new = key == "mode" and value != self.info.mode
        self.info.update(key, value)
        self.main.model = self.info.model
        if new and not self.mode_waits:
            self.write_mode()
        if key == "commands" and self.cost.results:
            commands = commands_of(self.info.commands)
            self.out.write_new(notices.CommandsChanged, subtype="commands_changed", commands=commands)

    def _switch_session(self, session: str) -> None:
        """Change the session. `conversation_reset` has the old session id; written if that session has a result."""
        if self.out.session and session != self.out.session and self.cost.results:
            self.out.write_new(notices.ConversationReset, new_conversation_id=session, trigger="clear")
        self.out.session = session

    def write_mode(self) -> None:
        self.mode_waits = False
        self.out.write_new(notices.Status, subtype="status", status=None, permissionMode=self.info.wire_mode)

    def write_state(self, state: str) -> None:
        if self._states and self.out.newer and state != self._state:
            self._state = state
            hidden = self._states == "hidden"
            self.out.write_new(notices.SessionState, subtype="session_state_changed", state=state, sdk_host_only=hidden)

    # Around a turn.

    def _compaction_started(self, event: e.CompactionStarted) -> None:
        if not event.agent:
            self._trigger = "manual" if event.reason == "manual" else "auto"
            self.out.write_new(notices.Status, subtype="status", status="compacting")

    def _compaction_ended(self, event: e.CompactionEnded) -> None:
        if event.agent:
            return
        outcome = "success" if event.ok else "failed"
        self.out.write_new(
            notices.Status, subtype="status", status=None, compact_result=outcome, compact_error=event.error
        )
        if event.ok:
            if turn := self._open_turn():
                turn.compacted = True
            segment = {"preserved_segment": {"head_uuid": event.first_kept}} if event.first_kept else {}
            counted = {"trigger": self._trigger, "pre_tokens": event.before, "post_tokens": event.after, **segment}
            self.out.write_new(notices.CompactBoundary, subtype="compact_boundary", compact_metadata=counted)
            self._write_user(event.summary, synthetic=True)

    def _retry_started(self, event: e.RetryStarted) -> None:
        self._open_turn()
        self.out.write_new(
            notices.ApiRetry,
            subtype="api_retry",
            attempt=event.attempt,
            max_retries=event.most,
            retry_delay_ms=event.delay_ms,
            error_status=None,
            error=event.error,
        )

    def _context_used(self, event: e.ContextUsed) -> None:
        if not event.agent:
            self.info.window = event.size

    def _cost_changed(self, event: e.CostChanged) -> None:
        self.cost.update(event, self.info.window)

    def _budget_exceeded(self, event: e.BudgetExceeded) -> None:
        self.cost.budget = event

    def _failed(self, event: e.Failed) -> None:
        if event.failure.code == "session_writes_lost":
            message = event.failure.message
            self.out.write_new(notices.SessionWritesLost, subtype="session_writes_lost", message=message)
        elif event.failure.code == "start":  # the conversation could not be begun, so this is the end of it
            turn = TurnState("", [], self.out.now())
            self.out.write(result(e.TurnEnded("error", failure=event.failure), turn, self.cost, self.out, "", 0))
        else:
            self.out.inform(event.failure.message, "warning")

    def _display(self, event: e.Display) -> None:
        if event.method == "prompt_suggestion":
            suggestion = str(event.params.get("suggestion", ""))
            self.out.write_new(notices.PromptSuggestion, suggestion=suggestion)
        elif event.method in ("notification", "notify"):
            text = str(event.params.get("text") or event.params.get("message") or "")
            self.out.write_new(notices.Notification, subtype="notification", text=text, params=event.params)
        else:
            self.out.lost[f"Display {event.method}"] += 1

    def _notice(self, event: e.Notice) -> None:
        if self.turn and event.turn == self.turn.id and self.turn.without_model and not event.agent:
            self.turn.answers.append(event.text)
        else:
            self.out.inform(event.text, event.level)

    def _structured_answer(self, event: e.StructuredAnswer) -> None:
        if self.turn:
            self.turn.structured = event.value

    def _extra(self, event: e.Extra) -> None:
        self.out.relayed.add(event.kind)
        frame = extra(event, self.out.envelope())
        if frame is None:
            self.out.lost[f"Extra {event.kind}"] += 1
        else:
            self.out.write(frame)


def _content(event: e.ToolFinished, *, host_was_asked: bool) -> str | list[shapes.TextBlock | shapes.ImageBlock]:
    """A list of blocks for images and MCP or agent results, as the vendor's program does; else text.

    A call that the host denied gets the host's own reason as its content.
    """
    if event.outcome == "denied" and host_was_asked and event.reason:
        return event.reason
    if not event.images and (event.outcome != "ok" or not event.name.startswith(("mcp__", "Agent"))):
        return event.output
    text = [shapes.TextBlock(event.output)] if event.output else []
    sources = [shapes.Source("base64", image.media_type, image.data) for image in event.images if image.data]
    return [*text, *map(shapes.ImageBlock, sources)]


def _meta(event: e.ToolFinished, *, host_was_asked: bool) -> shapes.ResultMeta:
    fields = {"outcome": event.outcome, "tool_name": event.name, "reason": event.reason}
    if event.outcome == "denied":
        decision = shapes.Decision("reject", "user_reject" if host_was_asked else "config")
        return shapes.ResultMeta(event.call, decision, "permission-rule", **fields)
    return shapes.ResultMeta(
        event.call, shapes.Decision("accept", "user_temporary") if host_was_asked else None, **fields
    )


def _whole(event: e.ToolFinished) -> str:
    """The path of the file that holds the whole output, if the tool names one."""
    named = _SPILLED.search(event.output)
    return str((event.metadata or {}).get("path") or (named.group() if named else ""))


_HANDLERS: dict[type[e.Event], Callable[[EventWriter, Any], None]] = {
    e.Ready: EventWriter._ready,
    e.SettingChanged: EventWriter._setting_changed,
    e.ServerChanged: lambda writer, event: writer.info.server(event),
    e.QueueChanged: EventWriter._queue_changed,
    e.Settled: lambda writer, event: writer.write_state("idle"),
    e.TurnStarted: EventWriter._turn_started,
    e.UserMessage: EventWriter._user_message,
    e.StepStarted: EventWriter._step_started,
    e.TextDelta: EventWriter._delta,
    e.ThinkingDelta: EventWriter._delta,
    e.ArgsDelta: EventWriter._delta,
    e.BlockEnded: EventWriter._block_ended,
    e.ReplyEnded: EventWriter._reply_ended,
    e.StepEnded: EventWriter._ignore,
    e.TurnEnded: EventWriter._turn_ended,
    e.ToolCalled: EventWriter._tool_called,
    e.ToolStarted: EventWriter._tool_started,
    e.ToolFinished: EventWriter._tool_finished,
    e.AgentStarted: EventWriter._agent_started,
    e.AgentProgress: lambda writer, event: writer.tasks.progress(event),
    e.AgentEnded: lambda writer, event: writer.tasks.end(event),
    e.RetryStarted: EventWriter._retry_started,
    e.RetryEnded: EventWriter._ignore,
    e.CompactionStarted: EventWriter._compaction_started,
    e.CompactionEnded: EventWriter._compaction_ended,
    e.ContextUsed: EventWriter._context_used,
    e.CostChanged: EventWriter._cost_changed,
    e.BudgetExceeded: EventWriter._budget_exceeded,
    e.Alive: EventWriter._alive,
    e.Display: EventWriter._display,
    e.Notice: EventWriter._notice,
    e.Failed: EventWriter._failed,
    e.StructuredAnswer: EventWriter._structured_answer,
    e.Extra: EventWriter._extra,
}
