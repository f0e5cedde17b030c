"""Turns the chunks of a model's reply into events, and into a message at the end.

`loop.py` feeds it the events of a provider. Every chunk is emitted at once. Ids of calls are made unique in the
conversation, because some local model servers reuse them and hosts and vendors tell calls apart by id alone.
"""

from collections.abc import Callable
from io import StringIO

from polylect.apis.arguments import ReplyCalls
from polylect.vocab import events as e
from polylect.vocab import ports
from polylect.vocab.content import Block, Message, Stop, Text, Thinking, ToolCall, Usage
from polylect.vocab.events import Event, TextDelta
from polylect.vocab.ports import TextChunk
from polylect.vocab.text_size import text_size

_MOST_ID = 256
"""Characters of a call's id that are kept: it is part of every event about the call."""
RETRY_CANCELLED = "Retry cancelled"


class StreamedReply:
    """One reply while it is received. Add events with `add`; it ends with the last one or by `break_off`.

    `announce` is called for each complete call and returns it as it is stored; `tool_name` returns our name of the tool
    that a model means; `used` holds the call ids of the conversation.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        announce: Callable[[ToolCall], ToolCall],
        tool_name: Callable[[str], str],
        used: set[str],
    ) -> None:
        self._emit = emit
        self._announce = announce
        self._tool_name = tool_name
        self._used = used
        self._renamed: dict[str, str] = {}
        """Our id of each unfinished call, by the model's id."""
        self._copies: dict[str, int] = {}
        """How often an id of the model's has come."""
        self._open = StringIO()  # a list would hold an object for every chunk, ten times the text itself
        self._thinking = False
        self._attempt = 0
        self._content: list[Block] = []
        self._ended_size = 0
        self._calls = ReplyCalls()
        self.stop: Stop = "end"
        self.usage = Usage()
        """Of the last attempt."""
        self._failed_usage = Usage()
        """Of the attempts before it: they cost something too."""
        self.request = ""
        self.model = ""
        self.ended = False

    @property
    def total_usage(self) -> Usage:
        """The usage of all attempts."""
        return self._failed_usage + self.usage

    @property
    def calls(self) -> list[ToolCall]:
        return [block for block in self._content if isinstance(block, ToolCall)]

    @property
    def text(self) -> str:
        """All texts of the reply, one after the other."""
        return "".join(block.text for block in self._content if isinstance(block, Text))

    @property
    def size(self) -> int:
        """Characters of text and thinking so far."""
        return self._ended_size + self._open.tell()

    def message(self, provider: str) -> Message:
        """The message for the history. Empty texts are left out, because vendors refuse them."""
        content = tuple(block for block in self._content if block != Text(""))
        return Message("assistant", content, self.stop, self.total_usage, self.model, provider)

    def add(self, event: ports.ModelEvent) -> None:
        """Process one event of the provider."""
        if type(event) is TextChunk and not self._attempt:  # by far the most frequent, and it matters
            self._open.write(event.text)
            self._emit(TextDelta(event.text))
            return
        if self._attempt and not isinstance(event, ports.Retrying | e.CircuitChanged | ports.ReplyBegun):
            self._retried(ok=True)
        match event:
            case TextChunk(text):
                self._open.write(text)
                self._emit(TextDelta(text))
            case ports.ThinkingChunk(text):
                self._open.write(text)
                self._thinking = True
                self._emit(e.ThinkingDelta(text))
            case ports.ArgsChunk(call, name, text):
                self._emit(e.ArgsDelta(self._unique(call), self._tool_name(name), text))
            case ports.BlockDone(block):
                self._end_block(block)
            case ports.Retrying(attempt, most, delay_ms, error):
                self._attempt, self._failed_usage, self.usage = attempt, self.total_usage, Usage()
                self._emit(e.RetryStarted(attempt, most, delay_ms, error))
            case e.CircuitChanged():
                self._emit(event)
            case ports.ReplyBegun(usage, request, model):
                self.usage, self.request, self.model = usage, request, model
            case ports.ReplyDone(stop, usage, request, model):
                self.usage, self.request, self.model = usage, request, model
                self._end("calls" if self.calls and stop == "end" else stop)

    def break_off(self, stop: Stop, why: str, *, given_up: bool = False) -> None:
        """End the reply early and keep what was received. A complete reply stays as it is.

        `given_up` means that somebody cancelled the wait for another attempt.
        """
        if self.ended:
            return
        if self._attempt:
            self._retried(ok=False, error=RETRY_CANCELLED if given_up else why)
        if text := self._open.getvalue():
            self._end_block(Thinking(text) if self._thinking else Text(text))
        self._end(stop, why)

    def _end_block(self, block: Block) -> None:
        match block:
            case ToolCall(call):
                block = self._calls.limited(ToolCall(self._unique(call), block.name, block.args, block.extra))
                self._renamed.pop(call, None)
                self._content.append(self._announce(block))
            case Text(text) | Thinking(text):
                if text and not self._open.tell():  # it came whole
                    delta = e.ThinkingDelta if isinstance(block, Thinking) else TextDelta
                    self._emit(delta(text))
                self._ended_size += text_size(block)
                self._content.append(block)
                self._emit(e.BlockEnded(block))
            case _:
                self._content.append(block)
                self._emit(e.BlockEnded(block))
        self._open = StringIO()
        self._thinking = False

    def _unique(self, call: str) -> str:
        """An id that no other call of the conversation has."""
        if call not in self._renamed:
            base = call[:_MOST_ID]
            id, count = base, self._copies.get(base, 1)
            while id in self._used:
                count += 1
                id = f"{base}-{count}"
            self._copies[base] = count
            self._used.add(id)
            self._renamed[call] = id
        return self._renamed[call]

    def _retried(self, *, ok: bool, error: str = "") -> None:
        self._emit(e.RetryEnded(ok, self._attempt, error))
        self._attempt = 0

    def _end(self, stop: Stop, error: str = "") -> None:
        self.stop = stop
        self.ended = True
        self._emit(e.ReplyEnded(stop, self.total_usage, self.model, self.request, error))
