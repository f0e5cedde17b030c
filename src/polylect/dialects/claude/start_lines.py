"""Finds the message that `--resume-session-at UUID` names in a session's log, and ends the conversation there.

The uuid of an `assistant` line is computed from its turn, its number in the turn and the beginning of its text
(`line_id`). So the log does not have to store it: `go_back` computes the uuids again and compares.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from polylect.dialects import line_limit
from polylect.dialects.claude.engine.line_writer import PIECE
from polylect.sessions.store import FileStore
from polylect.vocab.content import Block, Message, Text, Thinking, ToolCall
from polylect.vocab.entries import Entry, MessageAdded, TurnOpened
from polylect.vocab.errors import SessionError

_PRIME = (1 << 127) - 1
_FACTORS = (0x3C6EF372FE94F82B5BE0CD19137E2179, 0x510E527FADE682D19B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B6A09E667F3BCC908)
"""Any large numbers will do: they keep ids apart where turns are named 1, 2, 3."""
_BEGINNING = 64


def line_id(turn: str, number: int, words: str) -> str:
    """The uuid of a line. (A real hash would load OpenSSL: 3 ms and 2 MiB.)"""
    parts = (_number(turn), number, _number(words[:_BEGINNING]))
    text = f"{sum(factor * one for factor, one in zip(_FACTORS, parts, strict=True)) % _PRIME:032x}"
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-8{text[17:20]}-{text[20:]}"


def _number(text: str) -> int:
    return int.from_bytes(text.encode(errors="replace")) % _PRIME


def go_back(store: FileStore, line: str) -> None:
    """End the conversation with this line of the model. What is said from now on follows it.

    Raises SessionError if there is no such line.
    """
    entry, length = _find(store.entries, line)
    assert isinstance(entry.body, MessageAdded)
    message = entry.body.message
    if length == len(message.content):
        return store.go_back(entry.id)
    store.go_back(entry.parent)
    store.append(replace(entry.body, message=_shortened(message, message.content[:length])))


def _find(entries: Sequence[Entry], line: str) -> tuple[Entry, int]:
    """The entry that has the line, and how many of its blocks end with it. Of a repeated turn the last one counts."""
    matches = [(entry, blocks) for entry, blocks, id in _line_ids(entries) if id == line]
    if not matches:
        advice = "take the uuid of one of its assistant messages"
        raise SessionError(f"--resume-session-at: there is no message {line!r} in this session: {advice}")
    return matches[-1]


def _line_ids(entries: Sequence[Entry]) -> Iterator[tuple[Entry, int, str]]:
    """For each line of the model: its entry, the number of blocks up to it, and its uuid."""
    numbers: Counter[str] = Counter()
    for entry in entries:
        match entry.body:
            case TurnOpened(turn):
                numbers[turn] = 0
            case MessageAdded(Message("assistant", content), turn):
                for blocks, text in ((at, text) for at, block in enumerate(content, 1) for text in _lines(block)):
                    yield entry, blocks, line_id(turn, numbers[turn], text)
                    numbers[turn] += 1


def _lines(block: Block) -> list[str]:
    """The texts of the lines in which a block was written, as `line_id` gets them."""
    match block:
        case ToolCall(call):
            return [call]
        case Thinking(redacted=data) if data:
            return [data]
        case Text(text) | Thinking(text):
            return line_limit.pieces(text, PIECE)
    return []


def _shortened(message: Message, content: tuple[Block, ...]) -> Message:
    """The message with only these blocks. It has no usage: the whole message in the log is counted."""
    calls = any(isinstance(block, ToolCall) for block in content)
    return replace(message, content=content, stop="calls" if calls else "end", usage=None)
