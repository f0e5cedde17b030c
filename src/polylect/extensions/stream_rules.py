"""Checks the text of the model against stream rules while it arrives.

A rule is a pattern and an instruction: if the text matches, the engine stops the reply and requests it again with the
instruction. A match can span chunks, so the last 2000 characters are kept and searched with each new chunk. Called by
`Extensions.watch`, once for each reply.
"""

import re
from collections.abc import Sequence

from polylect.vocab.content import StreamRule, Text
from polylect.vocab.hooks import ReplyWatcher
from polylect.vocab.ports import BlockDone, ModelEvent, TextChunk

REACH = 2000
"""Characters before a chunk in which a match can begin. Without a limit each chunk would cost a search of the reply."""


def watcher(rules: Sequence[StreamRule]) -> ReplyWatcher:
    """A function that gets the events of one reply and returns the rules that match."""
    compiled = [(rule, re.compile(rule.pattern)) for rule in rules]
    tail = ""

    def watch(event: ModelEvent) -> Sequence[StreamRule]:
        nonlocal tail
        match event:
            case TextChunk(text):
                window = tail + text
                tail = window[-REACH:]
            case BlockDone(Text(text)):  # some providers send a block without chunks
                window, tail = "" if tail else text, ""
            case _:
                return ()
        return [rule for rule, pattern in compiled if pattern.search(window)] if window else ()

    return watch
