"""Rules that the model's text is held to while it comes in."""

import re
from collections.abc import Sequence

from polylect.vocab.content import Text
from polylect.vocab.hooks import ReplyWatcher, StreamRule
from polylect.vocab.ports import BlockDone, ModelEvent, TextChunk

REACH = 2000
"""How far back, in characters, a match can begin: without a limit every chunk would cost the whole reply."""


def watcher(rules: Sequence[StreamRule]) -> ReplyWatcher:
    """For one reply."""
    watched = [(rule, re.compile(rule.pattern)) for rule in rules]
    tail = ""

    def watch(event: ModelEvent) -> Sequence[StreamRule]:
        nonlocal tail
        match event:
            case TextChunk(text):
                heard = tail + text
                tail = heard[-REACH:]
            case BlockDone(Text(text)):  # it may come whole, without chunks
                heard, tail = "" if tail else text, ""
            case _:
                return ()
        return [rule for rule, pattern in watched if pattern.search(heard)] if heard else ()

    return watch
