"""Calls: in which lane each was made, and how it ended."""

from collections.abc import Container
from typing import Any, get_args

from polylect.dialects.claude.frames.lenient import Object, inner, objects, text
from polylect.vocab.content import Image, Outcome
from polylect.vocab.events import Event, ToolFinished

_OUTCOMES: dict[str, Outcome] = {outcome: outcome for outcome in get_args(Outcome)}


class Calls:
    def __init__(self) -> None:
        self._made: dict[str, tuple[str, str]] = {}
        """By id: the tool, and the lane."""
        self._detached: set[str] = set()
        self.denied: dict[str, str] = {}
        """Calls that somebody said no to, and why."""

    def called(self, call: str, name: str, lane: str, args: Object) -> None:
        self._made[call] = (name, lane)
        if args.get("run_in_background") is True:
            self._detached.add(call)

    def knows(self, call: str) -> bool:
        return call in self._made

    def lane(self, call: str) -> str:
        return self._made.get(call, ("", ""))[1]

    def detached(self, call: str) -> bool:
        """Whether it was to run in the background."""
        return call in self._detached

    def keep(self, lanes: Container[str]) -> None:
        """The others are over."""
        self._made = {call: made for call, made in self._made.items() if made[1] in lanes}
        self._detached &= self._made.keys()
        self.denied = {call: why for call, why in self.denied.items() if call in self._made}

    def finished(self, block: Object, found: Object, lane: str, stopping: bool = False) -> list[Event]:
        call = text(block, "tool_use_id")
        metas = [meta for meta in objects(found, "tool_result_meta") if text(meta, "id") == call]
        meta = metas[0] if metas else {}
        name, lane = self._made.get(call, (text(meta, "tool_name"), lane))
        outcome = self._outcome(block, meta, call, stopping)
        told, images = _content(block.get("content"))
        details = found.get("tool_use_result")
        return [
            ToolFinished(
                call,
                name,
                told,
                outcome,
                "image" if images and not told else "text",
                text(meta, "reason") or (self.denied.get(call, "") if outcome == "denied" else ""),
                details if isinstance(details, dict) else None,
                images,
                agent=lane,
            )
        ]

    def _outcome(self, block: Object, meta: Object, call: str, stopping: bool) -> Outcome:
        """The wire has only errors. Who was stopped and who was denied has to be found out."""
        if told := _OUTCOMES.get(text(meta, "outcome")):
            return told
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
    told = "\n".join(text(block, "text") for block in blocks if text(block, "type") == "text")
    return told, tuple(picture for picture in pictures if picture.data)
