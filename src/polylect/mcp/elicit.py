"""A server's question to the person (elicitation), as an ask, and the answer as the server wants it."""

from typing import Any

import msgspec

from polylect.vocab.commands import Answer
from polylect.vocab.content import Option
from polylect.vocab.events import Ask

Action = tuple[str, dict[str, Any] | None]
"""What the protocol calls it (accept, decline, cancel), and the content of a form that was filled in."""


def question(server: str, message: str, schema: dict[str, Any]) -> Ask:
    """A form with one plain field is asked in plain words, which every host can show."""
    told: dict[str, Any] = {"name": server, "category": "mcp", "reason": f"The MCP server {server} asks."}
    title = f"{server}: {message}"
    field = _only_field(schema)
    match field and field[1]:
        case {"type": "string", "enum": [*values]}:
            labels = field[1].get("enumNames") or values if field else values
            options = tuple(Option(str(value), str(label)) for value, label in zip(values, labels, strict=False))
            return Ask("", "choice", title=title, options=options, **told)
        case {"type": "string", **rest} if not rest.keys() & {"oneOf", "format", "pattern"}:
            return Ask("", "text", title=title, default=str(rest.get("default", "")), **told)
        case _ if not schema.get("properties"):
            return Ask("", "confirm", title=title, **told)
        case _:
            return Ask("", "form", title=title, args=schema, **told)


def address(server: str, message: str, url: str) -> Ask:
    """The person has to see all of the address before it is opened."""
    told = f"The MCP server {server} wants a page to be opened: {url}"
    return Ask("", "url", name=server, category="mcp", title=f"{server}: {message}", args={"url": url}, reason=told)


def action(ask: Ask, schema: dict[str, Any], answer: Answer) -> Action:
    """What the server is told. A yes that leaves out what is required is no yes."""
    match answer.verdict:
        case "deny":
            return "decline", None
        case "cancelled":
            return "cancel", None
    if ask.kind == "url":
        return "accept", None
    content = _content(ask, schema, answer.value)
    if content is None or not set(schema.get("required") or ()) <= content.keys():
        return "decline", None
    return "accept", content


def _content(ask: Ask, schema: dict[str, Any], value: Any) -> dict[str, Any] | None:
    field = _only_field(schema)
    match value:
        case dict():
            return {key: item for key, item in value.items() if key in schema.get("properties", {})}
        case str() if field and ask.kind in ("choice", "text"):
            return {field[0]: _value(ask, value)}
        case [str(only)] if field and ask.kind == "choice":
            return {field[0]: _value(ask, only)}
        case str():
            return _object(value)
        case _:
            return {}


def _value(ask: Ask, told: str) -> str:
    """Some wires answer with the label of an option instead of its id."""
    return next((option.id for option in ask.options if told in (option.id, option.label)), told)


def _object(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None


def _only_field(schema: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    fields = schema.get("properties")
    if not isinstance(fields, dict) or len(fields) != 1:
        return None
    name, field = next(iter(fields.items()))
    return (name, field) if isinstance(field, dict) else None
