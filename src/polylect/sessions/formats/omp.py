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
from polylect.dialects.omp.host.fields import Fields, flag, rows, table, text
from polylect.dialects.omp.host.messages import block_of, shell_of, usage_of
from polylect.dialects.omp.stop_reasons import OUR_STOPS, WIRE_STOPS
from polylect.sessions.formats.conversation import Conversation, Imported, Importer, WrongFormat, iso, milliseconds
from polylect.vocab.content import Block, Document, Image, Message, Outcome, Text, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Compacted, ShellRan
from polylect.wire import jsonl

VERSION = 3
Json = dict[str, Any]
_APIS = {"anthropic": "anthropic-messages", "bedrock": "bedrock-converse-stream", "vertex": "anthropic-messages"}
_BLOB = "blob:sha256:"


# Lines: what is in a message is read as on the wire (`dialects/omp/host/messages.py`).


class _Entry(Struct, rename="camel"):
    type: str
    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    version: int = 1
    cwd: str = ""
    title: str | None = None
    message: Fields | None = None
    content: str | list[Fields] = ""
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
    title = entries.pop(0).title if entries and entries[0].type == "title" else ""  # omp 18 writes it before the header
    header = entries[0] if entries else None
    if header is None or header.type != "session" or not header.id:
        raise WrongFormat('the first line is not the header of an omp session ({"type":"session",...})')
    if header.version != VERSION:
        raise WrongFormat(f"it has version {header.version} of omp's format, and only {VERSION} is understood")
    importer.cwd, importer.at = header.cwd, milliseconds(header.timestamp)
    if title := title or header.title:
        importer.configured(name=title)
    for entry in _path(entries[1:]):
        try:
            importer.entry(entry)
        except (ValueError, OverflowError) as error:  # a field has the wrong type, or a number beyond all bounds
            importer.notes.append(f"the entry {entry.id} could not be read: {error}")
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
                self.user(*self._blocks({"content": entry.content}))
            case "branch_summary":
                self.user(Text(entry.summary))
            case "compaction":
                first_kept = self._numbers.get(entry.first_kept_entry_id, self.messages)
                self.compacted(entry.summary, first_kept, entry.tokens_before)
            case "model_change":
                self.configured(model=entry.model)

    def _message(self, message: Fields) -> None:
        match text(message, "role"):
            case "assistant":
                stop, usage = OUR_STOPS.get(text(message, "stopReason")), usage_of(table(message, "usage"))
                author = (text(message, "model"), text(message, "provider"))
                reply = Message("assistant", tuple(self._blocks(message)), stop, usage, *author)
                self.reply(reply, text(message, "responseId"))
            case "toolResult":
                self.result(self._result(message))
            case "user" | "developer" | "custom" | "hookMessage":
                self.user(*self._blocks(message))
            case "bashExecution" | "pythonExecution" if not flag(message, "excludeFromContext"):
                output = text(message, "output")
                result = shell_of(message, text(message, "command") or text(message, "code"))
                self.ran(replace(result, lines=output.count("\n"), size=len(output), path=""))
            case "branchSummary" | "compactionSummary":
                self.user(Text(text(message, "summary")))
            case "fileMention":
                files = rows(message, "files")
                self.user(*(Document(text(file, "path"), "text/plain", text(file, "content")) for file in files))
            case role if not flag(message, "excludeFromContext"):
                self.notes.append(f"a message of the role {role!r} was left out")

    def _result(self, message: Fields) -> ToolResult:
        blocks = list(self._blocks(message))
        output = "\n".join(block.text for block in blocks if isinstance(block, Text))
        images = tuple(block for block in blocks if isinstance(block, Image))
        outcome: Outcome = "error" if flag(message, "isError") else "ok"
        return ToolResult(text(message, "toolCallId"), text(message, "toolName"), output, outcome, images)

    def _blocks(self, message: Fields) -> Iterator[Block]:
        content = message.get("content")
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else rows(message, "content"):
            match block_of(part):
                case Image(media_type, data):
                    image = self._blob(data.removeprefix(_BLOB)) if data.startswith(_BLOB) else data
                    yield Image(media_type, image) if image else Text("[an image that is no longer there]")
                case Text("") | None:
                    pass
                case block:
                    yield block


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
