"""Turns asks into dialogs of the wire's extension UI, and the host's responses into answers.

omp has no frame for permissions, so a permission is a `select` with three options ("Allow once", "Allow always",
"Deny"). Anything but a clear yes is a no: a response with an unknown label or a missing value denies or cancels.
Used by `host_ui` to ask and by `codec` to read the response.
"""

from typing import Literal

from msgspec import UNSET

from polylect.dialects.choices import chosen, decides
from polylect.dialects.omp.frames.commands import ExtensionUIResponse, QuestionAnswer
from polylect.dialects.omp.frames.events import ExtensionUIRequest, Question
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option, Rule
from polylect.vocab.events import Ask

PERMISSION = (
    Option("once", "Allow once", kind="allow_once"),
    Option("always", "Allow always", kind="allow_always"),
    Option("no", "Deny", kind="reject_once"),
)


def options_of(ask: Ask) -> tuple[Option, ...]:
    """The options that are shown. A question about a call always has a plain yes and a plain no (A1)."""
    return ask.options if ask.kind != "permission" or decides(ask.options) else PERMISSION


def dialog(ask: Ask, id: str, *, questions: bool = False) -> ExtensionUIRequest | None:
    """None if this wire has no dialog for it. `questions`: the host knows the dialog `ask`."""
    timeout = ask.timeout_ms or UNSET
    match ask.kind:
        case "permission":
            return _permission(ask, id)
        case "choice" if questions:
            return ExtensionUIRequest(id=id, method="ask", questions=[_question(ask)], timeout=timeout)
        case "choice":
            return _choice(ask, id)
        case "confirm":
            return ExtensionUIRequest(id=id, method="confirm", title=ask.title, message=ask.reason, timeout=timeout)
        case "text" if ask.default:
            title = _lines(ask.title, ask.reason)
            return ExtensionUIRequest(id=id, method="editor", title=title, prefill=ask.default)
        case "text":
            placeholder = ask.reason or UNSET
            return ExtensionUIRequest(id=id, method="input", title=ask.title, placeholder=placeholder, timeout=timeout)
        case _:
            return None


def _permission(ask: Ask, id: str) -> ExtensionUIRequest:
    return ExtensionUIRequest(
        id=id,
        method="select",
        title=_lines(ask.title or f"Allow {ask.name}?", ask.reason),
        options=[option.label for option in options_of(ask)],
        timeout=ask.timeout_ms or UNSET,
        tool_call_id=ask.call,
        tool_name=ask.name,
        args=ask.args,
        agent=ask.agent or UNSET,
    )


def _choice(ask: Ask, id: str) -> ExtensionUIRequest:
    details = [{"description": option.description} for option in ask.options]
    return ExtensionUIRequest(
        id=id,
        method="select",
        title=_lines(ask.title, ask.reason),
        options=[option.label for option in ask.options],
        option_details=details if any(option.description for option in ask.options) else UNSET,
        timeout=ask.timeout_ms or UNSET,
    )


def _question(ask: Ask) -> Question:
    rows = [{"label": option.label, "description": option.description} for option in ask.options]
    options = [{key: value for key, value in row.items() if value} for row in rows]
    header = str(ask.args.get("header") or "")
    return Question(ask.ask, _lines(ask.title, ask.reason), options, header or UNSET, ask.multiple or UNSET)


def _lines(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def answer(frame: ExtensionUIResponse, ask: Ask) -> Answer:
    """A reply with the wrong key, or with two that contradict each other, is the default: no, or nothing chosen."""
    value = frame.value if isinstance(frame.value, str) else None
    reason = frame.reason if isinstance(frame.reason, str) else ""
    if frame.cancelled is True or frame.timed_out is True:
        return Answer(ask.ask, "cancelled", reason=reason)
    if ask.kind == "confirm":
        yes = frame.confirmed is True
        return Answer(ask.ask, "allow" if yes else "deny", value=yes, reason=reason)
    if isinstance(frame.answers, list):
        return _question_answer(frame.answers, ask)
    if value is None or frame.confirmed is False:
        return Answer(ask.ask, "cancelled", reason=reason)
    if ask.kind == "permission":
        return _decision(value, ask, reason)
    return Answer(ask.ask, "allow", value=chosen(value, ask))


def _question_answer(answers: list[QuestionAnswer], ask: Ask) -> Answer:
    """The ids of the options that were chosen by their labels, and the person's own words."""
    ids = {option.label: option.id for option in ask.options}
    texts = [
        text
        for answer in answers
        for text in (*(ids.get(label, label) for label in answer.selected_options), answer.custom_input)
        if isinstance(text, str) and text
    ]
    if not texts:
        return Answer(ask.ask, "cancelled")
    return Answer(ask.ask, "allow", value=texts if ask.multiple else texts[0])


def _decision(label: str, ask: Ask, reason: str) -> Answer:
    """Only a label that was offered and means yes is a yes (A1)."""
    kind = next((option.kind for option in options_of(ask) if option.label == label), "")
    verdict: Literal["allow", "deny"] = "allow" if kind in ("allow_once", "allow_always") else "deny"
    return Answer(ask.ask, verdict, reason=reason, always=_rule(ask) if kind == "allow_always" else None)


def _rule(ask: Ask) -> Rule:
    """As narrow as it can be: this very command, or this tool."""
    command = ask.args.get("command")
    return Rule("command", command, tool=ask.name) if isinstance(command, str) else Rule("tool", ask.name)
