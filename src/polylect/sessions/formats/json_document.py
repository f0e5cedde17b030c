"""Exports a conversation as one JSON document, for other programs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from polylect.sessions.formats.conversation import Conversation, iso
from polylect.vocab.entries import Compacted


def pieces(conversation: Conversation) -> Iterator[bytes]:
    steps: list[dict[str, Any]] = []
    for at, step in conversation.steps():
        kind = {"compacted": step} if isinstance(step, Compacted) else {"message": step}
        steps.append({"at": iso(at), **kind})
    document = {
        "session": conversation.session,
        "workspace": conversation.cwd,
        "name": conversation.name,
        "began": iso(conversation.at),
        "usage": conversation.usage,
        "contexts": conversation.replay.contexts,
        "steps": steps,
    }
    yield msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
