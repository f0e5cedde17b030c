"""What the host sides of all wires do alike: say no, count what they hear, and tell what a vanished engine leaves."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from polylect.dialects.rate_limit import Ration
from polylect.vocab.commands import Command
from polylect.vocab.complete import Completer
from polylect.vocab.content import Failure
from polylect.vocab.events import CostChanged, Event, MalformedEvent, Reply, TurnEnded

GONE = Failure("engine_gone", "the engine went away before the turn ended", "engine")
"""How turns end that the engine did not live to end."""


class Refusal(Exception):
    """A command that cannot go over this wire, mostly because there is no word for it."""

    def __init__(self, message: str, code: str = "unsaid") -> None:
        super().__init__(message)
        self.code = code


def refused(command: Command, refusal: Refusal) -> Reply:
    return Reply(command.ref, failure=Failure(refusal.code, str(refusal), "host"), session=command.session)


def accepted(command: Command, data: Any = None) -> list[Event]:
    """Only who gave a ref is answered."""
    return [Reply(command.ref, data, session=command.session)] if command.ref else []


def complete(completer: Completer, events: Iterable[Event]) -> list[Event]:
    """Grammatical events. What is told of the cost with a turn's end comes when the last step is over, as from us."""
    told: list[Event] = []
    costs: list[Event] = []
    for event in events:
        if isinstance(event, CostChanged):
            costs.append(event)
            continue
        said = completer.add(event)
        if costs:
            place = len(said) - 1 if isinstance(event, TurnEnded) and said else 0
            said[place:place] = costs
            costs.clear()
        told += said
    return told + costs


class Tally:
    """`outcomes` counts lines that were known, unknown and malformed."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.outcomes: Counter[str] = Counter()
        self._ration = Ration(now)
        self._log: list[str] = []

    def malformed(self, line: bytes, why: str) -> MalformedEvent:
        self.outcomes["malformed"] += 1
        if (passed_over := self._ration.take()) is not None:
            more = f" ({passed_over} like it were passed over)" if passed_over else ""
            self._log.append(f"not an event: {why}: {line[:200]!r}{more}")
        return MalformedEvent(line, why)

    def to_log(self) -> list[str]:
        """What is worth logging since the last time: malformed lines, a few a minute. Never an unknown one."""
        lines, self._log = self._log, []
        return lines
