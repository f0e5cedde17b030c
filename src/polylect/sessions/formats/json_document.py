"""A conversation as one JSON document, for programs of one's own."""

from collections.abc import Iterator
from typing import Any

import msgspec

from polylect.sessions.formats.conversation import Story, iso
from polylect.vocab.entries import Compacted


def pieces(story: Story) -> Iterator[bytes]:
    yield told(story)


def told(story: Story) -> bytes:
    steps: list[dict[str, Any]] = []
    for at, step in story.steps():
        kind = {"compacted": step} if isinstance(step, Compacted) else {"message": step}
        steps.append({"at": iso(at), **kind})
    document = {
        "session": story.session,
        "workspace": story.cwd,
        "name": story.name,
        "began": iso(story.at),
        "usage": story.usage,
        "contexts": story.told.contexts,
        "steps": steps,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
