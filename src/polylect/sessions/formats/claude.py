"""Transcripts of Claude Code: lines that name their parents, one for each block of a reply.

The format is not documented; this is what version 2.1 writes and reads. Results of parallel calls are siblings, so the
path from the leaf to the root has only one of them; the others are found by the id of their call. The structs here
accept more than those of the dialect: every field has a default, and a line that cannot be decoded is only counted.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.claude.stop_reasons import OUR_STOPS, WIRE_STOPS
from polylect.sessions.formats.conversation import Conversation, Imported, Importer, WrongFormat, iso, milliseconds
from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Compacted
from polylect.wire import jsonl

Json = dict[str, Any]
_WRITTEN_AS = "2.1.325"
_IDS = UUID("6f2c5b0e-6f6c-4d43-9b1c-2f0a6b1f7d11")
"""The namespace of the ids that are written, so that each export of a session has the same ids."""


# The lines of the format.


class _Source(Struct):
    media_type: str = ""
    data: str = ""


class _Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    title: str | None = None
    source: _Source | None = None
    tool_use_id: str = ""
    content: "str | list[_Block]" = ""
    is_error: bool | None = None


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0


class _Message(Struct):
    id: str = ""
    model: str = ""
    content: str | list[_Block] = ""
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Segment(Struct, rename="camel"):
    head_uuid: str = ""


class _Compaction(Struct, rename="camel"):
    pre_tokens: int = 0
    preserved_segment: _Segment | None = None


class _Line(Struct, rename="camel"):
    type: str
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    subtype: str = ""
    timestamp: str = ""
    cwd: str = ""
    message: _Message | None = None
    compact_metadata: _Compaction | None = None
    custom_title: str = ""


_decode = msgspec.json.Decoder(_Line).decode


# Importing.


def import_lines(lines: Sequence[bytes]) -> Imported:
    """Import a transcript. Raises WrongFormat."""
    importer = _Importer()
    records = importer.decode(_decode, lines)
    messages = [line for line in records if line.uuid]
    if not any(line.message for line in messages):
        raise WrongFormat("no line of it is a message of a Claude Code transcript")
    messages = [line for line in messages if not line.is_sidechain] or messages  # a sub-agent has a file of its own
    importer.index(messages)
    if titles := [line.custom_title for line in records if line.custom_title]:
        importer.configured(name=titles[-1])
    for line in _path(messages):
        importer.line(line)
    return importer.finish()


def _path(lines: list[_Line]) -> list[_Line]:
    """The lines from the root to the leaf, which is the last line. Instead of a missing parent the line before is
    used."""
    numbers = {line.uuid: number for number, line in enumerate(lines)}
    path: list[_Line] = []
    seen: set[int] = set()
    number = len(lines) - 1
    while number >= 0 and number not in seen:
        seen.add(number)
        line = lines[number]
        path.append(line)
        parent = line.parent_uuid or line.logical_parent_uuid
        number = numbers.get(parent, number - 1) if parent else -1
    return path[::-1]


class _Importer(Importer):
    def __init__(self) -> None:
        super().__init__()
        self._replies: dict[str, list[_Line]] = {}
        self._blocks: dict[str, _Block] = {}
        self._numbers: dict[str, int] = {}
        self._seen: set[str] = set()
        self._compaction = _Compaction()

    def index(self, lines: list[_Line]) -> None:
        """Note which lines make up one reply, and the result of each call."""
        self.cwd = next((line.cwd for line in lines if line.cwd), "")
        for line in lines:
            if line.type == "assistant" and line.message:
                self._replies.setdefault(line.message.id or line.uuid, []).append(line)
            elif line.message and not isinstance(line.message.content, str):
                self._blocks |= {block.tool_use_id: block for block in line.message.content if block.tool_use_id}

    def line(self, line: _Line) -> None:
        self.at = milliseconds(line.timestamp) or self.at
        self._numbers.setdefault(line.uuid, self.next)
        match line.type:
            case "assistant" if line.message and not line.is_api_error_message:
                self._reply(line.message.id or line.uuid)
            case "user" if line.message and line.is_compact_summary:
                self._summary(line.message)
            case "user" if line.message:
                self.user(*_blocks(line.message.content))
            case "system" if line.subtype == "compact_boundary":
                self._compaction = line.compact_metadata or _Compaction()

    def _reply(self, id: str) -> None:
        """All of a reply is told where its first block stands."""
        if id in self._seen:
            return
        self._seen.add(id)
        lines = self._replies[id]
        self._numbers |= {line.uuid: self.next for line in lines}
        messages = [line.message for line in lines if line.message]
        content = tuple(block for message in messages for block in _blocks(message.content))
        last = messages[-1]
        reply = Message("assistant", content, OUR_STOPS.get(last.stop_reason or ""), _usage(last.usage), last.model)
        self.reply(replace(reply, provider="anthropic"), id)
        for call in [block for block in content if isinstance(block, ToolCall)]:
            if block := self._blocks.get(call.call):
                self.result(_result(call, block))

    def _summary(self, message: _Message) -> None:
        segment = self._compaction.preserved_segment
        number = self._numbers.get(segment.head_uuid, self.messages) if segment else self.messages
        self.compacted(_text(message.content), number, self._compaction.pre_tokens)


def _blocks(content: str | list[_Block]) -> Iterator[Block]:
    for block in [_Block("text", content)] if isinstance(content, str) else content:
        match block.type:
            case "text" if block.text:
                yield Text(block.text)
            case "thinking":
                yield Thinking(block.thinking, block.signature)
            case "redacted_thinking":
                yield Thinking("", redacted=block.data)
            case "tool_use":
                yield ToolCall(block.id, block.name, block.input)
            case "image" if block.source and block.source.data:
                yield Image(block.source.media_type, block.source.data)
            case "document" if block.source:
                yield Document(block.title or "document", block.source.media_type, data=block.source.data)


def _text(content: str | list[_Block]) -> str:
    return "\n".join(block.text for block in _blocks(content) if isinstance(block, Text))


def _result(call: ToolCall, block: _Block) -> ToolResult:
    images = tuple(part for part in _blocks(block.content) if isinstance(part, Image))
    return ToolResult(call.call, call.name, _text(block.content), "error" if block.is_error else "ok", images)


def _usage(usage: _Usage | None) -> Usage:
    used = usage or _Usage()
    return Usage(
        used.input_tokens, used.output_tokens, used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    )


# Exporting.


def session_id(session: str) -> str:
    """Claude Code wants a UUID."""
    try:
        return str(UUID(session))
    except ValueError:
        return str(uuid5(_IDS, session))


def pieces(conversation: Conversation) -> Iterator[bytes]:
    exporter = _Exporter(conversation)
    for context in conversation.replay.contexts:
        exporter.line(conversation.at, "user", message=_user([_part(Text(context))]), isMeta=True)
    for at, step in conversation.steps():
        if isinstance(step, Compacted):
            exporter.compaction(at, step)
        else:
            exporter.message(at, step)
    exporter.title(conversation.name)
    yield from map(jsonl.dump, exporter.lines)


class _Exporter:
    def __init__(self, conversation: Conversation) -> None:
        self.lines: list[Json] = []
        self._session = session_id(conversation.session)
        self._cwd = conversation.cwd
        self._last: str | None = None
        self._spans: list[tuple[str, str]] = []
        """For each message its first and its last line."""

    def line(self, at: int, kind: str, **more: Any) -> str:
        id = str(uuid5(_IDS, f"{self._session}/{len(self.lines)}"))
        about = {"userType": "external", "cwd": self._cwd, "sessionId": self._session, "version": _WRITTEN_AS}
        head = {"parentUuid": self._last, "isSidechain": False, "type": kind, **more}
        self.lines.append({**head, "uuid": id, "timestamp": iso(at), **about, "gitBranch": ""})
        self._last = id
        return id

    def message(self, at: int, message: Message) -> None:
        if message.role == "assistant":
            id = f"msg_{uuid5(_IDS, f'{self._session}/{len(self.lines)}').hex[:24]}"
            ids = [self.line(at, "assistant", message=_reply(message, id, block)) for block in message.content]
        elif message.role == "tool":
            results = [block for block in message.content if isinstance(block, ToolResult)]
            ids = [self.line(at, "user", message=_user([_part(result)])) for result in results]
        else:
            ids = [self.line(at, "user", message=_user(list(map(_part, message.content))))]
        self._spans.append((ids[0], ids[-1]))

    def compaction(self, at: int, compacted: Compacted) -> None:
        before, self._last = self._last, None
        about: Json = {"trigger": "auto", "preTokens": compacted.before}
        boundary = {
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "level": "info",
            "isMeta": False,
        }
        self.line(at, "system", **boundary, logicalParentUuid=before, compactMetadata=about)
        summary = self.line(
            at,
            "user",
            message=_user([_part(Text(compacted.summary))]),
            isCompactSummary=True,
            isVisibleInTranscriptOnly=True,
        )
        if compacted.first_kept < len(self._spans):
            head, tail = self._spans[compacted.first_kept][0], self._spans[-1][1]
            about["preservedSegment"] = {"headUuid": head, "anchorUuid": summary, "tailUuid": tail}

    def title(self, name: str) -> None:
        if name:
            self.lines.append({"type": "custom-title", "customTitle": name, "sessionId": self._session})


def _user(parts: list[Json]) -> Json:
    return {"role": "user", "content": parts}


def _reply(message: Message, id: str, block: Block) -> Json:
    usage = message.usage or Usage()
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": message.model or "unknown",
        "content": [_part(block)],
        "stop_reason": WIRE_STOPS.get(message.stop or "end", "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        },
    }


def _part(block: Block) -> Json:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature, redacted):
            if redacted:
                return {"type": "redacted_thinking", "data": redacted}
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(call, name, args):
            return {"type": "tool_use", "id": call, "name": name, "input": args}
        case ToolResult(call, _, output, outcome, images):
            content: Any = [_part(Text(output)), *map(_part, images)] if images else output
            return {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": outcome != "ok"}
        case Image(media_type, data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case Document(name, _, text):
            return {"type": "text", "text": f"[{name}]\n{text}" if text else f"[{name}]"}
