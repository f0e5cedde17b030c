"""Asks that are not about permission: choices, texts, confirmations, forms and links.

An ask of a running call becomes the input of an `AskUserQuestion` call (`as_input`, `answered`), because hosts show
that to a person. An ask without a call, as MCP servers make them, becomes an `elicitation` (`elicitation`,
`elicited`). `asks` is the caller.
"""

from typing import Any

from polylect.dialects.claude.frames import control
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option
from polylect.vocab.events import Ask

QUESTION = "AskUserQuestion"
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_FIELD = "answer"


def as_input(ask: Ask) -> dict[str, Any]:
    options = _YES_NO if ask.kind == "confirm" else ask.options
    question = {
        "question": ask.title,
        "header": ask.title[:12],
        "options": [{"label": option.label, "description": option.description} for option in options],
        "multiSelect": ask.multiple,
    }
    return {"questions": [question]}


def answered(ask: Ask, new_input: dict[str, Any] | None) -> Answer:
    """The answer in `updatedInput.answers`: the chosen label, several labels joined by commas, or free text."""
    answers = (new_input or {}).get("answers")
    answer = answers.get(ask.title, next(iter(answers.values()), "")) if isinstance(answers, dict) else ""
    words = [str(one) for one in answer] if isinstance(answer, list) else [str(answer or ask.default)]
    if ask.kind == "confirm":
        yes = words[0].lower() not in ("no", "false")
        return Answer(ask.ask, "allow" if yes else "deny", value=yes)
    ids = {option.label: option.id for option in ask.options}
    if ask.multiple and not isinstance(answer, list) and words[0] not in ids:
        words = words[0].split(", ")
    chosen = [ids.get(word, word) for word in words]
    return Answer(ask.ask, "allow", value=chosen if ask.multiple else chosen[0])


# Without a call.


def elicitation(ask: Ask) -> control.Elicitation:
    if ask.kind == "url":
        url = str(ask.args.get("url") or ask.default)
        return control.Elicitation(mcp_server_name=ask.name, message=ask.title, mode="url", url=url)
    schema = ask.args if ask.kind == "form" else _schema(ask)
    return control.Elicitation(mcp_server_name=ask.name, message=ask.title, mode="form", requested_schema=schema)


def _schema(ask: Ask) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "boolean" if ask.kind == "confirm" else "string"}
    if ask.options:
        field |= {"enum": [one.id for one in ask.options], "enumNames": [one.label for one in ask.options]}
    if ask.multiple:
        field = {"type": "array", "items": field}
    if ask.default:
        field["default"] = ask.default
    return {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}


def elicited(ask: Ask, payload: dict[str, Any]) -> Answer:
    content = payload.get("content")
    match payload.get("action"):
        case "accept" if ask.kind in ("form", "url"):
            return Answer(ask.ask, "allow", value=content)
        case "accept":
            value = content.get(_FIELD) if isinstance(content, dict) else None
            refused = ask.kind == "confirm" and value is False
            return Answer(ask.ask, "deny" if refused else "allow", value=value)
        case "decline":
            return Answer(ask.ask, "deny", reason=str(payload.get("message") or ""))
        case _:
            return Answer(ask.ask, "cancelled")
