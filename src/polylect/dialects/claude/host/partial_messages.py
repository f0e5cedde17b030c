"""Reads partial messages (`stream_event` frames with the model's own stream events) as deltas.

The same blocks come again as `assistant` frames. A streamed block ends with that frame or with the next block,
whichever comes first; what was ended here is reported to the `Deduplicator`. `decode` is the caller.
"""

from msgspec import Struct, field

from polylect.dialects.claude.host.deduplicate import Deduplicator
from polylect.dialects.claude.host.results import usage
from polylect.dialects.claude.stop_reasons import OUR_STOPS
from polylect.dialects.lenient import Object, inner, objects, text
from polylect.vocab.content import Stop, Text, Thinking, Usage
from polylect.vocab.events import ArgsDelta, BlockEnded, Event, ReplyEnded, TextDelta, ThinkingDelta

"""By `stop_reason`; an interrupted reply has none."""


class _Stream(Struct):
    """One reply of one agent. `parts` are the texts of the open block."""

    id: str
    model: str
    used: Usage
    kind: str = ""
    call: tuple[str, str] = ("", "")
    parts: list[str] = field(default_factory=list)
    signature: str = ""
    come: int = 0
    """How many characters of the block have come again in `assistant` frames that hold a piece of it each."""


class PartialMessages:
    def __init__(self, deduplicator: Deduplicator) -> None:
        self._deduplicator = deduplicator
        self._open: dict[str, _Stream] = {}
        """By agent."""

    def read(self, event: Object, agent: str, request: str) -> list[Event]:
        """The events of a stream event other than `message_start`, for which there is `begin`."""
        stream = self._open.get(agent)
        if stream is None:
            return []
        match text(event, "type"):
            case "content_block_start":
                ended = self._next(stream, agent)
                block = inner(event, "content_block")
                stream.kind, stream.call = text(block, "type"), (text(block, "id"), text(block, "name"))
                return [*ended, *_delta(stream, text(block, stream.kind))]
            case "content_block_delta":
                delta = inner(event, "delta")
                stream.signature += text(delta, "signature")
                return _delta(stream, text(delta, "text") or text(delta, "thinking") or text(delta, "partial_json"))
            case "message_delta":
                ended = self._next(stream, agent)
                spent = _latest(stream.used, usage(inner(event, "usage")))
                word = text(inner(event, "delta"), "stop_reason")
                stop: Stop = OUR_STOPS.get(word, "end") if word else "cancelled"
                return [*ended, ReplyEnded(stop, spent, stream.model, request)]
        return []

    def begin(self, event: Object, agent: str) -> str:
        """A message begins; returns its id."""
        message = inner(event, "message")
        self._open[agent] = _Stream(text(message, "id"), text(message, "model"), usage(inner(message, "usage")))
        return text(message, "id")

    def whole(self, kind: str, agent: str) -> list[Event]:
        """A block of this kind has come as a whole. If it is not the streamed one, that one has ended."""
        stream = self._open.get(agent)
        if stream is None:
            return []
        if stream.kind != kind:
            return self._next(stream, agent)
        stream.kind, stream.parts, stream.signature, stream.come = "", [], "", 0
        return []

    def piece(self, message: Object, agent: str) -> list[Event] | None:
        """Handles a piece of a streamed text that is too long for one line. None if the message is something else."""
        stream, blocks = self._open.get(agent), objects(message, "content")
        if stream is None or len(blocks) != 1 or text(blocks[0], "type") != stream.kind:
            return None
        whole, part = "".join(stream.parts), text(blocks[0], stream.kind)
        if not part or len(part) >= len(whole) or not whole.startswith(part, stream.come):
            return None
        stream.come += len(part)
        return self._next(stream, agent) if stream.come == len(whole) else []

    def end(self, agent: str) -> None:
        self._open.pop(agent, None)

    def _next(self, stream: _Stream, agent: str) -> list[Event]:
        """Ends the streamed block. The `Deduplicator` then ignores it when it comes as a whole."""
        kind, content, signature = stream.kind, "".join(stream.parts), stream.signature
        stream.kind, stream.parts, stream.signature, stream.come = "", [], "", 0
        if kind not in ("text", "thinking") or not content:
            return []
        self._deduplicator.streamed(stream.id, kind, content, agent)
        return [BlockEnded(Text(content) if kind == "text" else Thinking(content, signature))]


def _delta(stream: _Stream, content: str) -> list[Event]:
    if not content:
        return []
    match stream.kind:
        case "text":
            stream.parts.append(content)
            return [TextDelta(content)]
        case "thinking":
            stream.parts.append(content)
            return [ThinkingDelta(content)]
        case "tool_use" | "server_tool_use" if all(stream.call):
            return [ArgsDelta(*stream.call, content)]
    return []


def _latest(start: Usage, end: Usage) -> Usage:
    """Output tokens as of the end; some engines report input tokens only at the start."""
    return Usage(
        end.input or start.input,
        end.output,
        end.cache_read or start.cache_read,
        end.cache_write or start.cache_write,
    )
