"""The conversation so far: what was said, what it cost, and how it is read back from a log."""

from collections.abc import Sequence
from typing import Any

from polylect.vocab.content import Message, Stats, Text, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Compacted, Configured, ContextAdded, Entry, Said, TurnClosed, TurnOpened
from polylect.vocab.ports import Store

CUT_OFF = "This call was cut off before it finished. Its effects are unknown: look before you repeat it."

SUMMARY = "The conversation so far was longer than fits. This is what matters of its beginning:\n\n"


class Session:
    """History in memory and in the store, kept in step: nothing is in one and not in the other."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = store.session
        self.messages: list[Message] = []
        self.contexts: list[str] = []
        self.settings: dict[str, Any] = {}
        self.usage = Usage()
        self.ledger: list[dict[str, Any]] = []
        """One row for each model call."""
        self.summary = ""
        self.kept = 0
        """The model sees `summary` instead of the messages before this one."""
        self.calls: set[str] = set()
        """The ids of all calls so far: none of them may come again."""
        self._counted: set[str] = set()
        self._waiting: dict[str, Message] = {}
        self._read(store.entries)

    # Writing.

    def accept(self, turn: str, message: Message) -> None:
        """A prompt is taken: on disk before anybody is told."""
        self.store.append(Said(message, turn))
        self._waiting[turn] = message

    def begin(self, turn: str) -> Message:
        """A prompt's turn has come."""
        if results := self._missing_results():  # the disk was full when they came
            self.say("", results)
        self.store.append(TurnOpened(turn))
        message = self._waiting.pop(turn)
        self.messages.append(message)
        return message

    def forget(self, turn: str) -> None:
        """A prompt is cancelled before its turn came: it never becomes part of the conversation."""
        self.end(turn, "cancelled", Usage())

    def say(self, turn: str, *messages: Message, request: str = "") -> None:
        said = [message for message in messages if message.content or (message.usage and message.usage.tokens)]
        if said:
            self.store.append(*(Said(message, turn, request) for message in said))
        for message in said:
            self._remember(message, request)

    def end(self, turn: str, reason: str, usage: Usage) -> None:
        self._waiting.pop(turn, None)  # stopped before it could begin
        self.store.append(TurnClosed(turn, reason, usage))

    def add_context(self, text: str) -> None:
        self.store.append(ContextAdded(text))
        self.contexts.append(text)

    def compact(self, summary: str, kept: int, before: int) -> None:
        self.store.append(Compacted(summary, kept, before))
        self.summary, self.kept = summary, kept

    def configure(self, settings: dict[str, Any]) -> None:
        self.store.append(Configured(settings))
        self.settings |= settings

    # Reading.

    def context(self) -> list[Message]:
        """The conversation as the model sees it."""
        if not self.kept:
            return list(self.messages)
        return [Message("user", (Text(SUMMARY + self.summary),)), *self.messages[self.kept :]]

    def stats(self) -> Stats:
        blocks = [block for message in self.messages for block in message.content]
        return Stats(
            session=self.id,
            users=sum(message.role == "user" for message in self.messages),
            assistants=sum(message.role == "assistant" for message in self.messages),
            calls=sum(isinstance(block, ToolCall) for block in blocks),
            results=sum(isinstance(block, ToolResult) for block in blocks),
            usage=self.usage,
        )

    def counted(self, request: str) -> bool:
        """Each model call counts once, however often it is told."""
        return request != "" and request in self._counted

    def _remember(self, message: Message, request: str) -> None:
        """A reply without a word is no part of the conversation, but it has its price."""
        if message.content:
            self.messages.append(message)
        if message.usage and not self.counted(request):
            self._counted.add(request)
            self.usage += message.usage
            row = {"turn": len(self.ledger), "model": message.model, "provider": message.provider}
            self.ledger.append({**row, "usage": message.usage})

    def _read(self, entries: Sequence[Entry]) -> None:
        prompts: dict[str, Message] = {}
        for entry in entries:
            match entry.body:
                case Said(message, turn, request) if message.role != "user" or not turn:
                    self._recall(message, request)
                case Said(message, turn):
                    prompts[turn] = message
                case TurnOpened(turn) if turn in prompts:
                    self._recall(prompts.pop(turn), "")
                case TurnClosed(turn):
                    prompts.pop(turn, None)
                case ContextAdded(text):
                    self.contexts.append(text)
                case Configured(settings):
                    self.settings |= settings
                case Compacted(summary, kept) if kept <= len(self.messages):
                    self.summary, self.kept = summary, kept
        if results := self._missing_results():
            self.say("", results)
        for turn in prompts:  # accepted, then the engine died: it was said, so it stays said
            self.store.append(TurnOpened(turn))
            self.messages.append(prompts[turn])

    def _recall(self, message: Message, request: str) -> None:
        if not message.content:
            return self._remember(message, request)
        missing = self._missing_results()
        if message.role == "tool" and _calls(message) != _calls(missing):
            return None  # a damaged line in the middle of the log held the calls
        if message.role != "tool" and missing:
            self.messages.append(missing)  # or it held the results
        self._remember(message, request)
        self.calls.update(block.call for block in message.content if isinstance(block, ToolCall))

    def _missing_results(self) -> Message | None:
        """Every vendor wants a result for every call; a crash may have come between the two."""
        if not self.messages or self.messages[-1].role != "assistant":
            return None
        calls = [block for block in self.messages[-1].content if isinstance(block, ToolCall)]
        return Message("tool", tuple(cut_off(call) for call in calls)) if calls else None


def _calls(message: Message | None) -> list[str]:
    """The calls that these are the results of."""
    return [block.call for block in message.content if isinstance(block, ToolResult)] if message else []


def cut_off(call: ToolCall) -> ToolResult:
    return ToolResult(call.call, call.name, CUT_OFF, "cancelled")
