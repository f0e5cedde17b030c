"""Normalizes a conversation into the order that every vendor accepts, whatever happened while it grew (T4).

Stops, crashes, resumed sessions and changes of the model leave calls without results, empty texts and ids that repeat.
Vendors refuse such requests. `request_body` of each API calls `normalize`; `encoded_history` uses `Normalizer` to do
the same step by step.
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult

NO_RESULT = "There is no result: the call was interrupted."
_BEFORE = Message("user", (Text("(The conversation began earlier.)"),))
_GO_ON = Message("user", (Text("Go on."),))
_MOST_ID = 40
CallOrResult = TypeVar("CallOrResult", ToolCall, ToolResult)


def normalize(messages: Iterable[Message]) -> list[Message]:
    """User and assistant in turns, beginning and ending with the user, no text empty, no id twice.

    Each call is answered by exactly one result, at the start of the next message, in the order of the calls. Calls
    without a result get one that says so; results without a call are left out; of two results the later one counts.
    """
    normalizer = Normalizer()
    for message in messages:
        normalizer.add(message)
    return normalizer.end()


class Normalizer:
    """`normalize`, one message at a time. Of `messages` only the last message can still change."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._ids: dict[str, int] = {}
        self._calls: list[tuple[str, ToolCall]] = []
        """The calls of the last reply: the id each came with, and the call with its new id."""
        self._pending: list[Message] = []

    def add(self, message: Message) -> None:
        if message.role != "assistant":
            self._pending.append(message)
            return
        _add(self.messages, "user", _user_blocks(self._calls, self._pending))
        self._pending, self._calls = [], []
        _add(self.messages, "assistant", _assistant_blocks(message, self._ids, self._calls))

    def end(self) -> list[Message]:
        """The normalized conversation so far. Further messages may be added after it."""
        messages = list(self.messages)
        _add(messages, "user", _user_blocks(self._calls, self._pending))
        if not messages:
            messages.append(_BEFORE)
        if messages[-1].role == "assistant":
            messages.append(_GO_ON)
        return messages


def _assistant_blocks(message: Message, ids: dict[str, int], calls: list[tuple[str, ToolCall]]) -> Iterable[Block]:
    for block in message.content:
        match block:
            case ToolCall():
                call = _renamed(block, _unique(block.call, ids))
                calls.append((block.call, call))
                yield call
            case Text(text) if text.strip():
                yield block
            case Thinking():
                yield block


def _user_blocks(calls: list[tuple[str, ToolCall]], pending: list[Message]) -> Iterable[Block]:
    blocks = [block for message in pending for block in message.content]
    results = {block.call: block for block in blocks if isinstance(block, ToolResult)}
    for came_as, call in calls:
        result = results.get(came_as) or ToolResult(call.call, call.name, NO_RESULT, "cancelled")
        yield _renamed(result, call.call)
    for block in blocks:
        match block:
            case Text(text) if text.strip():
                yield block
            case Image(data=""):
                yield Text("[an image that is no longer there]")
            case Image() | Document():
                yield block


def _renamed(block: CallOrResult, call: str) -> CallOrResult:
    return block if block.call == call else replace(block, call=call)


def _add(messages: list[Message], role: str, blocks: Iterable[Block]) -> None:
    content = tuple(blocks)
    if not content:
        return
    if not messages and role == "assistant":
        messages.append(_BEFORE)
    if messages and messages[-1].role == role:
        messages[-1] = replace(messages[-1], content=messages[-1].content + content)
    else:
        messages.append(Message("assistant" if role == "assistant" else "user", content))


def _unique(call: str, ids: dict[str, int]) -> str:
    """The id in characters that all vendors accept, unique in the conversation. Small models reuse ids."""
    plain = call.replace("_", "a").replace("-", "a")
    if not (plain.isascii() and plain.isalnum() and len(call) <= _MOST_ID):
        call = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in call)[:_MOST_ID] or "call"
    name = call
    while name in ids:
        ids[call] += 1
        name = f"{call[: _MOST_ID - 8]}_{ids[call]}"
    ids[name] = 1
    return name
