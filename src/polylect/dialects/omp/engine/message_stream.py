"""Writes one reply of the model as it grows: `message_start`, `message_update` with all of it so far, `message_end`.

An update repeats the message twice (`message` and `partial`). Deltas of one block are therefore collected and written
together when the throttle allows, at the latest with the end of the block. The first delta of a block is written at
once. All repetitions of one reply share a `ByteQuota`, whatever caused them. An update that it does not allow has its
own event (the delta, the call) and a `message` without content. A message that is larger than the quota is therefore
repeated by `message_end` alone. `Updates` says whether both copies are left out. Used by `agent_stream`.
"""

from collections.abc import Callable
from typing import Literal

from polylect.dialects import line_limit
from polylect.dialects.omp.engine.line_writer import ByteQuota, LineWriter, Throttle
from polylect.dialects.omp.engine.messages import MessageAuthor, reply_block, usage_object
from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.frames.events import MessageEnd, MessageStart
from polylect.vocab.content import Block, Text, Thinking, ToolCall, Usage
from polylect.vocab.events import ReplyEnded
from polylect.vocab.text_size import text_size
from polylect.wire import jsonl

_UPDATE = "message_update"
_ROLE = b'"message":{"role":"assistant"}'
Updates = Literal["full", "delta", "slim"]
"""What updates repeat of the message so far: all of it, its role (`messageUpdates` of omp), nothing (`--slim`)."""


class MessageStream:
    """One reply of the model. Making it writes `message_start`; `finish` writes `message_end`."""

    def __init__(
        self, line_writer: LineWriter, author: MessageAuthor, now: Callable[[], int], updates: Updates
    ) -> None:
        self._line_writer = line_writer
        self._author = author
        self._slim = updates != "full"
        self._tail = (b"," + _ROLE if updates == "delta" else b"") + b"}\n"
        self._at = now()
        self._throttle = Throttle(now)
        self._quota = ByteQuota(now)
        self._blocks: list[m.ReplyBlock] = []
        self._calls: set[str] = set()
        """The ids of the calls in `_blocks`."""
        self._kind = ""
        """The kind of the open block: text, thinking, toolcall, or empty if none is open."""
        self._call: tuple[str, str] = ("", "")
        self._sent: list[str] = []
        self._pending: list[str] = []
        self._empty = jsonl.dump(self._message())[:-1]
        """The message without content, encoded."""
        self._ended_size = len(self._empty)
        """Bytes that the message takes with its ended blocks, at least."""
        self._open_size = 0
        """Characters that the open block adds to it."""
        self.text_size = 0
        """Bytes of all texts in ended blocks. What is small by this need not be measured before it is encoded."""
        self._id = line_writer.next_message_id()
        named = b'"messageId":"' + self._id.encode() + b'",' if isinstance(self._id, str) else b""
        spent = b'"usage":' + jsonl.dump(usage_object(Usage()))[:-1] + b"," if author.version == "pi" else b""
        self._head = b'{"type":"message_update",' + named + spent + b'"assistantMessageEvent":'
        line_writer.write(MessageStart(self._message(), self._id))

    # While it grows.

    def delta(self, kind: str, text: str, call: str = "", name: str = "") -> None:
        """Add to the open block. A delta of another block ends the open one."""
        if (kind, (call, name)) != (self._kind, self._call):
            self._open(kind, call, name)
        self._pending.append(text)
        if not self._throttle.due():
            self.flush()

    def due(self) -> int | None:
        """Milliseconds until text that is held back has to be written; None if there is none."""
        return self._throttle.due() if self._pending else None

    def flush(self) -> None:
        text, self._pending = join_surrogates("".join(self._pending)), []
        size = 0
        # No character takes more than six bytes, and an event may fill half a line.
        for piece in line_limit.pieces(text, self._line_writer.limit // 16) if text else ():
            self._sent.append(piece)
            if self._kind != "toolcall" and not self._slim:
                self._open_size += len(piece)
            size += self._update(f"{self._kind}_delta", {"delta": piece})
        self._throttle.record(size)

    def end_block(self, block: Block) -> None:
        wire_block = reply_block(block)
        match block:
            case _ if wire_block is None:
                self._line_writer.lost["BlockEnded"] += 1
            case Text():
                self._end("text", block.text, wire_block)
            case Thinking(redacted=""):
                self._end("thinking", block.text, wire_block)
            case ToolCall():
                self._end_call(block.call, block.name, wire_block)
            case _:
                self._close()
                self._append(wire_block)

    def called(self, call: m.ToolCall) -> bool:
        """Write the block of a call, unless its block was written already."""
        if call.id in self._calls:
            return False
        self._end_call(call.id, call.name, call)
        return True

    # Its end.

    def finish(self, event: ReplyEnded) -> m.AssistantMessage:
        self._close()
        message = self._author.with_model(event.model).message(
            self._blocks, self._at, stop=event.stop, usage=event.usage, error=event.error, request=event.request
        )
        self._line_writer.write(MessageEnd(message, self._id), large=self.text_size > self._line_writer.limit)
        return message

    # Blocks.

    def _open(self, kind: str, call: str = "", name: str = "") -> None:
        self._close()
        self._kind, self._call, self._sent = kind, (call, name), []
        self._throttle.restart()
        names_call = kind == "toolcall" and (self._slim or self._author.version == "pi")
        self._update(f"{kind}_start", {"id": call, "toolName": name} if names_call else {})

    def _end(self, kind: str, text: str, block: m.ReplyBlock) -> None:
        if kind != self._kind:
            self._open(kind)
            self._pending.append(text)
        self.flush()
        self._finish_block(f"{kind}_end", {"content": text}, block)

    def _end_call(self, call: str, name: str, block: m.ReplyBlock) -> None:
        if ("toolcall", (call, name)) != (self._kind, self._call):
            self._open("toolcall", call, name)
        self.flush()
        self._finish_block("toolcall_end", {"toolCall": block}, block)

    def _finish_block(self, kind: str, fields: dict[str, object], block: m.ReplyBlock) -> None:
        index = len(self._blocks)
        self._kind, self._call = "", ("", "")
        size = self._append(block)
        self._update(kind, fields, index, large=size > self._line_writer.limit // 2)

    def _append(self, block: m.ReplyBlock) -> int:
        """Add an ended block. Returns the bytes of its texts."""
        size = text_size(block)
        self._blocks.append(block)
        if isinstance(block, m.ToolCall):
            self._calls.add(block.id)
        if not self._slim:
            self._ended_size += size
        self._open_size = 0
        self.text_size += size
        return size

    def _close(self) -> None:
        """End the open block. A call that broke off is dropped, because it will never be made."""
        self.flush()
        block = self._block()
        if isinstance(block, m.Text | m.Thinking):
            self._finish_block(f"{self._kind}_end", {"content": "".join(self._sent)}, block)
        self._kind, self._call = "", ("", "")

    def _block(self) -> m.ReplyBlock | None:
        """The open block so far. Arguments are empty until they are complete, because half of them is no object."""
        match self._kind:
            case "text":
                return m.Text("".join(self._sent))
            case "thinking":
                return m.Thinking("".join(self._sent))
            case "toolcall":
                return m.ToolCall(*self._call, {})
            case _:
                return None

    def _message(self) -> m.AssistantMessage:
        block = self._block()
        return self._author.message([*self._blocks, block] if block else [*self._blocks], self._at)

    def _update(self, kind: str, fields: dict[str, object], index: int = -1, *, large: bool = False) -> int:
        """Encode the message once and write it twice; once, or shortened, where the line would be too long; without
        its content where the budget is used up."""
        where = len(self._blocks) if index < 0 else index
        frame, most = {"type": kind, "contentIndex": where, **fields}, self._line_writer.limit // 2
        event = line_limit.line(frame, most, large=large)
        head = self._head + event[:-2]
        if self._slim:
            return self._line_writer.write_line(_UPDATE, head + b"}" + self._tail)
        if not self._quota.allows(2 * (self._ended_size + self._open_size)):
            return self._line_writer.write_line(_UPDATE, head + b'},"message":' + self._empty + b"}\n")
        message = jsonl.dump(self._message())[:-1]
        self._quota.spend(2 * len(message))
        room = self._line_writer.limit - len(head) - 64
        if 2 * len(message) <= room:
            return self._line_writer.write_line(
                _UPDATE, head + b',"partial":' + message + b'},"message":' + message + b"}\n"
            )
        if len(message) > room:
            message = line_limit.line(self._message(), max(room, 1024))[:-1]
        return self._line_writer.write_line(_UPDATE, head + b'},"message":' + message + b"}\n")


def join_surrogates(text: str) -> str:
    """The text with surrogate pairs joined that came in two deltas, and lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
