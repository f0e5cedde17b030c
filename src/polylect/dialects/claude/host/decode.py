"""Frames to events, as they mean it; the Completer makes them grammatical. Keeps what the wire says only once."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from polylect.dialects.claude.frames.lenient import Object, inner, objects, text, whole, words
from polylect.dialects.claude.host.asks import category
from polylect.dialects.claude.host.deduplicate import Translator
from polylect.dialects.claude.host.notices import NOTICES, details
from polylect.dialects.claude.host.results import Books, ending
from polylect.dialects.claude.host.settings import Settings
from polylect.dialects.claude.host.streams import Streams
from polylect.dialects.claude.host.subagents import Agents
from polylect.dialects.claude.host.tools import Calls
from polylect.vocab import events as e
from polylect.vocab.content import Text, Thinking
from polylect.wire import jsonl

MARKER = "[Request interrupted by user"
STRUCTURED = "StructuredOutput"
_NAMES_TURNS = "msg_lifecycle_v1"
"""An engine that can do this says which prompts a turn is for."""
_REMEMBERED = 10_000
"""How many lines are known again by their uuid."""


class Bad(ValueError):
    """A frame that is not what its type promises."""


class EventReader:
    def __init__(self, new_id: Callable[[], str], *, resumed: bool = False) -> None:
        self._new_id = new_id
        self.sent: dict[str, None] = {}
        """Turns that were handed over and have not begun, in order."""
        self.turn = ""
        self.stopped: set[str] = set()
        """Turns that the host stopped."""
        self.settings = Settings()
        self.calls = Calls()
        self.agents = Agents(self.calls)
        self.books = Books(resumed=resumed)
        self._translator = Translator()
        self._streams = Streams(self._translator)
        self._seen: dict[str, None] = {}
        self._messages: dict[str, str] = {}
        """By lane: the reply that is being said."""
        self._requests: dict[str, str] = {}
        self._queue: tuple[str, ...] = ()
        self._boundary: e.CompactionEnded | None = None
        """A compaction whose summary comes in the next frame."""
        self._structured: Object = {}

    def read(self, kind: str, found: Object) -> list[e.Event] | None:
        """None if nobody knows such a frame. Raises Bad."""
        meaning = _MEANINGS.get(kind)
        if meaning is None:
            return None
        if self._repeated(kind, text(found, "uuid")):
            return []
        before = [] if kind == "user" else self.flush()
        said = meaning(self, found)
        return [*before, *(self._placed(event, found) for event in said)]

    def flush(self) -> list[e.Event]:
        ended, self._boundary = self._boundary, None
        return [ended] if ended else []

    def _repeated(self, kind: str, uuid: str) -> bool:
        if not uuid or kind == "stream_event":
            return False
        known = uuid in self._seen
        self._seen[uuid] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return known

    def _placed(self, event: e.Event, found: Object) -> e.Event:
        """In the running turn, and in the lane that the frame names, where the event says neither."""
        if isinstance(event, _ELSEWHERE):
            return event
        lane = event.agent or text(found, "parent_tool_use_id")
        return replace(event, turn=event.turn or self.turn, agent=lane)

    # A turn.

    def _init(self, found: Object) -> list[e.Event]:
        told = self.settings.init(found)
        named = words(found, "user_message_uuids")
        if self.turn and (not named or self.turn in named):
            return told
        if not named and _NAMES_TURNS not in words(found, "capabilities"):
            named = list(self.sent)[:1]
        self.sent.pop(next(iter(named), ""), None)
        self.turn = next(iter(named), "") or self._new_id()
        return [*told, e.TurnStarted("prompt" if named else "engine", turn=self.turn)]

    def _result(self, found: Object) -> list[e.Event]:
        named = words(found, "user_message_uuids") or [text(found, "user_message_uuid")]
        turn = self._ended_turn([name for name in named if name])
        spent, cost = self.books.enter(found)
        told: list[e.Event] = [*self._structured_output(found), *([cost] if cost else [])]
        reason, failure = ending(found, stopped=turn in self.stopped)
        told.append(e.TurnEnded(reason, spent, whole(found, "num_turns"), failure, turn=turn))
        for merged in [name for name in named if name in self.sent and name != turn]:
            # Prompts that waited became one for the engine. Each has an end of its own all the same (T2).
            told += [e.TurnStarted(turn=merged), e.TurnEnded(reason, failure=failure, turn=merged)]
        if turn in (self.turn, ""):
            self._end_lanes()
        self._forget(turn, *named)
        return told if turn else self._orphaned(told)

    def _ended_turn(self, named: list[str]) -> str:
        """The running one, unless the frame names one that never began."""
        if self.turn and (not named or self.turn in named):
            return self.turn
        return next(iter(named), "") or next(iter(self.sent), "")

    def _orphaned(self, told: list[e.Event]) -> list[e.Event]:
        """Nothing was asked for, so nothing ended: only a failure is worth telling."""
        ended = told.pop()
        assert isinstance(ended, e.TurnEnded)
        return [*told, e.Failed(ended.failure)] if ended.failure else told

    def _forget(self, *turns: str) -> None:
        for turn in turns:
            self.sent.pop(turn, None)
            self.stopped.discard(turn)
            if turn == self.turn:
                self.turn = ""

    def _end_lanes(self) -> None:
        for lane in ("", *self.agents.turn_ended()):
            self._translator.reset(lane)
            self._streams.end(lane)
            self._messages.pop(lane, None)
        self.calls.keep(self.agents.running)

    def _structured_output(self, found: Object) -> list[e.Event]:
        """Told once a turn, by the result or by the call that made it."""
        kept, self._structured = self._structured, {}
        told = {"value": found["structured_output"]} if "structured_output" in found else kept
        return [e.Extra("structured_output", told)] if told else []

    def _lifecycle(self, found: Object) -> list[e.Event]:
        turn, state = text(found, "command_uuid"), text(found, "state")
        queue = tuple(other for other in self._queue if other != turn)
        queue += (turn,) if state == "queued" else ()
        told: list[e.Event] = [e.QueueChanged(queue)] if queue != self._queue else []
        self._queue = queue
        never_began = turn in self.sent or (state == "cancelled" and turn != self.turn)
        if state in ("cancelled", "completed") and never_began:
            told.append(e.TurnEnded("cancelled", turn=turn))
            self._forget(turn)
        return told

    def dropped(self, turns: Iterable[str]) -> list[e.Event]:
        """Prompts that an interrupt took from the queue."""
        return [ended for turn in turns for ended in self._lifecycle({"command_uuid": turn, "state": "cancelled"})]

    # What the model says.

    def _assistant(self, found: Object) -> list[e.Event]:
        message, lane = _message(found), text(found, "parent_tool_use_id")
        told = self.agents.seen(found)
        self._requests[lane] = text(found, "request_id") or self._requests.get(lane, "")
        if (ended := self._streams.piece(message, lane)) is not None:
            return [*told, *ended]
        blocks = self._translator.new_blocks(message, lane, numbered=bool(text(found, "uuid")))
        if text(found, "error"):
            # The engine's own words, in the place of a reply. The turn's failure has them too.
            why = "\n".join(text(block, "text") for block in blocks)
            return [*told, e.ReplyEnded("error", model=text(message, "model"), error=why)] if blocks else told
        if blocks:
            told += self._step(text(message, "id"), lane)
        for block in blocks:
            told += [*self._streams.whole(text(block, "type"), lane), *self._block(block, lane)]
        return told

    def _step(self, id: str, lane: str) -> list[e.Event]:
        begins = bool(id) and self._messages.get(lane) != id
        self._messages[lane] = id
        return [e.StepStarted(agent=lane)] if begins else []

    def _block(self, block: Object, lane: str) -> list[e.Event]:
        match kind := text(block, "type"):
            case "text":
                return [e.BlockEnded(Text(said))] if (said := text(block, "text")) else []
            case "thinking":
                said = text(block, "thinking") or text(block, "text")
                return [e.BlockEnded(Thinking(said, text(block, "signature")))] if said else []
            case "redacted_thinking":
                return [e.BlockEnded(Thinking("", redacted=text(block, "data")))]
            case "tool_use" | "server_tool_use":
                return self._called(block, lane)
            case _ if kind.endswith("tool_result"):
                return self.calls.finished(block, {}, lane)
        return [e.UnknownEvent(f"assistant/{kind}", jsonl.dump(block))]

    def _called(self, block: Object, lane: str) -> list[e.Event]:
        id, name = text(block, "id"), text(block, "name")
        if name == STRUCTURED and "input" in block:
            self._structured = {"value": block["input"]}
        if not id or not name:
            return []
        args = inner(block, "input")
        self.calls.called(id, name, lane, args)
        return [e.ToolCalled(id, name, args, category(name))]

    def _stream_event(self, found: Object) -> list[e.Event]:
        event, lane = found.get("event"), text(found, "parent_tool_use_id")
        if not isinstance(event, dict):
            raise Bad("event: expected an object")
        if text(event, "type") != "message_start":
            return self._streams.read(event, lane, self._requests.get(lane, ""))
        return [*self.agents.seen(found), *self._step(self._streams.begin(event, lane), lane)]

    # What the model is told.

    def _user(self, found: Object) -> list[e.Event]:
        content, lane = _message(found).get("content"), text(found, "parent_tool_use_id")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects({"of": content}, "of")
        said = "\n".join(text(block, "text") for block in blocks if text(block, "type") == "text")
        results = [block for block in blocks if text(block, "type") == "tool_result"]
        if self._boundary and said and not results and not lane:
            self._boundary = replace(self._boundary, summary=said)
            return self.flush()
        told = [*self.flush(), *self.agents.seen(found)]
        told += [event for block in results for event in self.calls.finished(block, found, lane, self._stopping)]
        return [*told, *(self._words(found, said) if said else [])]

    @property
    def _stopping(self) -> bool:
        return self.turn in self.stopped

    def _words(self, found: Object, said: str) -> list[e.Event]:
        if said.startswith(MARKER):
            return []
        if found.get("isReplay") is not True:
            return [e.UserMessage(said, "engine")]
        known = text(found, "uuid") in (self.turn, *self.sent)
        return [] if known else [e.UserMessage(said, "replay")]

    # Around a turn.

    def _status(self, found: Object) -> list[e.Event]:
        told: list[e.Event] = []
        if text(found, "status") == "compacting":
            told.append(e.CompactionStarted())
        if text(found, "compact_result") == "failed":
            told.append(e.CompactionEnded(ok=False, error=text(found, "compact_error")))
        return [*told, *self.settings.mode(text(found, "permissionMode"))]

    def _compact_boundary(self, found: Object) -> list[e.Event]:
        told = inner(found, "compact_metadata")
        kept = text(inner(told, "preserved_segment"), "head_uuid")
        self._boundary = e.CompactionEnded(
            before=whole(told, "pre_tokens"), after=whole(told, "post_tokens"), kept=kept, turn=self.turn
        )
        return []

    def _permission_denied(self, found: Object) -> list[e.Event]:
        reason = text(found, "decision_reason") or text(found, "message")
        self.calls.denied[text(found, "tool_use_id")] = reason
        return []

    def _api_retry(self, found: Object) -> list[e.Event]:
        """Nothing says whose request it was, so it is the turn's only if nobody else is at work."""
        if not self.turn or self.agents.running:
            return [e.Extra("api_retry", details(found))]
        error = text(found, "error") or str(found.get("error_status") or "")
        counts = [whole(found, key) for key in ("attempt", "max_retries", "retry_delay_ms")]
        return [e.RetryStarted(counts[0], counts[1], counts[2], error)]

    def _task_started(self, found: Object) -> list[e.Event]:
        return self.agents.started(found)

    def _task_progress(self, found: Object) -> list[e.Event]:
        return self.agents.progress(found)

    def _task_notification(self, found: Object) -> list[e.Event]:
        told = self.agents.ended(found)
        for lane in [event.agent for event in told if isinstance(event, e.AgentEnded)]:
            self._translator.reset(lane)
            self._streams.end(lane)
            self._messages.pop(lane, None)
        return told

    def _session_state(self, found: Object) -> list[e.Event]:
        state = text(found, "state")
        if state == "idle" and not self.turn:
            return [e.Settled()]
        return [e.Extra("session_state_changed", {"state": state})]

    def _commands_changed(self, found: Object) -> list[e.Event]:
        return self.settings.commands(objects(found, "commands"))

    def _reset(self, found: Object) -> list[e.Event]:
        return self.settings.changed("session", text(found, "new_conversation_id"))


_ELSEWHERE = (
    e.Ready, e.SettingChanged, e.ServerChanged, e.QueueChanged, e.Settled, e.TurnStarted, e.TurnEnded, e.CostChanged,
)  # fmt: skip
"""What belongs to no turn, or names it itself."""


def _message(found: Object) -> Object:
    message = found.get("message")
    if not isinstance(message, dict):
        raise Bad("message: expected an object")
    if not isinstance(message.get("content"), str | list):
        raise Bad("message.content: expected a string or a list of blocks")
    return message


def _notice(meaning: Callable[[Object], list[e.Event]]) -> Callable[[EventReader, Object], list[e.Event]]:
    return lambda reader, found: meaning(found)


_MEANINGS: dict[str, Callable[[EventReader, Any], list[e.Event]]] = {
    "system/init": EventReader._init,
    "assistant": EventReader._assistant,
    "stream_event": EventReader._stream_event,
    "user": EventReader._user,
    "result": EventReader._result,
    "system/result": EventReader._result,
    "command_lifecycle": EventReader._lifecycle,
    "conversation_reset": EventReader._reset,
    "system/status": EventReader._status,
    "system/compact_boundary": EventReader._compact_boundary,
    "system/permission_denied": EventReader._permission_denied,
    "system/api_retry": EventReader._api_retry,
    "system/task_started": EventReader._task_started,
    "system/task_progress": EventReader._task_progress,
    "system/task_updated": EventReader._task_progress,
    "system/task_notification": EventReader._task_notification,
    "system/session_state_changed": EventReader._session_state,
    "system/commands_changed": EventReader._commands_changed,
    **{kind: _notice(meaning) for kind, meaning in NOTICES.items()},
}
