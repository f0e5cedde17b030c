"""What the host sides of all dialects share: refusing commands, completing events, counting and logging lines.

A host side turns lines of an engine into events and commands into lines. It refuses a command that the wire cannot
carry (`Refusal`), so that no command is dropped in silence, and it passes all events through `complete`, so that what
a host sees is always a whole turn, whatever the engine left out. Used by `host/codec.py` of every dialect.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from polylect.dialects.rate_limit import RateLimit
from polylect.vocab.commands import Command
from polylect.vocab.complete import Completer
from polylect.vocab.content import Failure
from polylect.vocab.events import CostChanged, Event, MalformedEvent, Reply, TurnEnded

ENGINE_GONE = Failure("engine_gone", "the engine went away before the turn ended", "engine")
"""The failure of turns that were open when the engine went away."""


class Refusal(Exception):
    """Raised for a command that cannot go over this wire, mostly because there is no frame for it."""

    def __init__(self, message: str, code: str = "unsaid") -> None:
        super().__init__(message)
        self.code = code


def refused(command: Command, refusal: Refusal) -> Reply:
    """The reply to a command that was refused."""
    return Reply(command.ref, failure=Failure(refusal.code, str(refusal), "host"), session=command.session)


def accepted(command: Command, data: Any = None) -> list[Event]:
    """The reply to a command that succeeded, with `data`; nothing if the command has no ref."""
    return [Reply(command.ref, data, session=command.session)] if command.ref else []


def complete(completer: Completer, events: Iterable[Event]) -> list[Event]:
    """The events with those added that the engine left out.

    A `CostChanged` that comes just before the end of a turn is moved behind the end of the turn's last step, which is
    where our own engine emits it.
    """
    completed: list[Event] = []
    costs: list[Event] = []
    for event in events:
        if isinstance(event, CostChanged):
            costs.append(event)
            continue
        added = completer.add(event)
        if costs:
            place = len(added) - 1 if isinstance(event, TurnEnded) and added else 0
            added[place:place] = costs
            costs.clear()
        completed += added
    return completed + costs


class Diagnostics:
    """Counts the lines of an engine and logs a few of the malformed ones.

    `outcomes` counts lines by the keys `known`, `unknown` and `malformed`.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.outcomes: Counter[str] = Counter()
        self._rate_limit = RateLimit(now)
        self._log: list[str] = []

    def malformed(self, line: bytes, why: str) -> MalformedEvent:
        """Count and perhaps log a line that is no event. Returns the event that stands for it."""
        self.outcomes["malformed"] += 1
        if (suppressed := self._rate_limit.acquire()) is not None:
            more = f" ({suppressed} like it were passed over)" if suppressed else ""
            self._log.append(f"not an event: {why}: {line[:200]!r}{more}")
        return MalformedEvent(line, why)

    def to_log(self) -> list[str]:
        """The log lines since the last call: malformed lines, at most a few a minute. Unknown events are not logged."""
        lines, self._log = self._log, []
        return lines
