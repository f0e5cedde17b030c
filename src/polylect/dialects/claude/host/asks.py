"""Requests of the engine that a person answers: `can_use_tool` and `elicitation`, as asks.

A request becomes one `Ask`, except for a call of `AskUserQuestion`, which becomes one for each of its questions
(`r1#1`, `r1#2`). It is answered once, when all of its asks are, or at the first that is not allowed. The codec opens
and closes requests, `CommandWriter` answers them.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.claude.permissions import written
from polylect.dialects.lenient import Object, inner, objects, text, words
from polylect.dialects.tool_categories import category
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option, Rule
from polylect.vocab.events import Ask, AskClosed

QUESTION = "AskUserQuestion"
_ACTIONS = {"allow": "accept", "deny": "decline", "cancelled": "cancel"}


class _Pending(Struct):
    request: Object
    asks: dict[str, Ask]
    answers: dict[str, Answer]


class AnswerOutcome(Struct, frozen=True):
    """What an answer leads to.

    request   the id of the control request
    payload   its response; None while other asks of the request are open
    closed    events for the host
    call      the call that was asked about
    """

    request: str
    payload: Object | None
    closed: list[AskClosed]
    call: str


class PendingAsks:
    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    def open(self, id: str, request: Object, *, turn: str, agent: str) -> list[Ask]:
        asks = _elicitation_asks(id, request) if text(request, "subtype") == "elicitation" else _tool_asks(id, request)
        asks = [replace(ask, turn=turn, agent=agent) for ask in asks]
        self._pending[id] = _Pending(request, {ask.ask: ask for ask in asks}, {})
        return asks

    def knows(self, ask: str) -> bool:
        return any(ask in pending.asks for pending in self._pending.values())

    def answer(self, answer: Answer) -> AnswerOutcome:
        id, pending = next((id, one) for id, one in self._pending.items() if answer.ask in one.asks)
        ask = pending.asks[answer.ask]
        pending.answers[answer.ask] = answer
        closed = [_closed(ask, answer)]
        if answer.verdict == "allow" and len(pending.answers) < len(pending.asks):
            return AnswerOutcome(id, None, closed, ask.call)
        del self._pending[id]
        unanswered = [one for one in pending.asks.values() if one.ask not in pending.answers]
        closed += [AskClosed(one.ask, "cancelled", turn=one.turn, agent=one.agent) for one in unanswered]
        return AnswerOutcome(id, _payload(pending, answer, ask), closed, ask.call)

    def close(self, id: str) -> list[AskClosed] | None:
        """The engine has cancelled the request, or another host has answered it. None if the id is not of an ask."""
        pending = self._pending.pop(id, None)
        if pending is None:
            return None
        left = [ask for ask in pending.asks.values() if ask.ask not in pending.answers]
        return [AskClosed(ask.ask, "cancelled", turn=ask.turn, agent=ask.agent) for ask in left]


def _closed(ask: Ask, answer: Answer) -> AskClosed:
    how: Literal["allowed", "denied", "answered", "cancelled"] = "cancelled"
    if answer.verdict == "allow":
        how = "allowed" if ask.kind == "permission" else "answered"
    elif answer.verdict == "deny":
        how = "denied"
    return AskClosed(ask.ask, how, answer.reason, turn=ask.turn, agent=ask.agent)


# Requests to asks.


def _tool_asks(id: str, request: Object) -> list[Ask]:
    tool_input, name = inner(request, "input"), text(request, "tool_name")
    questions = objects(tool_input, "questions") if name == QUESTION else []
    ask = Ask(id, call=text(request, "tool_use_id"), name=name, category=category(name))
    if not questions:
        title = text(request, "title") or _subject(name, tool_input) or text(request, "description")
        title = title or text(request, "display_name")
        suggested = objects(request, "permission_suggestions")
        options = tuple(_suggestion(number, update) for number, update in enumerate(suggested))
        return [replace(ask, args=tool_input, title=title, reason=text(request, "decision_reason"), options=options)]
    asks = [_question(ask, question) for question in questions]
    return [replace(one, ask=f"{id}#{number}") for number, one in enumerate(asks, 1)] if len(asks) > 1 else asks


def _subject(name: str, tool_input: Object) -> str:
    """What a call is about: its command or its path. The description is the model's own, and may hide it."""
    subject = next(
        (text(tool_input, key) for key in ("command", "file_path", "path", "url") if text(tool_input, key)), ""
    )
    return f"{name}: {subject}" if subject else ""


def _question(ask: Ask, question: Object) -> Ask:
    """The wire answers with the label of a choice, so the label is the id of the option."""
    labels = [(text(row, "label"), text(row, "description")) for row in objects(question, "options")]
    options = tuple(Option(label, label, description) for label, description in labels if label)
    kind: Literal["choice", "text"] = "choice" if options else "text"
    multiple = question.get("multiSelect") is True
    return replace(ask, kind=kind, title=text(question, "question"), options=options, multiple=multiple)


def _suggestion(number: int, update: Object) -> Option:
    rules = [f"{text(rule, 'toolName')}({text(rule, 'ruleContent')})" for rule in objects(update, "rules")]
    what = ", ".join((*rules, *words(update, "directories"))) or text(update, "mode")
    return Option(str(number), f"{text(update, 'type')}: {what}", text(update, "destination"), "allow_always")


def _elicitation_asks(id: str, request: Object) -> list[Ask]:
    title, schema = text(request, "message"), inner(request, "requested_schema")
    fields = inner(schema, "properties")
    if text(request, "mode") == "url" or text(request, "url"):
        return [Ask(id, "url", title=title, args={"url": text(request, "url")})]
    match list(fields.values()):
        case [{"type": "boolean"}]:
            return [Ask(id, "confirm", title=title)]
        case [{"type": "string", "enum": [*_]} as field]:
            return [Ask(id, "choice", title=title, options=_choices(field))]
        case [{"type": "array", "items": {"enum": [*_]} as field}]:
            return [Ask(id, "choice", title=title, options=_choices(field), multiple=True)]
        case [{"type": "string"} as field]:
            return [Ask(id, "text", title=title, default=text(field, "default"))]
        case _:
            return [Ask(id, "form", title=title, args=schema)]


def _choices(field: Object) -> tuple[Option, ...]:
    ids = words(field, "enum")
    labels = words(field, "enumNames")
    return tuple(Option(id, label) for id, label in zip(ids, labels if len(labels) == len(ids) else ids, strict=True))


# Answers to payloads.


def _payload(pending: _Pending, answer: Answer, ask: Ask) -> Object:
    request = pending.request
    if text(request, "subtype") == "elicitation":
        return _elicitation(request, answer, ask)
    if answer.verdict != "allow":
        no = {"behavior": "deny", "message": answer.reason or ("denied" if answer.verdict == "deny" else "cancelled")}
        return {**no, "interrupt": True} if answer.interrupt else no
    tool_input = answer.args if answer.args is not None else inner(request, "input")
    if ask.kind != "permission":
        tool_input = {
            **tool_input,
            "answers": {one.title: _answer_text(pending.answers[id]) for id, one in pending.asks.items()},
        }
        return {"behavior": "allow", "updatedInput": tool_input}
    updates = _updates(answer, ask, objects(request, "permission_suggestions"))
    # Older engines take no answer without it.
    return {"behavior": "allow", "updatedInput": tool_input} | ({"updatedPermissions": updates} if updates else {})


def _answer_text(answer: Answer) -> str:
    chosen = answer.value if isinstance(answer.value, list | tuple) else [answer.value]
    return ", ".join(str(one) for one in chosen if one is not None)


def _updates(answer: Answer, ask: Ask, suggested: list[Object]) -> list[Object]:
    """Permission updates: the suggestion that was chosen, and the rule of the answer."""
    chosen = [update for number, update in enumerate(suggested) if str(number) == answer.value]
    if answer.always is None:
        return chosen
    rules = [rule_of(answer.always, ask.name)]
    update = {"type": "addRules", "rules": rules, "behavior": answer.always.effect, "destination": "session"}
    return [*chosen, update]


def rule_of(rule: Rule, tool: str) -> Object:
    """A rule as the wire writes it, never wider than what was granted. The wire has no categories, so a rule for a
    category becomes one for this tool.
    """
    match rule.kind:
        case "category":
            entry = written(Rule("tool", tool))
        case "domain":
            entry = written(replace(rule, tool=rule.tool or "WebFetch"))
        case _:
            entry = written(rule)
    return {key: value for key, value in entry.items() if key != "behavior"}


def _elicitation(request: Object, answer: Answer, ask: Ask) -> Object:
    action: Object = {"action": _ACTIONS[answer.verdict]}
    if answer.verdict != "allow" or ask.kind == "url":
        return action
    content: Any = answer.value
    if ask.kind != "form":
        field = next(iter(inner(inner(request, "requested_schema"), "properties")))
        content = {field: True if ask.kind == "confirm" and answer.value is None else answer.value}
    return {**action, "content": content}
