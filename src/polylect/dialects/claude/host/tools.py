"""Calls of the running turn: which agent made each, which were denied, and how each ended.

The wire marks a result only as an error or not. Whether the call was denied or cancelled is derived from what else
was seen. `decode` is the caller.
"""

from collections.abc import Container
from typing import Any, get_args

from polylect.dialects.lenient import Object, inner, objects, text
from polylect.vocab.content import Image, Outcome
from polylect.vocab.events import Event, ToolFinished

_OUTCOMES: dict[str, Outcome] = {outcome: outcome for outcome in get_args(Outcome)}


class CallRecords:
    """What is known of each call until its result comes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, str]] = {}
        """By id: the tool, and the agent."""
        self._detached: set[str] = set()
        self.denied: dict[str, str] = {}
        """Calls that were denied, with the reason."""

    def called(self, call: str, name: str, agent: str, args: Object) -> None:
        self._made[call] = (name, agent)
        if args.get("run_in_background") is True:
            self._detached.add(call)

    def knows(self, call: str) -> bool:
        return call in self._made

    def agent_of(self, call: str) -> str:
        return self._made.get(call, ("", ""))[1]

    def detached(self, call: str) -> bool:
        """Whether the model asked for the call to run in the background."""
        return call in self._detached

    def keep_only(self, agents: Container[str]) -> None:
        """Forget the calls of all other agents."""
        self._made = {call: made for call, made in self._made.items() if made[1] in agents}
        self._detached &= self._made.keys()
        self.denied = {call: why for call, why in self.denied.items() if call in self._made}

    def finished(self, block: Object, frame: Object, agent: str, stopping: bool = False) -> list[Event]:
        call = text(block, "tool_use_id")
        metas = [meta for meta in objects(frame, "tool_result_meta") if text(meta, "id") == call]
        meta = metas[0] if metas else {}
        name, agent = self._made.get(call, (text(meta, "tool_name"), agent))
        outcome = self._outcome(block, meta, call, stopping)
        output, images = _content(block.get("content"))
        details = frame.get("tool_use_result")
        return [
            ToolFinished(
                call,
                name,
                output,
                outcome,
                "image" if images and not output else "text",
                text(meta, "reason") or (self.denied.get(call, "") if outcome == "denied" else ""),
                details if isinstance(details, dict) else None,
                images,
                agent=agent,
            )
        ]

    def _outcome(self, block: Object, meta: Object, call: str, stopping: bool) -> Outcome:
        """polylect reports the outcome; for other engines it is derived."""
        if outcome := _OUTCOMES.get(text(meta, "outcome")):
            return outcome
        if block.get("is_error") is not True:
            return "ok"
        if call in self.denied:
            return "denied"
        if stopping:
            return "cancelled"
        return "denied" if text(inner(meta, "permission_decision"), "decision") == "reject" else "error"


def _content(content: Any) -> tuple[str, tuple[Image, ...]]:
    if isinstance(content, str):
        return content, ()
    blocks = objects({"of": content}, "of")
    sources = [inner(block, "source") for block in blocks if text(block, "type") == "image"]
    pictures = [Image(text(source, "media_type"), text(source, "data")) for source in sources]
    output = "\n".join(text(block, "text") for block in blocks if text(block, "type") == "text")
    return output, tuple(picture for picture in pictures if picture.data)
