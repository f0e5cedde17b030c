"""Folds events into messages, state and counts: the one place where what was said becomes a Message.

Takes grammatical events. A block is told whole when it ends, so its deltas need no second look.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from polylect.vocab import events as e
from polylect.vocab.answers import State, Stats
from polylect.vocab.content import Block, Document, Image, Message, Text, ToolCall, ToolResult, Usage

_NAMED = frozenset({"session", "model", "mode", "thinking", "name"})
"""Settings with a place of their own in State."""


class _Lane(Struct):
    """One agent's conversation, and the step it is in."""

    messages: list[Message] = []
    in_step: bool = False
    said: list[Block] = []
    extras: dict[str, dict[str, Any]] = {}
    results: dict[str, ToolResult] = {}
    usage: Usage = Usage()
    replied: bool = False
    """Whether the last message is this step's reply, which may yet go on."""
    waiting: list[Message] = []
    """What a user said during the step: it comes after the results of the calls."""


class Transcript:
    """One session as its events tell it."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {"": _Lane()}
        self._state = State()
        self._usage = Usage()
        self._turn = ""
        self._turn_usage = Usage()

    def add(self, event: e.Event) -> None:
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    @property
    def messages(self) -> list[Message]:
        """The main conversation: each reply once it has ended, the results of its calls once all are there."""
        return self.messages_of("")

    def messages_of(self, agent: str) -> list[Message]:
        return list(self._lanes[agent].messages) if agent in self._lanes else []

    @property
    def agents(self) -> list[str]:
        """Every agent that was heard of, in order of appearance; the main one is ""."""
        return list(self._lanes)

    @property
    def usage(self) -> Usage:
        """The whole session's, all agents together."""
        return self._usage + self._turn_usage

    @property
    def state(self) -> State:
        return replace(self._state, messages=len(self._lanes[""].messages))

    @property
    def stats(self) -> Stats:
        messages = self._lanes[""].messages
        blocks = [block for message in messages for block in message.content]
        return Stats(
            session=self._state.session,
            users=sum(message.role == "user" for message in messages),
            assistants=sum(message.role == "assistant" for message in messages),
            calls=sum(isinstance(block, ToolCall) for block in blocks),
            results=sum(isinstance(block, ToolResult) for block in blocks),
            usage=self.usage,
        )

    def _lane(self, event: e.Event) -> _Lane:
        return self._lanes.setdefault(event.agent, _Lane())

    # Messages.

    def _user_message(self, event: e.UserMessage) -> None:
        lane = self._lane(event)
        words = (Text(event.text),) if event.text else ()
        shown = tuple(item for item in event.attachments if isinstance(item, Image | Document))
        (lane.waiting if lane.in_step else lane.messages).append(Message("user", words + shown))

    def _step_started(self, event: e.StepStarted) -> None:
        lane = self._lane(event)
        self._lanes[event.agent] = _Lane(messages=lane.messages, in_step=True)

    def _block_ended(self, event: e.BlockEnded) -> None:
        lane = self._lane(event)
        match event.block:
            case ToolCall(call, _, _, extra):  # no call yet: that is said by itself
                lane.extras[call] = extra
            case Text(""):  # vendors refuse it
                pass
            case block:
                lane.said.append(block)

    def _tool_called(self, event: e.ToolCalled) -> None:
        lane = self._lane(event)
        lane.said.append(ToolCall(event.call, event.name, event.args, lane.extras.get(event.call, {})))

    def _reply_ended(self, event: e.ReplyEnded) -> None:
        lane = self._lane(event)
        lane.usage += event.usage
        if event.turn:
            self._turn_usage += event.usage
        else:
            self._usage += event.usage
        if lane.replied:
            lane.messages.pop()
        if lane.said:
            lane.messages.append(Message("assistant", tuple(lane.said), event.stop, lane.usage, event.model))
            lane.replied = True

    def _tool_finished(self, event: e.ToolFinished) -> None:
        result = ToolResult(event.call, event.name, event.output, event.outcome, event.images)
        self._lane(event).results[event.call] = result

    def _step_ended(self, event: e.StepEnded) -> None:
        lane = self._lane(event)
        results = tuple(lane.results[block.call] for block in lane.said if isinstance(block, ToolCall))
        if results:
            lane.messages.append(Message("tool", results))
        lane.messages += lane.waiting
        self._lanes[event.agent] = _Lane(messages=lane.messages)

    # State and usage.

    def _ready(self, event: e.Ready) -> None:
        self._state = replace(self._state, session=event.session, model=event.model, mode=event.mode)

    def _setting_changed(self, event: e.SettingChanged) -> None:
        if event.key in _NAMED:
            self._state = replace(self._state, **{event.key: "" if event.value is None else str(event.value)})
        else:
            self._state = replace(self._state, settings=self._state.settings | {event.key: event.value})

    def _queue_changed(self, event: e.QueueChanged) -> None:
        self._state = replace(self._state, queued=len(event.prompts) + len(event.soon) + len(event.last))

    def _turn_started(self, event: e.TurnStarted) -> None:
        self._turn = event.turn
        self._state = replace(self._state, busy=True)

    def _turn_ended(self, event: e.TurnEnded) -> None:
        """The turn's own sum counts, if the engine told one: some wires tell nothing else."""
        if event.turn != self._turn:  # it only waited
            return
        self._turn = ""
        self._state = replace(self._state, busy=False)
        self._usage += event.usage if event.usage != Usage() else self._turn_usage
        self._turn_usage = Usage()

    def _compaction_started(self, event: e.CompactionStarted) -> None:
        if not event.agent:
            self._state = replace(self._state, compacting=True)

    def _compaction_ended(self, event: e.CompactionEnded) -> None:
        if not event.agent:
            self._state = replace(self._state, compacting=False)


_FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.UserMessage: Transcript._user_message,
    e.StepStarted: Transcript._step_started,
    e.BlockEnded: Transcript._block_ended,
    e.ToolCalled: Transcript._tool_called,
    e.ReplyEnded: Transcript._reply_ended,
    e.ToolFinished: Transcript._tool_finished,
    e.StepEnded: Transcript._step_ended,
    e.Ready: Transcript._ready,
    e.SettingChanged: Transcript._setting_changed,
    e.QueueChanged: Transcript._queue_changed,
    e.TurnStarted: Transcript._turn_started,
    e.TurnEnded: Transcript._turn_ended,
    e.CompactionStarted: Transcript._compaction_started,
    e.CompactionEnded: Transcript._compaction_ended,
}
