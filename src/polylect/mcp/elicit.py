"""Translates an elicitation (a question of an MCP server to the person) to an `Ask`, and the `Answer` back.

A host may not be able to show a form. So a schema with one plain field becomes the simplest kind of ask:

    {"properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}    a choice of two options
    {"properties": {"name": {"type": "string"}}}                               a line of text
    {}                                                                          yes or no
    anything else                                                               a form, with the schema as it is

Fields that the answer leaves out get their default. Only an answer that then has every required field is an acceptance.
Called by `connection.py`.
"""

from typing import Any

import msgspec

from polylect.vocab.commands import Answer
from polylect.vocab.content import Option
from polylect.vocab.events import Ask

Action = tuple[str, dict[str, Any] | None]
"""The action of the protocol (accept, decline, cancel), and the content of a form that was filled in."""


def form_ask(server: str, message: str, schema: dict[str, Any]) -> Ask:
    """The ask for a form: of the simplest kind that its schema allows."""
    common: dict[str, Any] = {"name": server, "category": "mcp", "reason": f"The MCP server {server} asks."}
    title = f"{server}: {message}"
    field = _only_field(schema)
    match field and field[1]:
        case {"type": "string", "enum": [*values]}:
            labels = field[1].get("enumNames") or values if field else values
            options = tuple(Option(str(value), str(label)) for value, label in zip(values, labels, strict=False))
            return Ask("", "choice", title=title, options=options, **common)
        case {"type": "string", **rest} if not rest.keys() & {"oneOf", "format", "pattern"}:
            return Ask("", "text", title=title, default=str(rest.get("default", "")), **common)
        case _ if not schema.get("properties"):
            return Ask("", "confirm", title=title, **common)
        case _:
            return Ask("", "form", title=title, args=schema, **common)


def url_ask(server: str, message: str, url: str) -> Ask:
    """The ask to open a page. It shows the whole address, because the person decides by it."""
    reason = f"The MCP server {server} wants a page to be opened: {url}"
    return Ask("", "url", name=server, category="mcp", title=f"{server}: {message}", args={"url": url}, reason=reason)


def elicitation_result(ask: Ask, schema: dict[str, Any], answer: Answer) -> Action:
    """The result for the server. An acceptance that lacks a required field counts as declined."""
    match answer.verdict:
        case "deny":
            return "decline", None
        case "cancelled":
            return "cancel", None
    if ask.kind == "url":
        return "accept", None
    content = _content(ask, schema, answer.value)
    if content is None or not set(schema.get("required") or ()) <= (content := _defaults(schema) | content).keys():
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


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The values of fields that the person left as the server had proposed them."""
    match schema.get("properties"):
        case dict() as fields:
            return {name: one["default"] for name, one in fields.items() if isinstance(one, dict) and "default" in one}
        case _:
            return {}


def _value(ask: Ask, answer: str) -> str:
    """Some wires answer with the label of an option instead of its id."""
    return next((option.id for option in ask.options if answer in (option.id, option.label)), answer)


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
