"""Dialogs of extensions as asks, and the rest of the extension UI as things to show."""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from polylect.dialects.omp.host.fields import Found, number, rows, table, text, texts
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

    def read(self, found: Found, turn: str, agent: str) -> list[e.Event]:
        method = text(found, "method")
        if method == "cancel":
            return self.close(text(found, "targetId"), "cancelled")
        if method in _DIALOGS:
            return [self._ask(replace(_DIALOGS[method](found), turn=turn, agent=agent))]
        params = {key: value for key, value in found.items() if key not in ("type", "id", "method")}
        return [e.Display(method, params, turn=turn)]

    def close(self, ask: str, how: How, reason: str = "") -> list[e.Event]:
        found = self.open.pop(ask, None)
        self._deadlines.pop(ask, None)
        if found and how == "denied":
            self.denied.add(found.call)
        return [e.AskClosed(ask, how, reason, turn=found.turn, agent=found.agent)] if found else []

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
        for ask in [ask for ask, found in self.open.items() if found.turn == turn]:
            del self.open[ask]
            self._deadlines.pop(ask, None)

    def _ask(self, ask: e.Ask) -> e.Ask:
        self.open[ask.ask] = ask
        if ask.timeout_ms:
            self._deadlines[ask.ask] = self._now() + ask.timeout_ms
        return ask


def _select(found: Found) -> e.Ask:
    """A permission travels as a select too; ours name the call it is for."""
    call = text(found, "toolCallId")
    details = [text(row, "description") for row in rows(found, "optionDetails")]
    labels = texts(found, "options")
    options = tuple(
        Option(label, label, details[place] if place < len(details) else "", _option_kind(label) if call else "")
        for place, label in enumerate(labels)
    )
    return e.Ask(
        text(found, "id"),
        "permission" if call else "choice",
        call,
        text(found, "toolName"),
        table(found, "args"),
        title=text(found, "title"),
        reason=text(found, "message"),
        options=options,
        timeout_ms=number(found, "timeout"),
        agent=text(found, "agent"),
    )


def _option_kind(label: str) -> str:
    return next((kind for word, kind in _KINDS if word in label.lower()), "")


def _confirm(found: Found) -> e.Ask:
    title, reason = text(found, "title"), text(found, "message")
    return e.Ask(text(found, "id"), "confirm", title=title, reason=reason, timeout_ms=number(found, "timeout"))


def _input(found: Found) -> e.Ask:
    title, reason = text(found, "title"), text(found, "placeholder")
    return e.Ask(text(found, "id"), "text", title=title, reason=reason, timeout_ms=number(found, "timeout"))


def _editor(found: Found) -> e.Ask:
    return e.Ask(text(found, "id"), "text", title=text(found, "title"), default=text(found, "prefill"))


_DIALOGS: dict[str, Callable[[Found], e.Ask]] = {
    "select": _select,
    "confirm": _confirm,
    "input": _input,
    "editor": _editor,
}
