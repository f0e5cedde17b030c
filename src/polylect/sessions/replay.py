"""Replays a log: folds its entries into the conversation they describe. Pure.

    MessageAdded(user, "t1") TurnOpened("t1") MessageAdded(assistant) MessageAdded(tool)
    ->  messages: user, assistant, tool

The result is a conversation that every vendor accepts up to its last message, whatever the log has lost: results that
are missing are made up (T4). A log may branch; only the branch of the last entry is the conversation.
"""

import re
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from polylect.sessions import suspension
from polylect.sessions.suspension import SUSPENDED
from polylect.vocab.answers import ForkPoint, Item, ShellResult
from polylect.vocab.content import Message, Text, ToolCall, ToolResult
from polylect.vocab.entries import (
    Compacted,
    Configured,
    ContextAdded,
    Entry,
    MessageAdded,
    Opened,
    ShellRan,
    TurnClosed,
    TurnOpened,
)

PARENT = "parent"
"""A setting: where the session comes from, in words of the host's own."""
AT_WORK = "at_work"
"""A setting: agents that work in the background, their names by their ids."""
CUT_OFF = "This call was cut off before it finished. Its effects are unknown: look before you repeat it."


class Replay:
    """The conversation of a log."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.messages: list[Message] = []
        self.marks: list[Entry | None] = []
        """For each message the entry that put it there; None for results that had to be made up."""
        self.replies: list[tuple[Message, str]] = []
        """What has a price, and the request it was an answer to."""
        self.calls: set[str] = set()
        """The ids of all calls."""
        self.contexts: list[str] = []
        self.settings: dict[str, Any] = {}
        self.compactions: list[tuple[int, Compacted]] = []
        """Each with the number of messages there were."""
        self.compacted: Entry | None = None
        """The last of them."""
        self.waiting: dict[str, Message] = {}
        """Prompts that were accepted and whose turn never came."""
        self._unanswered: list[ToolCall] = []
        line = current(entries)
        if line is entries:
            for entry in line:
                self._apply(entry)
        else:
            self._apply_branch(entries, {entry.id for entry in line})

    def _apply_branch(self, entries: Sequence[Entry], line: Set[str]) -> None:
        """Entries of abandoned branches count only for cost and for call ids that were used."""
        for entry in entries:
            match entry.body:
                case _ if entry.id in line:
                    self._apply(entry)
                case MessageAdded(message, _, request):
                    if message.usage:
                        self.replies.append((message, request))
                    self.calls.update(call.call for call in _calls(message))
                case Configured({"name": name}):  # the whole session's
                    self.settings["name"] = name

    def _apply(self, entry: Entry) -> None:
        match entry.body:
            case MessageAdded(message, turn, request) if message.role != "user" or not turn:
                self._add(entry, message, request)
            case MessageAdded(message, turn):
                self.waiting[turn] = message
            case TurnOpened(turn) if turn in self.waiting:
                self._add(entry, self.waiting.pop(turn), "")
            case TurnClosed(turn):
                self.waiting.pop(turn, None)
            case ContextAdded(text):
                self.contexts.append(text)
            case Configured(settings):
                self.settings |= {key: value for key, value in settings.items() if _is_valid(key, value)}
            case Compacted() as compacted if 0 <= compacted.first_kept <= len(self.messages):
                self.compactions.append((len(self.messages), compacted))
                self.compacted = entry
            case ShellRan(result):
                self._add(entry, shell_message(result), "")
            case Opened():  # of a fork: what waited in the other session is answered there, and its name is its own
                self.waiting.clear()
                self.settings.pop("name", None)
                self.settings.pop(PARENT, None)
                self.settings.pop(AT_WORK, None)
                if SUSPENDED in self.settings:
                    self.settings[SUSPENDED] = suspension.model_texts(self.settings[SUSPENDED])

    def _add(self, entry: Entry, message: Message, request: str) -> None:
        if message.usage:
            self.replies.append((message, request))
        if not message.content:
            return
        if message.role == "tool":
            answered = [block.call for block in message.content if isinstance(block, ToolResult)]
            if answered != [call.call for call in self._unanswered]:
                return  # a damaged line in the middle of the log held the calls
        elif self._unanswered:
            self._append(None, Message("tool", tuple(map(cut_off, self._unanswered))))  # or it held the results
        self._append(entry, message)

    def _append(self, entry: Entry | None, message: Message) -> None:
        self.messages.append(message)
        self.marks.append(entry)
        if calls := _calls(message):
            self.calls.update(call.call for call in calls)
        self._unanswered = calls

    def fork_points(self) -> list[ForkPoint]:
        """The messages of the person; a fork at one goes on without it."""
        messages = zip(self.messages, self.marks, strict=True)
        typed = (
            (entry, message_text(message)) for message, entry in messages if entry and is_typed_message(entry, message)
        )
        return [ForkPoint(entry.id, text) for entry, text in typed if text.strip()]

    def items(self) -> list[Item]:
        """The conversation as the model sees it, each message with its entry."""
        first_kept = self.compactions[-1][1].first_kept if self.compactions else 0
        items = [_summary(self.compacted)] if self.compacted and self.compactions[-1][1].summary else []
        at, last = 0, ""
        for number, (message, entry) in enumerate(zip(self.messages, self.marks, strict=True)):
            at, last = (entry.at, entry.id) if entry else (at, f"{last}-results")
            if number >= first_kept:
                items.append(_item(last, at, message, entry))
        return items


class Placed(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def parent(self) -> str: ...


One = TypeVar("One", bound=Placed)


def current(entries: Sequence[One]) -> Sequence[One]:
    """The entries of the current branch: all of them, unless one names an earlier parent than its predecessor.

    An unknown parent was a line that is damaged now.
    """
    if all(entry.parent == before.id for before, entry in pairwise(entries)):
        return entries
    places = {entry.id: number for number, entry in enumerate(entries)}
    line, number = [], len(entries) - 1
    while number >= 0:
        line.append(entries[number])
        number = min(places.get(entries[number].parent, number), number - 1)
    return line[::-1]


def _is_valid(key: str, value: object) -> bool:
    """Whether a stored setting has the right shape; a line may have been edited by hand."""
    if key == SUSPENDED:
        return suspension.is_valid(value)
    texts = list(value.values()) if isinstance(value, dict) else [None]
    return key != AT_WORK or all(isinstance(text, str) for text in texts)


def is_typed_message(entry: Entry, message: Message) -> bool:
    """Whether the person said it, rather than ran it as a command."""
    return message.role == "user" and not isinstance(entry.body, ShellRan)


def _item(id: str, at: int, message: Message, entry: Entry | None) -> Item:
    match entry.body if entry else None:
        case ShellRan(result):
            return Item(id, at, message, "shell", result)
        case MessageAdded(request=request):
            return Item(id, at, message, request=request)
        case TurnOpened(turn):
            return Item(id, at, message, turn=turn)
        case _:
            return Item(id, at, message)


def _summary(entry: Entry) -> Item:
    assert isinstance(entry.body, Compacted)
    return Item(entry.id, entry.at, Message("user", (Text(entry.body.summary),)), "summary", before=entry.body.before)


def shell_message(result: ShellResult) -> Message:
    """The message that tells the model of a command the person ran."""
    fence = "`" * max(3, longest_run(result.output) + 1)
    output = result.output.rstrip("\n")
    parts = [f"I ran this command myself: {result.command}"]
    parts.append(f"{fence}\n{output}\n{fence}" if output else "(no output)")
    if result.cancelled:
        parts.append("I stopped it before it ended.")
    elif result.code:
        parts.append(f"It ended with the exit code {result.code}.")
    if result.truncated:
        parts.append(f"This is only its end.{f' All of it is in {result.path}' if result.path else ''}")
    return Message("user", (Text("\n".join(parts)),))


def longest_run(text: str) -> int:
    """The longest run of backticks, so that a fence around the text can be longer."""
    return max(map(len, re.findall("`+", text)), default=0)


def missing_results(messages: Sequence[Message]) -> Message | None:
    """The results that a crash left out, as errors; None if every call has one."""
    calls = unanswered_calls(messages)
    return Message("tool", tuple(map(cut_off, calls))) if calls else None


def unanswered_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls that have no result yet."""
    return _calls(messages[-1]) if messages else []


def cut_off(call: ToolCall) -> ToolResult:
    return ToolResult(call.call, call.name, CUT_OFF, "cancelled")


def message_text(message: Message) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


def _calls(message: Message) -> list[ToolCall]:
    return [block for block in message.content if isinstance(block, ToolCall)] if message.role == "assistant" else []
