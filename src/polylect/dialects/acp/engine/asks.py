"""Questions to the person: permission for calls, and forms and addresses (elicitation) for everything else.

    Ask("permission")                    -> session/request_permission, with the whole call and our options
    Ask("choice", "text", "confirm" ...) -> elicitation/create, or cancelled if the client has no such mode
    the answer of the client             -> Answer
    AskClosed                            -> $/cancel_request, if the client has not answered

Only a known option that allows, allows (A1): an error, a dismissed dialog and an unknown option are a no. What
`always` means is in the name of its option. The codec is the caller.
"""

from typing import Any

from msgspec.structs import replace

from polylect.dialects.acp.engine import tool_calls
from polylect.dialects.acp.engine.connection import Connection
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.frames.agent import CreateElicitation, PermissionOption, RequestPermission
from polylect.dialects.acp.frames.own_meta import own_meta, read_own
from polylect.dialects.choices import decides
from polylect.vocab.commands import Answer, Command
from polylect.vocab.content import Option, Rule
from polylect.vocab.events import Ask
from polylect.vocab.tool_names import EXIT_PLAN
from polylect.wire.jsonrpc import Response

_FIELD = "answer"
"""The one property of the form for a question that has one answer."""
_LONGEST_RULE = 200
_NAMED = 80
"""Characters of a command that a rule may have, and that the name of an option shows."""


class PendingAsks:
    """The questions of all sessions that the client has not answered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[tuple[str, str], tuple[int, str]] = {}
        """By session and ask: the id of our request, and the turn."""

    def ask(self, ask: Ask, session: str, writer: SessionWriter) -> list[Command]:
        """Ask the client. `session` is the one that the answer is for, `writer` that of the agent that asks."""
        if ask.kind == "permission":
            return self._ask_permission(ask, session, writer)
        client, url = self._connection.client, ask.kind == "url"
        if not (client.urls if url else client.forms):
            why = f"The client cannot show questions: it has no elicitation.{'url' if url else 'form'}"
            return [Answer(ask.ask, "cancelled", reason=why, session=session)]
        self._send(ask, session, writer, "elicitation/create", _elicitation(ask, writer.id))
        return []

    def close(self, session: str, ask: str) -> None:
        """The question needs no answer any more."""
        if pending := self._open.pop((session, ask), None):
            self._connection.withdraw(pending[0])

    def close_all(self, session: str, turn: str | None = None) -> None:
        """Withdraw the questions of a session, or only those of a turn of it."""
        for (of, ask), (_, in_turn) in list(self._open.items()):
            if of == session and turn in (None, in_turn):
                self.close(of, ask)

    def _ask_permission(self, ask: Ask, session: str, writer: SessionWriter) -> list[Command]:
        options = _options(ask)
        request = RequestPermission(
            session_id=writer.id,
            tool_call=tool_calls.asked(ask, writer.cwd),
            options=[PermissionOption(option_id=one.id, name=one.label, kind=one.kind) for one in options],
            meta=own_meta(category=ask.category, reason=ask.reason, timeout_ms=ask.timeout_ms),
        )
        self._send(ask, session, writer, "session/request_permission", request)
        return []

    def _send(self, ask: Ask, session: str, writer: SessionWriter, method: str, params: object) -> None:
        def answered(response: Response) -> list[Command]:
            self._open.pop((session, ask.ask), None)
            answer = _verdict(ask, response) if ask.kind == "permission" else _elicited(ask, response)
            return [replace(answer, session=session)]

        id = self._connection.request(method, params, answered, writer.out)
        self._open[session, ask.ask] = id, ask.turn


# Permission.


def _options(ask: Ask) -> tuple[Option, ...]:
    """The choices: those of the ask if they are of this wire, else ours. There is always a plain yes and a plain no."""
    if decides(ask.options):
        return ask.options
    rule, what = _rule(ask)
    once = Option("allow_once", "Allow", kind="allow_once"), Option("reject_once", "Reject", kind="reject_once")
    if rule is None:
        return once
    always = Option("allow_always", f"Always allow {what} in this session", kind="allow_always")
    never = Option("reject_always", f"Always reject {what} in this session", kind="reject_always")
    return once[0], always, once[1], never


def _rule(ask: Ask) -> tuple[Rule | None, str]:
    """The rule that would make this ask unnecessary, and what it is about in words; None if there is none."""
    command = ask.args.get("command")
    match ask.category:
        case _ if ask.name == EXIT_PLAN or not ask.name:
            return None, ""
        case "edit":
            return Rule("category", "edit"), "edits of files in the workspace"
        case _ if ask.name != "Bash":
            return Rule("tool", ask.name), f"the tool {ask.name}"
    text = command.strip(" \t\n") if isinstance(command, str) else ""
    if not 0 < len(text) <= _LONGEST_RULE:
        return None, ""
    shown = text if len(text) <= _NAMED else f"{text[:_NAMED]}..."
    return Rule("command", text, tool="Bash"), f"exactly `{' '.join(shown.split())}`"


def _verdict(ask: Ask, response: Response) -> Answer:
    if response.error:
        return Answer(ask.ask, "deny", reason=f"The client failed to ask: {response.error.message}")
    result = response.result if isinstance(response.result, dict) else {}
    match result.get("outcome"):
        case {"outcome": "selected", "optionId": str(id)}:
            chosen = next((option for option in _options(ask) if option.id == id), None)
        case {"outcome": "cancelled"}:
            return Answer(ask.ask, "cancelled")
        case _:
            chosen = None
    if chosen is None:
        return Answer(ask.ask, "deny", reason="The client has chosen an option that was not offered")
    own = read_own(result.get("_meta"))
    reason, args = own.get("reason"), own.get("args")
    rule = _rule(ask)[0] if chosen.kind.endswith("_always") else None
    if chosen.kind.startswith("reject_"):
        return Answer(
            ask.ask,
            "deny",
            value=chosen.id if ask.options else None,
            reason=reason if isinstance(reason, str) else "",
            always=replace(rule, effect="deny") if rule else None,
            interrupt=own.get("interrupt") is True,
        )
    changed = args if isinstance(args, dict) else None
    return Answer(ask.ask, "allow", value=chosen.id if ask.options else None, args=changed, always=rule)


# Other questions.


def _elicitation(ask: Ask, session: str) -> CreateElicitation:
    meta = own_meta(
        kind=ask.kind,
        reason=ask.reason,
        options=[{"id": one.id, "label": one.label, "description": one.description} for one in ask.options],
        multiple=ask.multiple,
        default=ask.default,
        timeout_ms=ask.timeout_ms,
    )
    call, message = ask.call or None, ask.title or ask.reason or "A question"
    if ask.kind == "url":
        url = str(ask.args.get("url") or ask.default)
        return CreateElicitation(
            message=message,
            mode="url",
            session_id=session,
            tool_call_id=call,
            elicitation_id=ask.ask,
            url=url,
            meta=meta,
        )
    schema = ask.args if ask.kind == "form" else _schema(ask)
    return CreateElicitation(
        message=message, mode="form", session_id=session, tool_call_id=call, requested_schema=schema, meta=meta
    )


def _schema(ask: Ask) -> dict[str, Any]:
    """The form for a question with one answer."""
    title = {"title": ask.title} if ask.title else {}
    field: dict[str, Any] = {"type": "boolean" if ask.kind == "confirm" else "string", **title}
    rows = [_choice(option) for option in ask.options]
    if ask.multiple:
        field = {"type": "array", **title, "items": {"anyOf": rows}}
    elif rows:
        field["oneOf"] = rows
    if ask.default and ask.kind != "confirm":
        field["default"] = [ask.default] if ask.multiple else ask.default
    return {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}


def _choice(option: Option) -> dict[str, str]:
    described = {"description": option.description} if option.description else {}
    return {"const": option.id, "title": option.label, **described}


def _elicited(ask: Ask, response: Response) -> Answer:
    result = response.result if isinstance(response.result, dict) else {}
    content = result.get("content")
    match "cancel" if response.error else result.get("action"):
        case "accept" if ask.kind in ("form", "url"):
            return Answer(ask.ask, "allow", value=content)
        case "accept":
            value = content.get(_FIELD) if isinstance(content, dict) else None
            return Answer(ask.ask, "deny" if ask.kind == "confirm" and value is False else "allow", value=value)
        case "decline":
            return Answer(ask.ask, "deny")
        case _:
            return Answer(ask.ask, "cancelled")
