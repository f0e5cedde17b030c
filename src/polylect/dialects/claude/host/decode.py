"""Reads frames of the engine as events. Control frames are left to the codec.

`EventReader` has one handler for each type of frame (`_HANDLERS`). It remembers what a frame does not repeat: the
running turn, which calls and agents are open, which messages were read. Its events may leave gaps (no `StepEnded`, no
`ReplyEnded`); the `Completer` of the codec fills them. A frame whose uuid has been read is ignored.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from polylect.dialects.claude.host.deduplicate import Deduplicator
from polylect.dialects.claude.host.notices import NOTICES, details
from polylect.dialects.claude.host.partial_messages import PartialMessages
from polylect.dialects.claude.host.results import SessionCost, ending
from polylect.dialects.claude.host.settings import Settings
from polylect.dialects.claude.host.subagents import Agents
from polylect.dialects.claude.host.tools import CallRecords
from polylect.dialects.lenient import Object, inner, objects, text, whole, words
from polylect.dialects.tool_categories import category
from polylect.vocab import events as e
from polylect.vocab.content import Text, Thinking
from polylect.wire import jsonl

MARKER = "[Request interrupted by user"
STRUCTURED = "StructuredOutput"
_NAMES_TURNS = "msg_lifecycle_v1"
"""With this capability an engine names the prompts of a turn in `system/init`."""
_REMEMBERED = 10_000
"""How many uuids are remembered to recognise repeated frames."""


class BadFrame(ValueError):
    """A frame that lacks what its type requires."""


class EventReader:
    def __init__(self, new_id: Callable[[], str], *, resumed: bool = False, cost_before: float | None = None) -> None:
        self._new_id = new_id
        self.sent: dict[str, None] = {}
        """Turns whose prompt was sent and that have not begun, in order."""
        self.turn = ""
        self.stopped: set[str] = set()
        """Turns that the host has stopped."""
        self.settings = Settings()
        self.calls = CallRecords()
        self.agents = Agents(self.calls)
        self.cost = SessionCost(resumed=resumed, before=cost_before)
        self._deduplicator = Deduplicator()
        self._partials = PartialMessages(self._deduplicator)
        self._frame_uuids: dict[str, None] = {}
        self._messages: dict[str, str] = {}
        """By agent: the id of the message that is being written."""
        self._requests: dict[str, str] = {}
        self._queue: tuple[str, ...] = ()
        self._boundary: e.CompactionEnded | None = None
        """A compaction whose summary comes in the next frame."""
        self._structured: e.StructuredAnswer | None = None

    def read(self, kind: str, frame: Object) -> list[e.Event] | None:
        """The events of a frame; None for an unknown kind. Raises BadFrame."""
        handler = _HANDLERS.get(kind)
        if handler is None:
            return None
        if self._repeated(kind, text(frame, "uuid")):
            return []
        before = [] if kind == "user" else self.flush()
        events = handler(self, frame)
        return [*before, *(self._placed(event, frame) for event in events)]

    def flush(self) -> list[e.Event]:
        ended, self._boundary = self._boundary, None
        return [ended] if ended else []

    def _repeated(self, kind: str, uuid: str) -> bool:
        if not uuid or kind == "stream_event":
            return False
        repeated = uuid in self._frame_uuids
        self._frame_uuids[uuid] = None
        if len(self._frame_uuids) > _REMEMBERED:
            del self._frame_uuids[next(iter(self._frame_uuids))]
        return repeated

    def _placed(self, event: e.Event, frame: Object) -> e.Event:
        """Sets the running turn and the agent that the frame names, where the event has none."""
        if isinstance(event, _NOT_OF_A_TURN):
            return event
        agent = event.agent or text(frame, "parent_tool_use_id")
        return replace(event, turn=event.turn or self.turn, agent=agent)

    # A turn.

    def _init(self, frame: Object) -> list[e.Event]:
        events = self.settings.init(frame)
        named = words(frame, "user_message_uuids")
        if self.turn and (not named or self.turn in named):
            return events
        if not named and _NAMES_TURNS not in words(frame, "capabilities"):
            named = list(self.sent)[:1]
        self.sent.pop(next(iter(named), ""), None)
        self.turn = next(iter(named), "") or self._new_id()
        return [*events, e.TurnStarted("prompt" if named else "engine", turn=self.turn)]

    def _result(self, frame: Object) -> list[e.Event]:
        named = words(frame, "user_message_uuids") or [text(frame, "user_message_uuid")]
        turn = self._ended_turn([name for name in named if name])
        spent, cost = self.cost.add_result(frame)
        events: list[e.Event] = [*self._structured_output(frame), *([cost] if cost else [])]
        reason, failure = ending(frame, stopped=turn in self.stopped)
        events.append(e.TurnEnded(reason, spent, whole(frame, "num_turns"), failure, turn=turn))
        for merged in [name for name in named if name in self.sent and name != turn]:
            # Prompts that waited became one for the engine. Each has an end of its own all the same (T2).
            events += [e.TurnStarted(turn=merged), e.TurnEnded(reason, failure=failure, turn=merged)]
        if turn in (self.turn, ""):
            self._end_agents()
        self._forget(turn, *named)
        return events if turn else self._orphaned(events)

    def _ended_turn(self, named: list[str]) -> str:
        """The running turn, unless the frame names another one, which never began."""
        if self.turn and (not named or self.turn in named):
            return self.turn
        return next(iter(named), "") or next(iter(self.sent), "")

    def _orphaned(self, events: list[e.Event]) -> list[e.Event]:
        """The events of a result without a turn: a failure is reported, an end is not."""
        ended = events.pop()
        assert isinstance(ended, e.TurnEnded)
        return [*events, e.Failed(ended.failure)] if ended.failure else events

    def _forget(self, *turns: str) -> None:
        for turn in turns:
            self.sent.pop(turn, None)
            self.stopped.discard(turn)
            if turn == self.turn:
                self.turn = ""

    def _end_agents(self) -> None:
        for agent in ("", *self.agents.turn_ended()):
            self._forget_agent(agent)
        self.calls.keep_only(self.agents.running)

    def _structured_output(self, frame: Object) -> list[e.Event]:
        """The structured output, once a turn: from the result, or else from the call that made it."""
        pending, self._structured = self._structured, None
        if "structured_output" in frame:
            return [e.StructuredAnswer(frame["structured_output"])]
        return [pending] if pending else []

    def _lifecycle(self, frame: Object) -> list[e.Event]:
        turn, state = text(frame, "command_uuid"), text(frame, "state")
        queue = tuple(other for other in self._queue if other != turn)
        queue += (turn,) if state == "queued" else ()
        events: list[e.Event] = [e.QueueChanged(queue)] if queue != self._queue else []
        self._queue = queue
        never_began = turn in self.sent or (state == "cancelled" and turn != self.turn)
        if state in ("cancelled", "completed") and never_began:
            events.append(e.TurnEnded("cancelled", turn=turn))
            self._forget(turn)
        return events

    def dropped(self, turns: Iterable[str]) -> list[e.Event]:
        """Ends the turns of prompts that an interrupt removed from the queue."""
        return [ended for turn in turns for ended in self._lifecycle({"command_uuid": turn, "state": "cancelled"})]

    # Messages of the model.

    def _assistant(self, frame: Object) -> list[e.Event]:
        message, agent = _message(frame), text(frame, "parent_tool_use_id")
        events = self.agents.spoke(frame)
        self._requests[agent] = text(frame, "request_id") or self._requests.get(agent, "")
        if (ended := self._partials.piece(message, agent)) is not None:
            return [*events, *ended]
        blocks = self._deduplicator.new_blocks(message, agent, numbered=bool(text(frame, "uuid")))
        if text(frame, "error"):
            # The engine's own words, in the place of a reply. The turn's failure has them too.
            why = "\n".join(text(block, "text") for block in blocks)
            return [*events, e.ReplyEnded("error", model=text(message, "model"), error=why)] if blocks else events
        if blocks:
            events += self._step(text(message, "id"), agent)
        for block in blocks:
            events += [*self._partials.whole(text(block, "type"), agent), *self._block(block, agent)]
        return events

    def _step(self, id: str, agent: str) -> list[e.Event]:
        begins = bool(id) and self._messages.get(agent) != id
        self._messages[agent] = id
        return [e.StepStarted(agent=agent)] if begins else []

    def _block(self, block: Object, agent: str) -> list[e.Event]:
        match kind := text(block, "type"):
            case "text":
                return [e.BlockEnded(Text(content))] if (content := text(block, "text")) else []
            case "thinking":
                content = text(block, "thinking") or text(block, "text")
                return [e.BlockEnded(Thinking(content, text(block, "signature")))] if content else []
            case "redacted_thinking":
                return [e.BlockEnded(Thinking("", redacted=text(block, "data")))]
            case "tool_use" | "server_tool_use":
                return self._called(block, agent)
            case _ if kind.endswith("tool_result"):
                return self.calls.finished(block, {}, agent)
        return [e.UnknownEvent(f"assistant/{kind}", jsonl.dump(block))]

    def _called(self, block: Object, agent: str) -> list[e.Event]:
        id, name = text(block, "id"), text(block, "name")
        if name == STRUCTURED and "input" in block:
            self._structured = e.StructuredAnswer(block["input"])
        if not id or not name:
            return []
        args = inner(block, "input")
        self.calls.called(id, name, agent, args)
        return [e.ToolCalled(id, name, args, category(name))]

    def _stream_event(self, frame: Object) -> list[e.Event]:
        event, agent = frame.get("event"), text(frame, "parent_tool_use_id")
        if not isinstance(event, dict):
            raise BadFrame("event: expected an object")
        if text(event, "type") != "message_start":
            return self._partials.read(event, agent, self._requests.get(agent, ""))
        return [*self.agents.spoke(frame), *self._step(self._partials.begin(event, agent), agent)]

    # Messages to the model.

    def _user(self, frame: Object) -> list[e.Event]:
        content, agent = _message(frame).get("content"), text(frame, "parent_tool_use_id")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects({"of": content}, "of")
        prose = "\n".join(text(block, "text") for block in blocks if text(block, "type") == "text")
        results = [block for block in blocks if text(block, "type") == "tool_result"]
        if self._boundary and prose and not results and not agent:
            self._boundary = replace(self._boundary, summary=prose)
            return self.flush()
        events = [*self.flush(), *self.agents.spoke(frame)]
        events += [event for block in results for event in self.calls.finished(block, frame, agent, self._stopping)]
        return [*events, *(self._words(frame, prose) if prose else [])]

    @property
    def _stopping(self) -> bool:
        return self.turn in self.stopped

    def _words(self, frame: Object, prose: str) -> list[e.Event]:
        if prose.startswith(MARKER):
            return []
        if frame.get("isReplay") is not True:
            return [e.UserMessage(prose, "engine")]
        repeated = text(frame, "uuid") in (self.turn, *self.sent)
        return [] if repeated else [e.UserMessage(prose, "replay")]

    # Around a turn.

    def _status(self, frame: Object) -> list[e.Event]:
        events: list[e.Event] = []
        if text(frame, "status") == "compacting":
            events.append(e.CompactionStarted())
        if text(frame, "compact_result") == "failed":
            events.append(e.CompactionEnded(ok=False, error=text(frame, "compact_error")))
        return [*events, *self.settings.mode(text(frame, "permissionMode"))]

    def _compact_boundary(self, frame: Object) -> list[e.Event]:
        metadata = inner(frame, "compact_metadata")
        first_uuid = text(inner(metadata, "preserved_segment"), "head_uuid")
        self._boundary = e.CompactionEnded(
            before=whole(metadata, "pre_tokens"),
            after=whole(metadata, "post_tokens"),
            first_kept=first_uuid,
            turn=self.turn,
        )
        return []

    def _permission_denied(self, frame: Object) -> list[e.Event]:
        reason = text(frame, "decision_reason") or text(frame, "message")
        self.calls.denied[text(frame, "tool_use_id")] = reason
        return []

    def _api_retry(self, frame: Object) -> list[e.Event]:
        """The frame does not name an agent, so it counts for the turn only if no sub-agent runs."""
        if not self.turn or self.agents.running:
            return [e.Extra("api_retry", details(frame))]
        error = text(frame, "error") or str(frame.get("error_status") or "")
        counts = [whole(frame, key) for key in ("attempt", "max_retries", "retry_delay_ms")]
        return [e.RetryStarted(counts[0], counts[1], counts[2], error)]

    def _task_notification(self, frame: Object) -> list[e.Event]:
        events = self.agents.ended(frame)
        for agent in [event.agent for event in events if isinstance(event, e.AgentEnded)]:
            self._forget_agent(agent)
        return events

    def _forget_agent(self, agent: str) -> None:
        self._deduplicator.reset(agent)
        self._partials.end(agent)
        self._messages.pop(agent, None)

    def _session_state(self, frame: Object) -> list[e.Event]:
        state = text(frame, "state")
        if state == "idle" and not self.turn:
            return [e.Settled()]
        return [e.Extra("session_state_changed", {"state": state})]


_NOT_OF_A_TURN = (
    e.Ready, e.SettingChanged, e.ServerChanged, e.QueueChanged, e.Settled, e.TurnStarted, e.TurnEnded, e.CostChanged,
)  # fmt: skip
"""Events that belong to no turn, or have it set already."""


def _message(frame: Object) -> Object:
    message = frame.get("message")
    if not isinstance(message, dict):
        raise BadFrame("message: expected an object")
    if not isinstance(message.get("content"), str | list):
        raise BadFrame("message.content: expected a string or a list of blocks")
    return message


def _notice(read: Callable[[Object], list[e.Event]]) -> Callable[[EventReader, Object], list[e.Event]]:
    return lambda reader, frame: read(frame)


_HANDLERS: dict[str, Callable[[EventReader, Any], list[e.Event]]] = {
    "system/init": EventReader._init,
    "assistant": EventReader._assistant,
    "stream_event": EventReader._stream_event,
    "user": EventReader._user,
    "result": EventReader._result,
    "system/result": EventReader._result,
    "command_lifecycle": EventReader._lifecycle,
    "conversation_reset": lambda reader, frame: reader.settings.changed("session", text(frame, "new_conversation_id")),
    "system/status": EventReader._status,
    "system/compact_boundary": EventReader._compact_boundary,
    "system/permission_denied": EventReader._permission_denied,
    "system/api_retry": EventReader._api_retry,
    "system/task_started": lambda reader, frame: reader.agents.started(frame),
    "system/task_progress": lambda reader, frame: reader.agents.progress(frame),
    "system/task_updated": lambda reader, frame: reader.agents.progress(frame),
    "system/task_notification": EventReader._task_notification,
    "system/session_state_changed": EventReader._session_state,
    "system/session_title_changed": lambda reader, frame: [e.SettingChanged("name", text(frame, "title"))],
    "system/commands_changed": lambda reader, frame: reader.settings.commands(objects(frame, "commands")),
    **{kind: _notice(meaning) for kind, meaning in NOTICES.items()},
}
