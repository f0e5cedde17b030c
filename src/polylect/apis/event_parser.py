"""Reads a stream whose events name their type: Anthropic's Messages and OpenAI's Responses.

A subclass has a table of steps, one for each type of event. What has no step is ignored: vendors add events at times.
What cannot be decoded is the server's fault: `fault` is set, and nothing raises.
"""

from collections.abc import Callable, Iterable
from typing import Any

from polylect.apis.arguments import ReplyCalls
from polylect.apis.faults import UNREADABLE, unreadable
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent


class EventParser:
    """Reads one reply.

    After each `feed`, `fault` is set if the reply is lost, and `done` is true if it is complete.
    """

    decode: Callable[[bytes], Any]
    steps: dict[str, Callable[[Any, Any, list[ModelEvent]], None]]

    def __init__(self) -> None:
        self.done = False
        self.fault: ProviderError | None = None
        self._calls = ReplyCalls()
        self._called = False
        self._request = ""
        self._model = ""

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        """The model events in the data of some server-sent events."""
        events: list[ModelEvent] = []
        decode, step_of = self.decode, self.steps.get
        for payload in payloads:
            try:
                event = decode(payload)
            except UNREADABLE as error:
                if payload.strip() in (b"", b"[DONE]"):
                    continue
                self.fault = unreadable(error)
                break
            if step := step_of(event.type):
                step(self, event, events)
            if self.done or self.fault:
                break
        return events
