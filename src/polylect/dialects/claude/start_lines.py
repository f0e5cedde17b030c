"""Lines of Claude's wire that can be found again in a session's log (--resume-session-at).

What a model says is told in lines of which each has an id. That id is worked out from the turn, the number of the line
in it and how its words begin, so nothing has to be written down to find it again.
"""

from collections.abc import Sequence

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
    """In the form of a UUID. (A real hash would be OpenSSL: 3 ms and 2 MiB.)"""
    parts = (_number(turn), number, _number(words[:_BEGINNING]))
    text = f"{sum(factor * one for factor, one in zip(_FACTORS, parts, strict=True)) % _PRIME:032x}"
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-8{text[17:20]}-{text[20:]}"


def _number(text: str) -> int:
    return int.from_bytes(text.encode(errors="replace")) % _PRIME


def go_back(store: FileStore, line: str) -> None:
    """The conversation ends with this line of the model's, and what is said from now on follows it.

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
    """The entry that holds it, and how many blocks that has up to it; the last one if a turn has come again."""
    numbers: dict[str, int] = {}
    match: tuple[Entry, int] | None = None
    for entry in entries:
        match entry.body:
            case TurnOpened(turn):
                numbers[turn] = 0
            case MessageAdded(Message("assistant", content), turn):
                for place, block in enumerate(content, 1):
                    for words in _lines(block):
                        number = numbers.get(turn, 0)
                        if line_id(turn, number, words) == line:
                            match = entry, place
                        numbers[turn] = number + 1
    if match:
        return match
    fault = (
        f"there is no message {line!r} in this session: it takes the uuid of an assistant message that was told here"
    )
    raise SessionError(f"--resume-session-at: {fault}")


def _lines(block: Block) -> list[str]:
    """How the lines begin in which it was told."""
    match block:
        case ToolCall(call):
            return [call]
        case Thinking(redacted=data) if data:
            return [data]
        case Text(text) | Thinking(text):
            return line_limit.pieces(text, PIECE)
    return []


def _shortened(message: Message, content: tuple[Block, ...]) -> Message:
    """What it cost is counted where it stands in full."""
    calls = any(isinstance(block, ToolCall) for block in content)
    return replace(message, content=content, stop="calls" if calls else "end", usage=None)
