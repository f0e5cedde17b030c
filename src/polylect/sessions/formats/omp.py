"""Imports and exports session files of omp, version 3: a header, then entries that name their parents.

    {"type":"session","version":3,"id":"...","cwd":"/w"}
    {"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"Hello"}}

The entries are a tree, and the last one is the leaf. The branch of the leaf is imported; a conversation is exported as
one branch. The structs here accept more than those of the dialect: a file may come from any version, so every field has
a default, and a line that cannot be decoded is only counted. Called by `detect.py` and `library.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.omp.engine.messages import bash_execution, reply_block, tool_result, usage_object
from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.stop_reasons import OUR_STOPS, WIRE_STOPS
from polylect.sessions.formats.conversation import Conversation, Imported, Importer, WrongFormat, iso, milliseconds
from polylect.vocab.answers import ShellResult
from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Compacted, ShellRan
from polylect.wire import jsonl

VERSION = 3
Json = dict[str, Any]
_APIS = {"anthropic": "anthropic-messages", "bedrock": "bedrock-converse-stream", "vertex": "anthropic-messages"}
_BLOB = "blob:sha256:"


# The lines of the format.


class _Block(Struct, rename="camel"):
    type: str = ""
    text: str = ""
    thinking: str = ""
    thinking_signature: str | None = None
    data: str = ""
    mime_type: str = ""
    id: str = ""
    name: str = ""
    arguments: dict[str, Any] = {}


class _Cost(Struct):
    total: float = 0.0


class _Usage(Struct, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: _Cost | None = None


class _File(Struct):
    path: str = ""
    content: str = ""


class _Message(Struct, rename="camel"):
    role: str = ""
    content: str | list[_Block] = ""
    model: str = ""
    provider: str = ""
    usage: _Usage | None = None
    stop_reason: str = ""
    response_id: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False
    command: str = ""
    code: str = ""
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    exclude_from_context: bool = False
    summary: str = ""
    files: list[_File] = []


class _Entry(Struct, rename="camel"):
    type: str
    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    version: int = 1
    cwd: str = ""
    title: str | None = None
    message: _Message | None = None
    content: str | list[_Block] = ""
    model: str = ""
    summary: str = ""
    first_kept_entry_id: str = ""
    tokens_before: int = 0


_decode = msgspec.json.Decoder(_Entry).decode


# Importing.


def import_lines(lines: Sequence[bytes], blob: Callable[[str], str] = lambda name: "") -> Imported:
    """Import a session file. `blob` returns the base64 of an image that the file names by its hash. Raises
    WrongFormat."""
    importer = _Importer(blob)
    entries = importer.decode(_decode, lines)
    header = entries[0] if entries else None
    if header is None or header.type != "session" or not header.id:
        raise WrongFormat('the first line is not the header of an omp session ({"type":"session",...})')
    if header.version != VERSION:
        raise WrongFormat(f"it has version {header.version} of omp's format, and only {VERSION} is understood")
    importer.cwd, importer.at = header.cwd, milliseconds(header.timestamp)
    if header.title:
        importer.configured(name=header.title)
    for entry in _path(entries[1:]):
        importer.entry(entry)
    return importer.finish()


def _path(entries: list[_Entry]) -> list[_Entry]:
    """The entries from the root to the leaf, which is the last line."""
    known = {entry.id: entry for entry in entries}
    path: list[_Entry] = []
    at = entries[-1] if entries else None
    while at is not None:
        path.append(known.pop(at.id, at))
        at = known.get(at.parent_id or "")
    return path[::-1]


class _Importer(Importer):
    def __init__(self, blob: Callable[[str], str]) -> None:
        super().__init__()
        self._blob = blob
        self._numbers: dict[str, int] = {}
        """Entries, and the message that each begins."""

    def entry(self, entry: _Entry) -> None:
        self.at = milliseconds(entry.timestamp) or self.at
        self._numbers[entry.id] = self.next
        match entry.type:
            case "message" if entry.message:
                self._message(entry.message)
            case "custom_message":
                self.user(*self._blocks(entry.content))
            case "branch_summary":
                self.user(Text(entry.summary))
            case "compaction":
                first_kept = self._numbers.get(entry.first_kept_entry_id, self.messages)
                self.compacted(entry.summary, first_kept, entry.tokens_before)
            case "model_change":
                self.configured(model=entry.model)

    def _message(self, message: _Message) -> None:
        match message.role:
            case "assistant":
                self.reply(self._reply(message), message.response_id)
            case "toolResult":
                self.result(self._result(message))
            case "user" | "developer" | "custom" | "hookMessage":
                self.user(*self._blocks(message.content))
            case "bashExecution" | "pythonExecution" if not message.exclude_from_context:
                self.ran(_shell(message))
            case "branchSummary" | "compactionSummary":
                self.user(Text(message.summary))
            case "fileMention":
                self.user(*(Document(file.path, "text/plain", file.content) for file in message.files))
            case role if not message.exclude_from_context:
                self.notes.append(f"a message of the role {role!r} was left out")

    def _reply(self, message: _Message) -> Message:
        used = message.usage or _Usage()
        cost = used.cost.total if used.cost and used.cost.total else None
        usage = Usage(used.input, used.output, used.cache_read, used.cache_write, cost)
        content = tuple(self._blocks(message.content))
        return Message("assistant", content, OUR_STOPS.get(message.stop_reason), usage, message.model, message.provider)

    def _result(self, message: _Message) -> ToolResult:
        blocks = list(self._blocks(message.content))
        text = "\n".join(block.text for block in blocks if isinstance(block, Text))
        images = tuple(block for block in blocks if isinstance(block, Image))
        return ToolResult(message.tool_call_id, message.tool_name, text, "error" if message.is_error else "ok", images)

    def _blocks(self, content: str | list[_Block]) -> Iterator[Block]:
        for block in [_Block("text", content)] if isinstance(content, str) else content:
            match block.type:
                case "text" if block.text:
                    yield Text(block.text)
                case "thinking":
                    yield Thinking(block.thinking, block.thinking_signature or "")
                case "redactedThinking":
                    yield Thinking("", redacted=block.data)
                case "toolCall":
                    yield ToolCall(block.id, block.name, block.arguments)
                case "image":
                    yield self._image(block)

    def _image(self, block: _Block) -> Block:
        named = block.data.startswith(_BLOB)
        data = self._blob(block.data.removeprefix(_BLOB)) if named else block.data
        return Image(block.mime_type, data) if data else Text("[an image that is no longer there]")


def _shell(message: _Message) -> ShellResult:
    return ShellResult(
        message.command or message.code,
        message.output,
        message.exit_code,
        message.cancelled,
        message.truncated,
        lines=message.output.count("\n"),
        size=len(message.output),
    )


# Exporting.


def pieces(conversation: Conversation) -> Iterator[bytes]:
    lines: list[Json] = [
        {"type": "session", "version": VERSION, "id": conversation.session, "timestamp": iso(conversation.at)}
    ]
    lines[0] |= {"cwd": conversation.cwd, **({"title": conversation.name} if conversation.name else {})}
    lines[0] |= {"parentSession": conversation.parent} if conversation.parent else {}
    first: list[str] = []  # for each message the entry it begins with
    last: str | None = None
    for at, body in _bodies(conversation, first, lines):
        entry = f"{len(lines):08x}"
        lines.append({"type": body["type"], "id": entry, "parentId": last, "timestamp": iso(at), **body})
        last = entry
    yield from map(jsonl.dump, lines)


def _bodies(conversation: Conversation, first: list[str], lines: list[Json]) -> Iterator[tuple[int, Json]]:
    for context in conversation.replay.contexts:
        yield conversation.at, {"type": "custom_message", "customType": "context", "content": context, "display": False}
    for at, step in conversation.steps_and_commands():
        if isinstance(step, Compacted):
            first_kept = first[step.first_kept] if step.first_kept < len(first) else f"{len(lines):08x}"
            summary = {"summary": step.summary, "firstKeptEntryId": first_kept, "tokensBefore": step.before}
            yield at, {"type": "compaction", **summary}
        else:
            first.append(f"{len(lines):08x}")
            yield from ((at, {"type": "message", "message": message}) for message in _messages(step, at))


def _messages(message: Message | ShellRan, at: int) -> Iterator[m.Message]:
    if isinstance(message, ShellRan):
        yield bash_execution(replace(message.result, path=""), at)
        return
    match message.role:
        case "user":
            yield m.UserMessage(list(map(_block, message.content)), at, "user")
        case "assistant":
            yield _reply(message, at)
        case "tool":
            yield from (tool_result(block, at) for block in message.content if isinstance(block, ToolResult))


def _reply(message: Message, at: int) -> m.AssistantMessage:
    calls = any(isinstance(block, ToolCall) for block in message.content)
    return m.AssistantMessage(
        content=[block for block in map(reply_block, message.content) if block],
        api=_APIS.get(message.provider, "openai-completions"),
        provider=message.provider or "unknown",
        model=message.model or "unknown",
        usage=usage_object(message.usage or Usage()),
        stop_reason="toolUse" if calls else WIRE_STOPS[message.stop or "end"],  # what is cut off is dropped there
        timestamp=at,
    )


def _block(block: Block) -> m.ContentBlock:
    match block:
        case Text(text):
            return m.Text(text)
        case Image(media_type, data):
            return m.Image(data, media_type)
        case Document(name, _, text):
            return m.Text(f"[{name}]\n{text}" if text else f"[{name}]")
        case _:
            raise AssertionError("thinking and calls are of replies, and results have messages of their own")
