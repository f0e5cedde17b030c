"""Requests of the agent that a person answers: `session/request_permission` and `elicitation/create`, as asks.

A form with one field becomes a choice, a text or a yes-or-no question; claude adds a second field for an answer in
own words. Everything else stays a form with its schema. Each request is answered once: by the person, by the end of
the turn, or because the agent has withdrawn it.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.acp.frames import agent as shapes
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.acp.frames.own_meta import own_meta, read_own
from polylect.dialects.acp.host.content import call_output
from polylect.dialects.acp.host.tool_calls import Call
from polylect.dialects.acp.versions import CANCELLED
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object, inner, objects, text, whole, words
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option
from polylect.vocab.events import Ask, AskClosed
from polylect.wire import jsonrpc

_KINDS = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always")}
_YES = ("allow", "approve", "accept", "yes", "proceed", "grant", "run", "trust")
_NO = ("reject", "deny", "no", "cancel", "decline", "refuse", "abort", "stop")
_ACTIONS = {"allow": "accept", "deny": "decline", "cancelled": "cancel"}
_CANCELLED = shapes.PermissionAnswer(outcome=shapes.Outcome(outcome="cancelled"))


class Pending(Struct, frozen=True):
    """A request that waits for its answer. `schema` is that of a form, `id` that of a link to open."""

    request: jsonrpc.Id
    ask: Ask
    schema: Object = {}
    id: str = ""


class PendingAsks:
    """The questions that are open.

    Args:
        result, error: Write the answer to a request.
    """

    def __init__(
        self, result: Callable[[jsonrpc.Id, Shape], None], error: Callable[[jsonrpc.Id, jsonrpc.Error], None]
    ) -> None:
        self._result, self._error = result, error
        self._pending: dict[str, Pending] = {}

    def open(self, pending: Pending) -> None:
        self._pending[pending.ask.ask] = pending

    def name(self, request: jsonrpc.Id, new_id: Callable[[], str]) -> str:
        """The id of the ask for a request: that of the request, unless an open ask has it."""
        return new_id() if str(request) in self._pending else str(request)

    def answer(self, answer: Answer, *, ours: bool) -> AskClosed:
        """Answers a request. Raises Refusal for an answer that cannot be expressed, and leaves the question open.

        `ours`: the agent is polylect, which is told more than the wire has words for.
        """
        pending = self._pending.get(answer.ask)
        if pending is None:
            raise Refusal(f"no ask {answer.ask!r} waits for an answer", "unknown_ask")
        if answer.args is not None and answer.args != pending.ask.args and not ours:
            raise Refusal("this wire has no word for other arguments: deny the call, and say what to do instead")
        if pending.ask.kind == "permission":
            own = own_meta(reason=answer.reason, args=answer.args, interrupt=answer.interrupt) if ours else None
            self._result(pending.request, replace(_permission(pending.ask, answer), meta=own))
        else:
            self._result(pending.request, _elicitation(pending, answer))
        del self._pending[answer.ask]
        return _closed(pending.ask, answer)

    def get(self, ask: str) -> Ask | None:
        pending = self._pending.get(ask)
        return pending.ask if pending else None

    def cancel(self, session: str, call: str = "") -> list[AskClosed]:
        """Answers what a session, or one of its calls, has asked: the turn was cancelled or is over."""
        chosen = [one for one in self._pending.values() if one.ask.session == session and call in ("", one.ask.call)]
        return [self._cancel(one) for one in chosen]

    def withdrawn(self, request: jsonrpc.Id) -> AskClosed | None:
        """The agent no longer wants this answered; it still gets its one answer."""
        pending = next((one for one in self._pending.values() if one.request == request), None)
        return self._cancel(pending) if pending else None

    def completed(self, elicitation: str) -> AskClosed | None:
        """What a link was for is done; a question that is still open needs no answer any more."""
        pending = next((one for one in self._pending.values() if one.id == elicitation and elicitation), None)
        if pending is None:
            return None
        del self._pending[pending.ask.ask]
        self._result(pending.request, shapes.ElicitationAnswer(action="accept"))
        return replace(_no_answer(pending.ask), how="answered")

    def forget(self, request: jsonrpc.Id) -> AskClosed | None:
        """Somebody else has answered this request."""
        pending = next((one for one in self._pending.values() if one.request == request), None)
        if pending is None:
            return None
        del self._pending[pending.ask.ask]
        return _no_answer(pending.ask)

    def _cancel(self, pending: Pending) -> AskClosed:
        del self._pending[pending.ask.ask]
        if pending.ask.kind == "permission":
            self._result(pending.request, _CANCELLED)
        else:
            self._error(pending.request, jsonrpc.Error(CANCELLED, "The request was cancelled"))
        return _no_answer(pending.ask)


def _no_answer(ask: Ask) -> AskClosed:
    return AskClosed(ask.ask, "cancelled", turn=ask.turn, agent=ask.agent, session=ask.session)


def _closed(ask: Ask, answer: Answer) -> AskClosed:
    how: Literal["allowed", "denied", "answered", "cancelled"] = "cancelled"
    if answer.verdict == "allow":
        how = "allowed" if ask.kind == "permission" else "answered"
    elif answer.verdict == "deny":
        how = "denied"
    return AskClosed(ask.ask, how, answer.reason, turn=ask.turn, agent=ask.agent, session=ask.session)


# Permissions.


def permission(ask: str, params: Object, call: Call) -> Ask:
    """The question whether a call may run. What the agent shows beside it may be all that says what would run."""
    options = tuple(_option(row) for row in objects(params, "options") if text(row, "optionId"))
    title = text(params, "title") or call.title or call.tool
    own = read_own(params.get("_meta"))
    question = Ask(ask, call=call.id, name=call.tool, args=call.args, category=call.category, title=title)
    shown = "" if own else text(params, "description") or call_output(call.content, None)
    return _with_own(replace(question, options=options), {"reason": shown, **own})


def _option(row: Object) -> Option:
    id, name, kind = text(row, "optionId"), text(row, "name"), text(row, "kind")
    if kind not in (*_KINDS["allow"], *_KINDS["deny"]):
        first = (name or id).replace("_", " ").replace("-", " ").split(" ")[0].rstrip(",.").lower()
        kind = "allow_once" if first in _YES else "reject_once" if first in _NO else ""
    return Option(id, name, kind=kind)


def _permission(ask: Ask, answer: Answer) -> shapes.PermissionAnswer:
    """The chosen option: the one that the answer names, else the first of the kind that fits."""
    kinds = _KINDS.get(answer.verdict, ())
    fitting = [option for option in ask.options if option.kind in kinds]
    named = [option for option in fitting if answer.value in (option.id, option.label) and answer.value]
    order = kinds[::-1] if answer.always is not None else kinds
    chosen = next(iter(named), None) or next(
        (option for kind in order for option in fitting if option.kind == kind), None
    )
    if chosen is None:
        return _CANCELLED
    return shapes.PermissionAnswer(outcome=shapes.Outcome(outcome="selected", option_id=chosen.id))


# Questions.


def elicitation(ask: str, params: Object) -> Ask | None:
    """The question of an `elicitation/create`; None for a mode that is not known here."""
    title, call = text(params, "message"), text(params, "toolCallId")
    match text(params, "mode"):
        case "url":
            return Ask(ask, "url", call, title=title, args={"url": text(params, "url")})
        case "form":
            form = replace(_form(ask, inner(params, "requestedSchema")), title=title, call=call)
            return _with_own(form, read_own(params.get("_meta")))
    return None


def _with_own(ask: Ask, own: Object) -> Ask:
    """The question with what polylect adds to it."""
    return replace(ask, reason=text(own, "reason"), timeout_ms=whole(own, "timeout_ms"))


def _form(ask: str, schema: Object) -> Ask:
    match _main_fields(schema):
        case [(_, {"type": "boolean"})]:
            return Ask(ask, "confirm")
        case [(_, {"type": "string"} as field)] if options := _choices(field, "oneOf"):
            return Ask(ask, "choice", options=options, default=text(field, "default"))
        case [(_, {"type": "array"} as field)] if options := _choices(inner(field, "items"), "anyOf"):
            return Ask(ask, "choice", options=options, multiple=True, default=", ".join(words(field, "default")))
        case [(_, {"type": "string"} as field)]:
            return Ask(ask, "text", default=text(field, "default"))
    return Ask(ask, "form", args=schema)


def _main_fields(schema: Object) -> list[tuple[str, Object]]:
    """The fields of a form, without one that only takes other words for the answer to the field before it."""
    fields = [(name, field) for name, field in inner(schema, "properties").items() if isinstance(field, dict)]
    with_own_words = len(fields) == 2 and fields[1][0] == f"{fields[0][0]}_custom"
    return fields[:1] if with_own_words else fields


def _choices(field: Object, key: str) -> tuple[Option, ...]:
    titled = [
        Option(text(row, "const"), text(row, "title") or text(row, "const"), text(row, "description"))
        for row in objects(field, key)
    ]
    ids, labels = words(field, "enum"), words(field, "enumNames")
    plain = zip(ids, labels if len(labels) == len(ids) else ids, strict=True)
    return tuple(titled) or tuple(Option(id, label) for id, label in plain)


def _elicitation(pending: Pending, answer: Answer) -> shapes.ElicitationAnswer:
    action = _ACTIONS[answer.verdict]
    if answer.verdict != "allow" or pending.ask.kind == "url":
        return shapes.ElicitationAnswer(action=action)
    return shapes.ElicitationAnswer(action=action, content=_content(pending, answer.value) or None)


def _content(pending: Pending, value: Any) -> dict[str, Any]:
    """The values of a form for an answer. Raises Refusal for a form that is not answered by an object."""
    ask = pending.ask
    if ask.kind == "form":
        if value is not None and not isinstance(value, dict):
            raise Refusal("the answer to a form is a dict with its values", "bad_answer")
        return value or {}
    fields = list(inner(pending.schema, "properties"))
    if not fields:
        return {}
    if ask.kind == "confirm":
        return {fields[0]: value if isinstance(value, bool) else True}
    if value is None:
        return {}
    chosen = [_id_of(ask, one) for one in (value if isinstance(value, list | tuple) else [value])]
    known = [one for one in chosen if not ask.options or one in {option.id for option in ask.options}]
    own = [one for one in chosen if one not in known]
    if own and len(fields) > 1:
        return {fields[1]: ", ".join(own)} | ({fields[0]: known} if known and ask.multiple else {})
    return {fields[0]: chosen if ask.multiple else ", ".join(chosen)}


def _id_of(ask: Ask, value: object) -> str:
    return next((option.id for option in ask.options if value in (option.id, option.label)), str(value))
