"""Events to frames. What waits for the host's answer is in `asking.py`, what answers the host in `requests.py`."""

import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from polylect.dialects.claude.engine.block_stream import Voice
from polylect.dialects.claude.engine.session_frames import Scribe
from polylect.dialects.claude.engine.turn_state import API_ERRORS, Turn, api_text, is_of_the_service, result
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab import events as e
from polylect.vocab.content import Failure

_SPILLED = re.compile(r"/\S+/spill/[\w-]+\.txt")
_GRACE = 20
"""Milliseconds. The end of a reply that was cut short comes together with its last block."""
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_TOOLS = "[Request interrupted by user for tool use]"


class EventWriter(Scribe):
    def write(self, event: e.Event) -> None:
        if self._holding and not isinstance(event, e.ReplyEnded):
            self._holding.release()
        word = _WORDS.get(type(event))
        if word is None:
            self.pen.lost[type(event).__name__] += 1
        else:
            word(self, event)

    # A turn.

    def _turn_started(self, event: e.TurnStarted) -> None:
        self.state("running")
        uuids = self._prompts.started(event.turn, unasked=event.cause == "engine")
        self.turn = Turn(event.turn, uuids, self.pen.now(), unasked=event.cause == "engine")
        self.main.uuids, self.main.first_at, self.main.reply = uuids, 0, []
        self.main.turn, self.main.lines = event.turn, 0

    def _user_message(self, event: e.UserMessage) -> None:
        if event.agent:
            self._user(event.text, self._voice(event))
            return
        turn = self._open()
        if event.origin == "prompt":
            self._prompts.replay(event.turn)
        elif not (turn and turn.unasked and not turn.steps):
            self._user(event.text, synthetic=event.origin != "replay", replay=event.origin == "replay")

    def _step_started(self, event: e.StepStarted) -> None:
        if event.agent:
            self._voice(event).begin()
            return
        if turn := self._open():
            self._notices(turn)
            turn.asked()
        self.main.begin()
        self._asking_at = self.pen.now()
        if self._partial:
            self.pen.say(notices.Status(subtype="status", status="requesting", **self._said()))

    def _delta(self, event: e.TextDelta | e.ThinkingDelta | e.ArgsDelta) -> None:
        self._spoken(event).delta(event)

    def _block_ended(self, event: e.BlockEnded) -> None:
        self._holding, self._held_at = self._spoken(event), self.pen.now()
        self._holding.block(event.block)

    def due(self) -> int | None:
        """In how many milliseconds a block that is kept back has to go."""
        if not (self._holding and self._holding.holds):
            return None
        return max(self._held_at + _GRACE - self.pen.now(), 0)

    def take(self) -> bytes:
        if self._holding and self.due() == 0:
            self._holding.release()
        return self.pen.take()

    def _spoken(self, event: e.Event) -> Voice:
        if not event.agent and (turn := self._open()):
            turn.steps = turn.steps or 1
        return self._voice(event)

    def _reply_ended(self, event: e.ReplyEnded) -> None:
        voice = self._spoken(event)
        voice.ended(event)
        if event.agent:
            self.tasks.spent(event.agent, event.usage)
        else:
            self.books.api_ms += max(self.pen.now() - self._asking_at, 0)
            if self.turn:
                self.turn.replied(event)

    def _rebuilt(self, event: e.Event) -> None:
        """Not said: the other end finds it out by itself."""

    def _turn_ended(self, event: e.TurnEnded) -> None:
        if self.turn is None or event.turn != self.turn.id:
            self._never_began(event)
            return
        turn, self.turn = self._open() or self.turn, None
        if turn.local and event.reason == "end":
            self._answer_locally(turn)
        self._notices(turn)
        if event.failure and event.reason == "error" and is_of_the_service(event.failure):
            self._api_error(event.failure)
        if event.reason == "cancelled":
            self._user(INTERRUPTED_TOOLS if turn.called else INTERRUPTED)
        self.main.finish()
        turn.first_at = self.main.first_at
        self._result(event, turn)

    def _result(self, event: e.TurnEnded, turn: Turn) -> None:
        if event.reason != "limit":
            self.books.budget = None
        text = "".join(self.main.reply) or "\n".join(turn.answers)
        told = result(event, turn, self.books, self.pen, text, len(self._prompts.waiting))
        self.failed = told.is_error
        self.pen.say(told)
        self._prompts.ended(event.turn, "cancelled" if event.reason == "cancelled" else "completed")

    def _never_began(self, event: e.TurnEnded) -> None:
        """A prompt that only waited."""
        if event.reason == "cancelled" and self._prompts.cancelled(event.turn):
            return
        turn = Turn(event.turn, self._prompts.uuids(event.turn), self.pen.now())
        told = result(event, turn, self.books, self.pen, "", len(self._prompts.waiting))
        self.failed = told.is_error
        self.pen.say(told)
        self._prompts.ended(event.turn, "cancelled" if event.reason == "cancelled" else "completed")

    def _queue_changed(self, event: e.QueueChanged) -> None:
        """Not said, but asked for."""
        self._prompts.queued = event.prompts

    def refused(self, turn: str, failure: Failure) -> None:
        """A prompt that was not accepted ends all the same (L1)."""
        self._never_began(e.TurnEnded("error", failure=failure, turn=turn))

    # What is told without a model.

    def _answer_locally(self, turn: Turn) -> None:
        self._prompts.replay(turn.id)
        text = "\n".join(turn.answers)
        if not text:
            return
        if turn.compacted:
            self._user(f"<local-command-stdout>{text}</local-command-stdout>", replay=True)
        else:
            self._synthetic(text, "end_turn")
        self.main.reply, turn.answers = [text], []

    def _api_error(self, failure: Failure) -> None:
        self.main.finish()
        self._synthetic(api_text(failure), "stop_sequence", API_ERRORS.get(failure.code, ("unknown", 0))[0])

    # Calls.

    def _tool_called(self, event: e.ToolCalled) -> None:
        self._calls[event.call] = event
        if not event.agent and self.turn:
            self.turn.called = True
        self._spoken(event).call(event.call, event.name, event.args)
        self.tasks.called(event)

    def _tool_started(self, event: e.ToolStarted) -> None:
        self._started[event.call] = self.pen.now()

    def _tool_finished(self, event: e.ToolFinished) -> None:
        self._voice(event).settle()
        if event.outcome == "denied":
            self.deny(event.call, event.name)
            if event.call not in self.asked and self.pen.newer:
                self._denied_unasked(event)
        ok = event.outcome == "ok"
        block = shapes.ToolResultBlock(event.call, _content(event, asked=event.call in self.asked), not ok)
        failed = UNSET if ok else f"Error: {event.output[:2000]}"
        told = event.metadata if event.metadata is not None else failed
        frame = shapes.User(
            message=shapes.Words([block]),
            parent_tool_use_id=self._voice(event).parent,
            timestamp=self.pen.timestamp(),
            tool_use_result=UNSET if event.agent else told,
            tool_result_meta=[_meta(event, asked=event.call in self.asked)],
            **self._said(),
            **self._voice(event).marks,
        )
        self.pen.tool_result(frame, block, _whole(event))
        self._forget(event.call)

    def _forget(self, call: str) -> None:
        self._calls.pop(call, None)
        self._started.pop(call, None)
        self.asked.discard(call)

    def deny(self, call: str, name: str) -> None:
        """To be listed in the result."""
        called = self._calls.get(call)
        if self.turn and call:
            args = called.args if called else {}
            self.turn.denials[call] = shapes.Denial(name or (called.name if called else ""), call, args)

    def _denied_unasked(self, event: e.ToolFinished) -> None:
        self.pen.say(
            notices.PermissionDenied(
                subtype="permission_denied",
                tool_name=event.name,
                tool_use_id=event.call,
                message=event.output,
                agent_id=event.agent,
                decision_reason=event.reason,
                **self._said(),
            )
        )

    def _alive(self, event: e.Alive) -> None:
        if not event.call:
            self.pen.say(shapes.KeepAlive())
            return
        since = self.pen.now() - self._started.get(event.call, self.pen.now())
        parent = self._voice(event).parent
        self.pen.say(
            notices.ToolProgress(
                tool_use_id=event.call,
                tool_name=event.name,
                parent_tool_use_id=parent,
                elapsed_time_seconds=since / 1000,
                **self._said(),
            )
        )

    def settle(self, event: e.Event) -> None:
        """What was said before it goes before it."""
        if not event.agent:
            self._open()
        self._voice(event).settle()

    # Agents.

    def _agent_started(self, event: e.AgentStarted) -> None:
        self._open()
        called = self._calls.get(event.call)
        self.tasks.start(event, str(called.args.get("subagent_type") or "") if called else "")

    def _agent_progress(self, event: e.AgentProgress) -> None:
        self.tasks.progress(event)

    def _agent_ended(self, event: e.AgentEnded) -> None:
        self.tasks.end(event)


def _content(event: e.ToolFinished, *, asked: bool) -> str | list[shapes.TextBlock | shapes.ImageBlock]:
    """Blocks only where theirs are. A host that has denied a call hears its own words."""
    if event.outcome == "denied" and asked and event.reason:
        return event.reason
    if not event.images and (event.outcome != "ok" or not event.name.startswith(("mcp__", "Agent"))):
        return event.output
    text = [shapes.TextBlock(event.output)] if event.output else []
    sources = [shapes.Source("base64", image.media_type, image.data) for image in event.images if image.data]
    return [*text, *map(shapes.ImageBlock, sources)]


def _meta(event: e.ToolFinished, *, asked: bool) -> shapes.ResultMeta:
    told = {"outcome": event.outcome, "tool_name": event.name, "reason": event.reason}
    if event.outcome == "denied":
        decision = shapes.Decision("reject", "user_reject" if asked else "config")
        return shapes.ResultMeta(event.call, decision, "permission-rule", **told)
    return shapes.ResultMeta(event.call, shapes.Decision("accept", "user_temporary") if asked else None, **told)


def _whole(event: e.ToolFinished) -> str:
    """Where a tool has put what it printed, if it says so."""
    named = _SPILLED.search(event.output)
    return str((event.metadata or {}).get("path") or (named.group() if named else ""))


_WORDS: dict[type[e.Event], Callable[[EventWriter, Any], None]] = {
    e.Ready: EventWriter._ready,
    e.SettingChanged: EventWriter._setting_changed,
    e.ServerChanged: EventWriter._server_changed,
    e.QueueChanged: EventWriter._queue_changed,
    e.Settled: EventWriter._settled,
    e.TurnStarted: EventWriter._turn_started,
    e.UserMessage: EventWriter._user_message,
    e.StepStarted: EventWriter._step_started,
    e.TextDelta: EventWriter._delta,
    e.ThinkingDelta: EventWriter._delta,
    e.ArgsDelta: EventWriter._delta,
    e.BlockEnded: EventWriter._block_ended,
    e.ReplyEnded: EventWriter._reply_ended,
    e.StepEnded: EventWriter._rebuilt,
    e.TurnEnded: EventWriter._turn_ended,
    e.ToolCalled: EventWriter._tool_called,
    e.ToolStarted: EventWriter._tool_started,
    e.ToolFinished: EventWriter._tool_finished,
    e.AgentStarted: EventWriter._agent_started,
    e.AgentProgress: EventWriter._agent_progress,
    e.AgentEnded: EventWriter._agent_ended,
    e.RetryStarted: EventWriter._retry_started,
    e.RetryEnded: EventWriter._rebuilt,
    e.CompactionStarted: EventWriter._compaction_started,
    e.CompactionEnded: EventWriter._compaction_ended,
    e.ContextUsed: EventWriter._context_used,
    e.CostChanged: EventWriter._cost_changed,
    e.BudgetExceeded: EventWriter._budget_exceeded,
    e.Alive: EventWriter._alive,
    e.Display: EventWriter._display,
    e.Notice: EventWriter._notice,
    e.Failed: EventWriter._failed,
    e.Extra: EventWriter._extra,
}
