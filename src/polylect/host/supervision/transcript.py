"""What was said in a conversation, as a text for the model of a new session.

Some engines cannot go on with a session that was interrupted. Then the conversation (`conversation.py`) goes on in a
new one and adds this text to its context. Only the end of a long conversation is kept, and only the beginning of long
outputs.
"""

from collections import deque

from msgspec import json

from polylect.vocab import events as e
from polylect.vocab.content import Text

_MOST = 60_000
"""Characters of the whole text."""
_MOST_OUTPUT = 1000
"""Characters of the arguments and of the output of one call."""
_PARTS = (e.UserMessage, e.BlockEnded, e.ToolCalled, e.ToolFinished)
_INTRODUCTION = (
    "This conversation began in another session, which was interrupted. This is what was said there, the oldest first. "
    "Go on from here."
)


class Transcript:
    """The text of one conversation, of the main agent only."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, part: str) -> None:
        """Adds a `part`, and drops the oldest ones that are too many."""
        self._parts.append(part[-_MOST:])
        self._size += len(self._parts[-1])
        while self._size > _MOST and len(self._parts) > 1:
            self._size -= len(self._parts.popleft())
            self._is_cut = True

    def receive(self, event: e.Event) -> None:
        """Adds what an `event` says."""
        if not isinstance(event, _PARTS):
            return
        match event:
            case e.UserMessage(text, agent=""):
                self.add(f"User: {text}")
            case e.BlockEnded(Text(text), agent="") if text.strip():
                self.add(f"Assistant: {text}")
            case e.ToolCalled(_, name, args, agent=""):
                self.add(f"[the assistant calls {name}: {_short(json.encode(args).decode())}]")
            case e.ToolFinished(_, name, output, outcome, agent=""):
                self.add(f"[{name}: {outcome}: {_short(output)}]")

    @property
    def text(self) -> str:
        """The whole text; empty if nothing was said."""
        if not self._parts:
            return ""
        begins = ["[the beginning is left out]"] if self._is_cut else []
        return "\n\n".join([_INTRODUCTION, *begins, *self._parts])


def _short(text: str) -> str:
    return text if len(text) <= _MOST_OUTPUT else f"{text[:_MOST_OUTPUT]}… [cut]"
