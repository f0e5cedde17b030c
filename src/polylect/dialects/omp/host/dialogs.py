"""Turns requests of the wire's extension UI into asks, and the rest of it into `Display` events.

Keeps the asks that nobody has answered. omp gives a dialog up after its timeout without a frame, so the deadline is
kept here and the ask is closed when the next line comes. Used by `decode` and `codec`.
"""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from polylect.dialects.omp.host.fields import Fields, number, rows, table, text, texts
from polylect.vocab import events as e
from polylect.vocab.content import Option

How = Literal["allowed", "denied", "answered", "cancelled", "timeout"]

_KINDS = (("always", "allow_always"), ("deny", "reject_once"), ("allow", "allow_once"))
"""What an option of a permission means, by a word in its label."""


class Dialogs:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._deadlines: dict[str, int] = {}
        self.open: dict[str, e.Ask] = {}
        """Asks that nobody has answered, by id."""
        self.denied: set[str] = set()
        """Calls of this turn that were asked for in vain."""

    def read(self, frame: Fields, turn: str, agent: str) -> list[e.Event]:
        method = text(frame, "method")
        if method == "cancel":
            return self.close(text(frame, "targetId"), "cancelled")
        if method in _DIALOGS:
            return [self._open_dialog(replace(_DIALOGS[method](frame), turn=turn, agent=agent))]
        params = {key: value for key, value in frame.items() if key not in ("type", "id", "method")}
        return [e.Display(method, params, turn=turn)]

    def close(self, ask: str, how: How, reason: str = "") -> list[e.Event]:
        closed = self.open.pop(ask, None)
        self._deadlines.pop(ask, None)
        if closed and how == "denied":
            self.denied.add(closed.call)
        return [e.AskClosed(ask, how, reason, turn=closed.turn, agent=closed.agent)] if closed else []

    def overdue(self) -> list[e.Event]:
        """The engine has given these up by itself; it never says so."""
        if not self._deadlines:
            return []
        now = self._now()
        late = [ask for ask, deadline in self._deadlines.items() if deadline <= now]
        return [event for ask in late for event in self.close(ask, "timeout")]

    def end_turn(self, turn: str) -> None:
        """Whatever the turn asked is closed with it."""
        self.denied.clear()
        for ask in [id for id, ask in self.open.items() if ask.turn == turn]:
            del self.open[ask]
            self._deadlines.pop(ask, None)

    def _open_dialog(self, ask: e.Ask) -> e.Ask:
        self.open[ask.ask] = ask
        if ask.timeout_ms:
            self._deadlines[ask.ask] = self._now() + ask.timeout_ms
        return ask


def _select(frame: Fields) -> e.Ask:
    """A permission travels as a select too; ours name the call it is for."""
    call = text(frame, "toolCallId")
    details = [text(row, "description") for row in rows(frame, "optionDetails")]
    labels = texts(frame, "options")
    options = tuple(
        Option(label, label, details[place] if place < len(details) else "", _option_kind(label) if call else "")
        for place, label in enumerate(labels)
    )
    return e.Ask(
        text(frame, "id"),
        "permission" if call else "choice",
        call,
        text(frame, "toolName"),
        table(frame, "args"),
        title=text(frame, "title"),
        reason=text(frame, "message"),
        options=options,
        timeout_ms=number(frame, "timeout"),
        agent=text(frame, "agent"),
    )


def _option_kind(label: str) -> str:
    return next((kind for word, kind in _KINDS if word in label.lower()), "")


def _confirm(frame: Fields) -> e.Ask:
    title, reason = text(frame, "title"), text(frame, "message")
    return e.Ask(text(frame, "id"), "confirm", title=title, reason=reason, timeout_ms=number(frame, "timeout"))


def _input(frame: Fields) -> e.Ask:
    title, reason = text(frame, "title"), text(frame, "placeholder")
    return e.Ask(text(frame, "id"), "text", title=title, reason=reason, timeout_ms=number(frame, "timeout"))


def _editor(frame: Fields) -> e.Ask:
    return e.Ask(text(frame, "id"), "text", title=text(frame, "title"), default=text(frame, "prefill"))


_DIALOGS: dict[str, Callable[[Fields], e.Ask]] = {
    "select": _select,
    "confirm": _confirm,
    "input": _input,
    "editor": _editor,
}
