"""Turns requests of the wire's extension UI into asks, and the rest of it into `Display` events.

Keeps the asks that nobody has answered. omp gives a dialog up after its timeout without a frame, so the deadline is
kept here and the ask is closed when the next line comes. Used by `decode` and `codec`.

omp asks for permission (`--approval-mode`) by a `select` that names no call. Its title has the tool and the beginning
of the arguments:

    Allow tool: bash
    Command: git status

`asked_call` finds the call by that. Policies judge an ask by its arguments, so a call is named only if no other fits.
"""

import re
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.omp.frames.commands import QuestionAnswer
from polylect.dialects.omp.host.fields import Fields, flag, number, rows, table, text, texts
from polylect.dialects.tool_categories import category
from polylect.vocab import events as e
from polylect.vocab.content import Option

How = Literal["allowed", "denied", "answered", "cancelled", "timeout"]

_KINDS = (("always", "allow_always"), ("deny", "reject_once"), ("allow", "allow_once"), ("approve", "allow_once"))
"""What an option of a permission means, by a word in its label."""
_APPROVAL = re.compile(r"Allow tool: (?P<tool>\S+)\n?(?:Origin: .*\n?)?(?:Reason: .*\n?)?(?P<details>(?s:.*))")
_START_MS = 100
"""How long a call may run by its engine's word until that counts; omp 18.3 asks right after it has said so."""
_ELIDED = re.compile(r"\[…\d+ch elided…\]$")


class QuestionDialog(Struct):
    """A dialog with several questions, each of which is an ask. It is answered when all of them are."""

    id: str
    questions: dict[str, str]
    """The id of each question, by that of its ask."""
    answers: list[QuestionAnswer] = []


class Dialogs:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._deadlines: dict[str, int] = {}
        self.open: dict[str, e.Ask] = {}
        """Asks that nobody has answered, by id."""
        self._questions: dict[str, QuestionDialog] = {}
        """Dialogs with questions that nobody has answered, by id."""
        self.denied: set[str] = set()
        """Calls of this turn that were asked for in vain."""
        self._asked: set[str] = set()
        """Calls of this turn that were asked for."""
        self._held: dict[str, e.ToolStarted] = {}
        """Starts of calls that omp has reported before their ask was answered, by call."""
        self.may_follow_starts = False
        """Whether the engine may ask for a call after it has reported its start, as omp does since 18.3."""
        self._unasked: dict[str, int] = {}
        """When the start of a call that was not asked for stops to be held, by call."""

    def read(self, frame: Fields, turn: str, agent: str, calls: Iterable[e.ToolCalled] = ()) -> list[e.Event]:
        """The events of a request. `calls` are those that have not finished."""
        method = text(frame, "method")
        if method == "select" and (approval := _APPROVAL.fullmatch(text(frame, "title"))):
            frame = {**frame, "toolName": approval["tool"]}
            others = [call for call in calls if call.call not in self._asked]
            if call := asked_call(approval["tool"], approval["details"], others):
                frame, agent = {**frame, "toolCallId": call.call, "args": call.args}, call.agent
        if method == "cancel":
            return self.close(text(frame, "targetId"), "cancelled")
        if method == "ask":
            asks = self._read_questions(frame)
            return [self._open_dialog(replace(ask, turn=turn, agent=agent)) for ask in asks]
        if method in _DIALOGS:
            return [self._open_dialog(replace(_DIALOGS[method](frame), turn=turn, agent=agent))]
        params = {key: value for key, value in frame.items() if key not in ("type", "id", "method")}
        return [e.Display(method, params, turn=turn)]

    def _read_questions(self, frame: Fields) -> list[e.Ask]:
        id, questions = text(frame, "id"), rows(frame, "questions")
        if not questions:
            raise ValueError("questions: expected at least one")
        ids = [id] if len(questions) == 1 else [f"{id}:{place}" for place in range(len(questions))]
        rows_by_ask = dict(zip(ids, questions, strict=True))
        self._questions[id] = QuestionDialog(id, {ask: text(row, "id") for ask, row in rows_by_ask.items()})
        return [_question(row, ask, number(frame, "timeout")) for ask, row in rows_by_ask.items()]

    def dialog_of(self, ask: str) -> QuestionDialog | None:
        """The dialog that an ask is a question of."""
        return next((dialog for dialog in self._questions.values() if ask in dialog.questions), None)

    def close(self, id: str, how: How, reason: str = "") -> list[e.Event]:
        """Close an ask, or all that are left of a dialog with questions."""
        asks = self._questions[id].questions if id in self._questions else (id,)
        closed = [event for ask in asks for event in self._close_ask(ask, how, reason)]
        self._forget_answered()
        return closed

    def _forget_answered(self) -> None:
        for id, dialog in list(self._questions.items()):
            if not self.open.keys() & dialog.questions.keys():
                del self._questions[id]

    def _close_ask(self, ask: str, how: How, reason: str) -> list[e.Event]:
        closed = self.open.pop(ask, None)
        self._deadlines.pop(ask, None)
        if closed is None:
            return []
        started = self._held.pop(closed.call, None)
        if how == "denied":
            self.denied.add(closed.call)
        starts = [started] if started and how == "allowed" else []
        return [e.AskClosed(ask, how, reason, turn=closed.turn, agent=closed.agent), *starts]

    def holds(self, started: e.ToolStarted) -> bool:
        """Whether this start has to wait for an ask or its answer, or never comes: omp reports it before it waits, also
        of a call that is denied."""
        has_ask = any(ask.call == started.call for ask in self.open.values())
        if not has_ask and self.may_follow_starts and started.call not in self._asked:
            self._unasked[started.call] = self._now() + _START_MS
        if has_ask or started.call in self._unasked:
            self._held[started.call] = started
            return True
        return started.call in self.denied

    def due(self) -> int | None:
        """Milliseconds until `start_due` has to be called; None if no start waits for an ask."""
        return max(0, min(self._unasked.values()) - self._now()) if self._unasked else None

    def start_due(self) -> list[e.Event]:
        """The starts for which no ask has come in time."""
        return [
            event for call, until in list(self._unasked.items()) if until <= self._now() for event in self.start(call)
        ]

    def start(self, call: str) -> list[e.Event]:
        """The start of this call, if it waits for an ask: none will come."""
        return [self._held.pop(call)] if self._unasked.pop(call, None) is not None else []

    def overdue(self) -> list[e.Event]:
        """The engine has given these up by itself; it never says so."""
        if not self._deadlines:
            return []
        now = self._now()
        late = [ask for ask, deadline in self._deadlines.items() if deadline <= now]
        return [event for ask in late for event in self.close(ask, "timeout")]

    def end_turn(self, turn: str) -> None:
        """Whatever the turn asked is closed with it."""
        for calls in (self.denied, self._asked, self._held, self._unasked):
            calls.clear()
        for ask in [id for id, ask in self.open.items() if ask.turn == turn]:
            del self.open[ask]
            self._deadlines.pop(ask, None)
        self._forget_answered()

    def _open_dialog(self, ask: e.Ask) -> e.Ask:
        self.open[ask.ask] = ask
        self._asked.add(ask.call)
        self._unasked.pop(ask.call, None)
        if ask.timeout_ms:
            self._deadlines[ask.ask] = self._now() + ask.timeout_ms
        return ask


def asked_call(tool: str, details: str, calls: Iterable[e.ToolCalled]) -> e.ToolCalled | None:
    """The call of this tool that a dialog with these details is about; None if it may be one of several."""
    fitting = [call for call in calls if call.name == tool and _fits(details, call)]
    return fitting[0] if fitting and all(call.args == fitting[0].args for call in fitting) else None


def _fits(details: str, call: e.ToolCalled) -> bool:
    """Whether the details may be those of this call. A command is shown alone, a path before other things."""
    label, _, shown = details.partition(": ")
    begin, cut = _ELIDED.subn("", shown)
    is_command = label.endswith("Command")
    values = [value for value in call.args.values() if isinstance(value, str)]
    if cut and is_command:
        return any(value.startswith(begin) for value in values)
    return not details or any(shown == value or (not is_command and shown.startswith(f"{value}\n")) for value in values)


def _select(frame: Fields) -> e.Ask:
    """A permission travels as a select too: omp names the tool, ours the call as well."""
    call, tool = text(frame, "toolCallId"), text(frame, "toolName")
    details = [text(row, "description") for row in rows(frame, "optionDetails")]
    labels = texts(frame, "options")
    kind: Literal["permission", "choice"] = "permission" if call or tool else "choice"
    options = tuple(
        Option(label, label, description, _option_kind(label) if kind == "permission" else "")
        for label, description in zip_longest(labels, details[: len(labels)], fillvalue="")
    )
    return e.Ask(
        text(frame, "id"),
        kind,
        call,
        tool,
        table(frame, "args"),
        category(tool) if tool else "exec",
        title=text(frame, "title"),
        reason=text(frame, "message"),
        options=options,
        timeout_ms=number(frame, "timeout"),
        agent=text(frame, "agent"),
    )


def _question(row: Fields, ask: str, timeout: int) -> e.Ask:
    options = tuple(
        Option(text(option, "label"), text(option, "label"), text(option, "description"))
        for option in rows(row, "options")
    )
    return e.Ask(
        ask,
        "choice" if options else "text",
        args={"header": header} if (header := text(row, "header")) else {},
        title=text(row, "question"),
        options=options,
        multiple=flag(row, "multi"),
        timeout_ms=timeout,
    )


def _option_kind(label: str) -> str:
    head = label.replace("(", ":").partition(":")[0].lower()  # behind it may be a command, with any words
    return next((kind for word, kind in _KINDS if word in head), "")


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
