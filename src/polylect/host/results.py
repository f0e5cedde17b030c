"""The result of a turn, and how it comes from the events of the turn.

Each turn has one (`host/turn.py`), which is updated by every event that is read. `polylect run` updates one of its own,
to know what was done when it is interrupted.
"""

from typing import Any, Literal

from msgspec import Struct

from polylect.vocab import events
from polylect.vocab.content import Failure, Usage

_SHORT = 80
"""Characters of the text that `repr` shows."""


class Denial(Struct, frozen=True):
    """A call that was not allowed."""

    call: str
    name: str
    reason: str = ""
    args: dict[str, Any] = {}


class Result(Struct):
    """What came of a turn."""

    turn: str = ""
    """The id of the turn."""
    reason: Literal["", "end", "cancelled", "length", "refused", "limit", "error"] = ""
    usage: Usage = Usage()
    steps: int = 0
    denials: list[Denial] = []
    failure: Failure | None = None
    value: Any = None
    """The answer as a value, where a schema was given."""
    session_id: str = ""
    """What the conversation can be resumed by; see `Agent.session_id`."""
    _text_parts: list[str] = []
    """The last text of the model, in pieces."""
    _fresh: bool = True
    """Whether the next delta begins a new text."""
    _args: dict[str, dict[str, Any]] = {}

    @property
    def text(self) -> str:
        """What the model said last."""
        self._text_parts[:] = ["".join(self._text_parts)]
        return self._text_parts[0]

    @property
    def cost(self) -> float | None:
        """Dollars; None if nobody knows."""
        return self.usage.cost

    @property
    def ok(self) -> bool:
        """Whether the turn ended by itself."""
        return self.reason == "end"

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHORT else f"{self.text[:_SHORT]}…"
        return f"Result(text={text!r}, reason={self.reason!r}, cost={self.cost!r})"


def update(result: Result, event: events.Event) -> None:
    """Updates a `result` by an `event` of its turn."""
    match event:
        case events.TurnEnded(reason, usage, steps, failure):
            result.reason, result.usage, result.failure = reason, usage, failure
            result.steps = steps or result.steps
        case events.ToolCalled(call, _, args) | events.Ask(call=call, args=args):
            result._args[call] = args
        case events.ToolFinished(call, name, _, outcome, reason=reason):
            args = result._args.pop(call, {})
            result.denials += [Denial(call, name, reason, args)] if outcome == "denied" else []
        case events.StructuredAnswer(value):
            result.value = value
        case events.StepStarted(agent=""):
            result._fresh = True
            result.steps += 1
        case events.TextDelta(text, agent=""):
            if result._fresh:
                result._text_parts.clear()
            result._text_parts.append(text)
            result._fresh = False
