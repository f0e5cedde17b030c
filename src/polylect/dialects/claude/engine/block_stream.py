"""Writes the content blocks of one agent: `assistant` frames, and `stream_event` frames if the host wants partials.

A reply of the model becomes, with `--include-partial-messages`,

    stream_event message_start
    stream_event content_block_start, content_block_delta ...
    assistant    (the whole block)
    stream_event content_block_stop
    stream_event message_delta, message_stop

and only the `assistant` frames without it. A block is held back until the next event, because only that tells whether
the block was cut short; `EventWriter` releases it after 20 milliseconds. Each call is written once. The main agent has
one stream, and so has each sub-agent (`subagents.Task`).
"""

from typing import Any

from msgspec import UNSET

from polylect.dialects import line_limit
from polylect.dialects.claude.engine.line_writer import PIECE, LineWriter
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.stop_reasons import WIRE_STOPS
from polylect.vocab.content import Block, Text, Thinking, ToolCall, Usage
from polylect.vocab.events import ArgsDelta, ReplyEnded, TextDelta, ThinkingDelta
from polylect.wire import jsonl

_Delta = TextDelta | ThinkingDelta | ArgsDelta
_PARTIAL = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
_HOLE, _HOLE_IN_JSON = "\0", rb"\u0000"
_KINDS: dict[type[_Delta], str] = {TextDelta: "text", ThinkingDelta: "thinking", ArgsDelta: "tool_use"}


class BlockStream:
    """The blocks of one agent.

    parent     `parent_tool_use_id` of its frames; None for the main agent
    partial    write stream events too
    shown      write its text and thinking; calls are always written
    marks      further fields of its frames that name the agent
    """

    def __init__(self, out: LineWriter, *, parent: str | None, partial: bool, shown: bool, marks: shapes.Marks) -> None:
        self._out = out
        self.parent = parent
        self._partial = partial
        self._shown = shown
        self.marks = marks
        self.model = ""
        self.turn = ""
        """The turn that `line_id` derives the uuids of messages from, and how many it has so far."""
        self.lines = 0
        self.uuids: list[str] = []
        """The uuids of the prompt that is being answered."""
        self.reply: list[str] = []
        """The texts of the last reply."""
        self.first_at = 0
        """When the turn's first delta came, for `ttft_ms`."""
        self._message = ""
        self._called: set[str] = set()
        self._open = ""
        """The kind of the block whose deltas are coming, and their texts."""
        self._parts: list[str] = []
        self._call = ("", "")
        self._held: Block | None = None
        self._index = 0
        self._streaming = False
        self._closers = False
        self._last: tuple[str | None, Usage] = (None, Usage())
        self._opened = False
        self._unclosed = False
        self._around = (b"", b"", b"")

    # Events of the engine.

    def begin(self) -> None:
        """A model request begins."""
        self.finish()
        self._message = ""
        self.reply = []
        self._called.clear()

    def delta(self, event: _Delta) -> None:
        kind = _KINDS[type(event)]
        call = (event.call, event.name) if isinstance(event, ArgsDelta) else ("", "")
        if (kind, call) != (self._open, self._call) or self._held is not None:
            self.flush()
            self._open, self._call = kind, call
        if kind != "tool_use":
            self._parts.append(event.text)
        self.first_at = self.first_at or self._out.now()
        if self._partial:
            for piece in line_limit.pieces(event.text, PIECE):
                self._stream_delta(piece)

    def block(self, block: Block) -> None:
        if isinstance(block, ToolCall):
            self.call(block.call, block.name, block.args)
            return
        kind = {Text: "text", Thinking: "thinking"}.get(type(block), "")
        if self._open != kind or self._held is not None:
            self.flush()
        if kind:
            self._held = block
        else:
            self._out.lost[f"BlockEnded {type(block).__name__}"] += 1

    def call(self, call: str, name: str, args: dict[str, Any]) -> None:
        """Write a call once, whether it comes as a block, as `ToolCalled`, or as both."""
        if call in self._called:
            return
        self._called.add(call)
        if self._open != "tool_use" or self._call[0] != call:
            self.flush()
            if self._partial:
                self._open, self._call = "tool_use", (call, name)
                self._stream_delta(jsonl.dump(args).decode().rstrip())
        self._write(shapes.ToolUseBlock(call, name, args), call)
        self._end_block()

    def ended(self, event: ReplyEnded) -> None:
        cut = event.stop == "cancelled"
        self.flush(aborted=cut)
        self._last = (WIRE_STOPS.get(event.stop), event.usage)
        self._closers = self._streaming
        if not cut or not self._out.newer:
            self.finish()
        self._message = ""

    @property
    def holds(self) -> bool:
        return self._held is not None

    def release(self) -> None:
        """Write the block that is held back."""
        if self._held is not None:
            self.flush()

    def finish(self) -> None:
        """Write the end of the partial messages. After an interrupted reply its marker goes first."""
        self.flush()
        if self._closers and (self._out.newer or self._last[0]):
            reason, usage = self._last
            if self._unclosed:
                self._stream({"type": "content_block_stop", "index": self._index})
            delta = {"stop_reason": reason, "stop_sequence": None}
            self._stream({"type": "message_delta", "delta": delta, "usage": usage_of(usage)})
            self._stream({"type": "message_stop"})
        self._closers = self._streaming = self._unclosed = False
        self._index = 0

    # Whole blocks.

    def flush(self, *, aborted: bool = False) -> None:
        """Write the block that is held back, or the one whose end never came."""
        text, block = "".join(self._parts), self._held
        if block is None and self._open in ("text", "thinking"):
            block = Text(text) if self._open == "text" else Thinking(text)
        match block:
            case Text(text):
                self.reply.append(text)
                self._write_long(text, "", aborted)
            case Thinking(redacted=data) if data:
                self._write(shapes.RedactedThinkingBlock(data), data, aborted=aborted)
            case Thinking(text, signature):
                if signature and self._opened:
                    delta = {"type": "signature_delta", "signature": signature}
                    self._stream({"type": "content_block_delta", "index": self._index, "delta": delta})
                self._write_long(text, signature, aborted, thinking=True)
        if block is not None or self._open:
            self._end_block(cut=aborted)

    def _write_long(self, text: str, signature: str, aborted: bool, *, thinking: bool = False) -> None:
        """Split a text that is too long for a line into several messages, each with an id of its own."""
        pieces = line_limit.pieces(text, PIECE)
        for number, piece in enumerate(pieces):
            if number:
                self._message = ""
            last = signature if number == len(pieces) - 1 else ""
            block = shapes.ThinkingBlock(piece, last) if thinking else shapes.TextBlock(piece)
            self._write(block, piece, aborted=aborted, in_history=thinking or bool(text))

    def _write(self, block: shapes.Spoken, words: str, *, aborted: bool = False, in_history: bool = True) -> None:
        """`in_history`: the block becomes part of the stored conversation. Only an empty text does not."""
        if not self._shown and not isinstance(block, shapes.ToolUseBlock):
            return
        out = self._out
        self._message = self._message or f"msg_{out.new_id()}"
        out.write(
            shapes.Assistant(
                message=shapes.Message(self._message, self.model, [block]),
                parent_tool_use_id=self.parent,
                timestamp=out.timestamp() if out.newer else UNSET,
                aborted=aborted and out.newer,
                user_message_uuid=self.uuids[-1] if self.uuids and out.newer else "",
                user_message_uuids=self.uuids if self.uuids and out.newer else UNSET,
                tool_use_meta=_tool_meta(block) if out.newer else [],
                session_id=out.session,
                uuid=self._id(words) if in_history else out.new_id(),
                **self.marks,
            )
        )

    def _id(self, words: str) -> str:
        if not self.turn:
            return self._out.new_id()
        self.lines += 1
        return self._out.line_id(self.turn, self.lines - 1, words)

    def _end_block(self, *, cut: bool = False) -> None:
        if self._opened and not cut:
            self._stream({"type": "content_block_stop", "index": self._index})
            self._index += 1
        self._unclosed = self._opened and cut
        self._open, self._call, self._parts, self._held, self._opened = "", ("", ""), [], None, False

    # Partial messages.

    def _stream_delta(self, text: str) -> None:
        if not self._streaming:
            self._start_message()
        if not self._opened:
            self._opened = True
            self._stream({"type": "content_block_start", "index": self._index, "content_block": self._empty()})
            self._around = self._delta_line()
        if len(text) > PIECE:  # the arguments of a call, all at once
            self._stream(self._delta_event(text))
            return
        head, middle, tail = self._around
        self._out.write_line(head + self._out.new_id().encode() + middle + jsonl.dump(text)[:-1] + tail)

    def _delta_event(self, text: str) -> dict[str, Any]:
        kind, field = _PARTIAL.get(self._open, ("input_json_delta", "partial_json"))
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, field: text}}

    def _delta_line(self) -> tuple[bytes, bytes, bytes]:
        """The bytes before, between and after the uuid and the text in every delta line of this block."""
        event, envelope = self._delta_event(_HOLE), shapes.Envelope(session_id=self._out.session, uuid=_HOLE)
        line = jsonl.dump(shapes.StreamEvent(event=event, parent_tool_use_id=self.parent, **envelope))
        head, _, rest = line.partition(_HOLE_IN_JSON)
        middle, _, tail = rest.partition(_HOLE_IN_JSON)
        return head, middle[:-1], tail[1:]  # the text has quotes of its own

    def _start_message(self) -> None:
        self._message = self._message or f"msg_{self._out.new_id()}"
        self._streaming = True
        message = shapes.Message(self._message, self.model, [])
        self._stream({"type": "message_start", "message": message})

    def _empty(self) -> dict[str, Any]:
        match self._open:
            case "text":
                return {"type": "text", "text": ""}
            case "thinking":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case _:
                return {"type": "tool_use", "id": self._call[0], "name": self._call[1], "input": {}}

    def _stream(self, event: dict[str, Any]) -> None:
        out = self._out
        out.write_new(shapes.StreamEvent, event=event, parent_tool_use_id=self.parent)


def _tool_meta(block: shapes.Spoken) -> list[shapes.ToolMeta]:
    if not isinstance(block, shapes.ToolUseBlock) or not block.name.startswith("mcp__"):
        return []
    server, _, tool = block.name.removeprefix("mcp__").partition("__")
    return [shapes.ToolMeta(block.id, tool, server, tool)]


def usage_of(usage: Usage) -> shapes.Usage:
    return shapes.Usage(usage.input, usage.output, usage.cache_write, usage.cache_read)
