"""Plays one reply of a script: its parts in order, with their pauses, as events of a model.

`provider.py` makes a `Playback` for each request. Placeholders are filled in from the request, ids of calls are
unique in a conversation, and usage is counted or estimated as the script says.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from math import inf

import msgspec

from polylect.providers.scripted import parse
from polylect.providers.scripted.script_match import MatchedReply, ScriptPosition, fill, texts
from polylect.vocab.content import Block, Text, Thinking, ToolCall, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ModelRequest, ReplyDone, TextChunk, ThinkingChunk

PlaybackItem = ModelEvent | float | ProviderError
"""An event of the model, a pause in seconds, or the error that ends the stream."""
Faults = Counter[tuple[str, int, int]]
"""How often an error was played: by session, length of the conversation and number of the part."""
_PASSING = frozenset({"rate_limit", "overloaded", "server", "network", "timeout"})
_CUTS: dict[parse.Split, str] = {"word": r"\s*\S+\s*|\s+", "line": r"[^\n]*\n|[^\n]+", "char": r"(?s:.)"}


class Playback:
    """One reply of `script`, played for the request at `position`. `faults` counts the errors that were played."""

    def __init__(
        self, script: parse.Script, matched: MatchedReply, position: ScriptPosition, faults: Faults, pace: float | None
    ) -> None:
        self._script = script
        self._matched = matched
        self._request = position.request
        self._faults = faults
        self._pace = script.head.pace if pace is None else pace
        self._open: list[str] = []
        self._thinking = False
        self._signature = ""
        self._used = {b.call for m in position.request.messages for b in m.content if isinstance(b, ToolCall)}
        self._called = False
        self._written = 0

    def play(self) -> Iterator[PlaybackItem]:
        for number, part in enumerate(self._matched.reply.say):
            yield from self._part(number, part)
        yield from self._end_block()
        head = self._matched.reply.head
        stop = head.stop or ("calls" if self._called else "end")
        yield ReplyDone(stop, self._usage(), f"scripted-{os.urandom(8).hex()}", self._request.model)

    def _part(self, number: int, part: parse.Part) -> Iterator[PlaybackItem]:
        match part:
            case parse.TextPart() | parse.ThinkingPart():
                yield from self._words(part)
            case parse.CallPart():
                yield from self._end_block()
                yield from self._calls(part)
            case parse.WaitPart():
                yield part.wait
            case parse.HangPart():
                yield inf
            case parse.ErrorPart():
                yield from self._fault(number, part)

    def _words(self, part: parse.TextPart | parse.ThinkingPart) -> Iterator[PlaybackItem]:
        thinking = isinstance(part, parse.ThinkingPart)
        if thinking != self._thinking:
            yield from self._end_block()
        self._thinking = thinking
        if isinstance(part, parse.ThinkingPart) and part.signature:
            self._signature = part.signature
        chunk_type: type[TextChunk | ThinkingChunk] = ThinkingChunk if thinking else TextChunk
        pace = self._pace if part.pace is None else part.pace
        for pieces in self._rounds(part):
            self._open += pieces
            for piece in pieces:
                if pace:
                    yield pace
                yield chunk_type(piece)

    def _rounds(self, part: parse.TextPart | parse.ThinkingPart) -> Iterator[list[str]]:
        """The chunks of each repetition."""
        words = part.thinking if isinstance(part, parse.ThinkingPart) else part.text
        split = part.split or self._script.head.split
        whole = words if isinstance(words, str) else "".join(words)
        pieces: list[str] = []
        for number in range(1, part.repeat + 1):
            if number == 1 or "{i}" in whole:
                filled = fill(words, self._matched.values | {"i": str(number)})
                pieces = _cut(filled, split) if isinstance(filled, str) else [piece for piece in filled if piece]
            yield pieces

    def _calls(self, part: parse.CallPart) -> Iterator[PlaybackItem]:
        for number in range(1, part.repeat + 1):
            values = self._matched.values | {"i": str(number)}
            call = ToolCall(self._call_id(fill(part.id, values)), fill(part.call, values), fill(part.args, values))
            text = msgspec.json.encode(call.args).decode()
            for start in range(0, len(text), part.chunk) if part.chunk else ():
                yield ArgsChunk(call.call, call.name, text[start : start + part.chunk])
            self._called = True
            self._written += len(call.name) + len(text)
            yield BlockDone(call)

    def _call_id(self, id: str) -> str:
        """No id twice in a conversation, also if the script was played before a resume."""
        unique = id or f"call_{os.urandom(8).hex()}"
        number = 2
        while unique in self._used:
            unique = f"{id}-{number}"
            number += 1
        self._used.add(unique)
        return unique

    def _fault(self, number: int, part: parse.ErrorPart) -> Iterator[PlaybackItem]:
        # The one thing a request cannot tell: a request that is made again looks like the first.
        key = (self._request.session, len(self._request.messages), number)
        if part.times and self._faults[key] >= part.times:
            return
        self._faults[key] += 1
        yield ProviderError(
            part.error,
            fill(part.message, self._matched.values) or f"the script says: {part.error}",
            retryable=part.error in _PASSING if part.retryable is None else part.retryable,
            status=part.status,
            retry_after=part.retry_after,
        )

    def _end_block(self) -> Iterator[PlaybackItem]:
        text = "".join(self._open)
        self._open = []
        if text:
            self._written += len(text)
            block: Block = Thinking(text, self._signature) if self._thinking else Text(text)
            self._signature = ""
            yield BlockDone(block)

    def _usage(self) -> Usage:
        """As the script states it, else a token for every four characters that were read and said."""
        stated = self._matched.reply.head.usage
        counts = msgspec.structs.asdict(stated) if stated else _estimate(self._request, self._written)
        usage = Usage(**counts)
        if usage.cost is None and (price := self._script.head.price):
            return msgspec.structs.replace(usage, cost=_cost(usage, price))
        return usage


def _cut(text: str, split: parse.Split) -> list[str]:
    if split == "none":
        return [text] if text else []
    return re.findall(_CUTS[split], text)


def _estimate(request: ModelRequest, written: int) -> dict[str, int]:
    """Pictures are not counted: their size says nothing of their tokens."""
    read = len(request.system) + sum(map(len, texts(request.messages)))
    read += sum(len(tool.name) + len(tool.description) + len(str(tool.schema)) for tool in request.tools)
    return {"input": -(-read // 4), "output": -(-written // 4)}


def _cost(usage: Usage, price: parse.Price) -> float:
    dollars = (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    )
    return dollars / 1_000_000
