"""What is said around turns, and what many frames share. `writer.py` tells of the turns themselves."""

from typing import Literal

from polylect.dialects.claude.engine.block_stream import Voice
from polylect.dialects.claude.engine.engine_info import Known, commands_of
from polylect.dialects.claude.engine.extras import extra
from polylect.dialects.claude.engine.line_writer import Pen
from polylect.dialects.claude.engine.prompts import Prompts
from polylect.dialects.claude.engine.subagents import Tasks
from polylect.dialects.claude.engine.turn_state import Books, Turn, result
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab import events as e

SYNTHETIC = "<synthetic>"
"""Who speaks where no model does."""
States = bool | Literal["hidden"]
"""Whether a host hears whether anything runs; `hidden` marks it as meant for an SDK alone."""


class Scribe:
    def __init__(
        self, pen: Pen, known: Known, prompts: Prompts, *, partial: bool, hook_events: bool, states: States
    ) -> None:
        self.pen = pen
        self.known = known
        self._prompts = prompts
        self._partial = partial
        self._hook_events = hook_events
        self._states = states
        self.main = Voice(pen, parent=None, partial=partial, shown=True, marks={})
        self.tasks = Tasks(pen)
        self.books = Books()
        self.turn: Turn | None = None
        self.failed = False
        """Whether the last result was an error."""
        self.mode_waits = False
        """A change of mode is told after the answer to the request for it."""
        self.asked: set[str] = set()
        """Calls that the host was asked about: it needs no word of what it denied itself."""
        self._calls: dict[str, e.ToolCalled] = {}
        self._started: dict[str, int] = {}
        self._asking_at = 0
        self._state = "idle"
        self._holding: Voice | None = None
        """Whose last block is kept back until the next event, and since when."""
        self._held_at = 0
        self._trigger = "auto"

    def _voice(self, event: e.Event) -> Voice:
        if not event.agent:
            return self.main
        voice = self.tasks.voice(event.agent)
        voice.model = voice.model or self.known.model
        return voice

    def _said(self) -> shapes.Envelope:
        return self.pen.envelope()

    def _open(self) -> Turn | None:
        """Init comes before all else that belongs to the turn, but for a compaction that was asked for."""
        if self.turn and not self.turn.opened:
            self.turn.opened = True
            self.pen.say(self.known.init(self.pen, self.turn.uuids))
        return self.turn

    def _user(self, text: str, voice: Voice | None = None, *, synthetic: bool = False, replay: bool = False) -> None:
        voice = voice or self.main
        self.pen.say(
            shapes.User(
                message=shapes.Words([shapes.TextBlock(text)]),
                parent_tool_use_id=voice.parent,
                timestamp=self.pen.timestamp(),
                isSynthetic=synthetic,
                isReplay=replay,
                **self._said(),
                **voice.marks,
            )
        )

    def _synthetic(self, text: str, stop: str, error: str = "") -> None:
        blocks: list[shapes.Spoken] = [shapes.TextBlock(text)]
        message = shapes.Message(self.pen.id(), SYNTHETIC, blocks, stop_reason=stop, stop_sequence="")
        self.pen.say(
            shapes.Assistant(
                message=message, parent_tool_use_id=None, error=error, is_api_error_message=bool(error), **self._said()
            )
        )

    def _notices(self, turn: Turn) -> None:
        for text in turn.answers:
            self.pen.inform(text)
        turn.answers = []

    # The connection and its settings.

    def _ready(self, event: e.Ready) -> None:
        self.known.ready(event)
        self.main.model = self.known.model
        self.pen.session = event.session or self.pen.session

    def _setting_changed(self, event: e.SettingChanged) -> None:
        key, value = event.key, event.value
        if key == "session" and isinstance(value, str):
            self._move(value)
        new = key == "mode" and value != self.known.mode
        self.known.learn(key, value)
        self.main.model = self.known.model
        if new and not self.mode_waits:
            self.tell_mode()
        if key == "commands" and self.books.results:
            told = commands_of(self.known.commands)
            self.pen.say(notices.CommandsChanged(subtype="commands_changed", commands=told, **self._said()))

    def _move(self, session: str) -> None:
        """Into another conversation: told in the old one, once something has been said there."""
        if self.pen.session and session != self.pen.session and self.books.results:
            self.pen.say(notices.ConversationReset(new_conversation_id=session, trigger="clear", **self._said()))
        self.pen.session = session

    def tell_mode(self) -> None:
        self.mode_waits = False
        self.pen.say(notices.Status(subtype="status", status=None, permissionMode=self.known.wire_mode, **self._said()))

    def _server_changed(self, event: e.ServerChanged) -> None:
        self.known.server(event)

    def state(self, state: str) -> None:
        if self._states and self.pen.newer and state != self._state:
            self._state = state
            hidden = self._states == "hidden"
            told = notices.SessionState(
                subtype="session_state_changed", state=state, sdk_host_only=hidden, **self._said()
            )
            self.pen.say(told)

    def _settled(self, event: e.Settled) -> None:
        self.state("idle")

    # What happens around a turn.

    def _compaction_started(self, event: e.CompactionStarted) -> None:
        if not event.agent:
            self._trigger = "manual" if event.reason == "manual" else "auto"
            self.pen.say(notices.Status(subtype="status", status="compacting", **self._said()))

    def _compaction_ended(self, event: e.CompactionEnded) -> None:
        if event.agent:
            return
        outcome = "success" if event.ok else "failed"
        self.pen.say(
            notices.Status(
                subtype="status", status=None, compact_result=outcome, compact_error=event.error, **self._said()
            )
        )
        if event.ok:
            if turn := self._open():
                turn.compacted = True
            kept = {"preserved_segment": {"head_uuid": event.kept}} if event.kept else {}
            counted = {"trigger": self._trigger, "pre_tokens": event.before, "post_tokens": event.after, **kept}
            self.pen.say(notices.CompactBoundary(subtype="compact_boundary", compact_metadata=counted, **self._said()))
            self._user(event.summary, synthetic=True)

    def _retry_started(self, event: e.RetryStarted) -> None:
        self._open()
        self.pen.say(
            notices.ApiRetry(
                subtype="api_retry",
                attempt=event.attempt,
                max_retries=event.most,
                retry_delay_ms=event.delay_ms,
                error_status=None,
                error=event.error,
                **self._said(),
            )
        )

    def _context_used(self, event: e.ContextUsed) -> None:
        if not event.agent:
            self.known.window = event.size

    def _cost_changed(self, event: e.CostChanged) -> None:
        self.books.take(event, self.known.window)

    def _budget_exceeded(self, event: e.BudgetExceeded) -> None:
        self.books.budget = event

    def _failed(self, event: e.Failed) -> None:
        if event.failure.code == "session_writes_lost":
            lost = notices.SessionWritesLost(
                subtype="session_writes_lost", message=event.failure.message, **self._said()
            )
            self.pen.say(lost)
        elif event.failure.code == "start":  # the conversation could not be begun, so this is the end of it
            turn = Turn("", [], self.pen.now())
            self.pen.say(result(e.TurnEnded("error", failure=event.failure), turn, self.books, self.pen, "", 0))
        else:
            self.pen.inform(event.failure.message, "warning")

    def _display(self, event: e.Display) -> None:
        if event.method == "prompt_suggestion":
            suggestion = str(event.params.get("suggestion", ""))
            self.pen.say(notices.PromptSuggestion(suggestion=suggestion, **self._said()))
        elif event.method in ("notification", "notify"):
            text = str(event.params.get("text") or event.params.get("message") or "")
            told = notices.Notification(subtype="notification", text=text, params=event.params, **self._said())
            self.pen.say(told)
        else:
            self.pen.lost[f"Display {event.method}"] += 1

    def _notice(self, event: e.Notice) -> None:
        if self.turn and event.turn == self.turn.id and self.turn.local and not event.agent:
            self.turn.answers.append(event.text)
        else:
            self.pen.inform(event.text, event.level)

    def _extra(self, event: e.Extra) -> None:
        if event.kind == "structured_output":
            if self.turn:
                self.turn.structured = event.data.get("value")
            return
        frame = extra(event, self._said(), hooks=self._hook_events)
        if frame is None:
            self.pen.lost[f"Extra {event.kind}"] += 1
        else:
            self.pen.say(frame)
