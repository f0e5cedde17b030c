"""A server's question is asked in the plainest form that holds it, and only a whole yes is a yes (A1)."""

from pathlib import Path
from typing import Any

import pytest

from doubles_mcp import CallContext, Stage, on_stage, script
from polylect.mcp.elicit import Action, elicitation_result, form_ask, url_ask
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


TEXT = form(name={"type": "string"})
COLOUR = form(colour={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]})
TWO = form(name={"type": "string"}, age={"type": "integer"})
MAIL = form(mail={"type": "string", "format": "email"})
FILLED = form(name={"type": "string", "default": "Ada"}, age={"type": "integer", "default": 36})
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "kind"), [(TEXT, "text"), (COLOUR, "choice"), (TWO, "form"), (MAIL, "form"), (NOTHING, "confirm")]
)
def test_a_question_has_the_plainest_kind(schema: dict[str, Any], kind: str) -> None:
    ask = form_ask("shop", "Well?", schema)
    assert (ask.kind, ask.title, ask.category) == (kind, "shop: Well?", "mcp")
    assert ask.args == (schema if kind == "form" else {})


def test_a_choice_has_ids_and_labels() -> None:
    assert form_ask("shop", "Well?", COLOUR).options == (Option("r", "Red"), Option("g", "Green"))


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        (TEXT, Answer("", "allow", "Ada"), ("accept", {"name": "Ada"})),
        (FILLED, Answer("", "allow", {}), ("accept", {"name": "Ada", "age": 36})),
        (FILLED, Answer("", "allow", {"age": 5}), ("accept", {"name": "Ada", "age": 5})),
        (FILLED, Answer("", "allow", "no form"), ("decline", None)),
        (COLOUR, Answer("", "allow", "g"), ("accept", {"colour": "g"})),
        (COLOUR, Answer("", "allow", "Green"), ("accept", {"colour": "g"})),
        (COLOUR, Answer("", "allow", ["Red"]), ("accept", {"colour": "r"})),
        (TWO, Answer("", "allow", {"name": "Ada", "age": 36, "x": 1}), ("accept", {"name": "Ada", "age": 36})),
        (TWO, Answer("", "allow", '{"name": "Ada", "age": 36}'), ("accept", {"name": "Ada", "age": 36})),
        (TWO, Answer("", "allow", {"name": "Ada"}), ("decline", None)),
        (TWO, Answer("", "allow", "yes"), ("decline", None)),
        (TWO, Answer("", "allow"), ("decline", None)),
        (TEXT, Answer("", "deny", "Ada"), ("decline", None)),
        (TEXT, Answer("", "cancelled"), ("cancel", None)),
        (NOTHING, Answer("", "allow"), ("accept", {})),
    ],
)
def test_an_answer_is_told_as_the_protocol_wants_it(schema: dict[str, Any], answer: Answer, expected: Action) -> None:
    assert elicitation_result(form_ask("shop", "Well?", schema), schema, answer) == expected


def test_a_page_to_open_is_shown_whole_and_has_no_content() -> None:
    url = "https://login.example/?state=" + "x" * 300
    ask = url_ask("shop", "Log in", url)
    assert (ask.kind, ask.args) == ("url", {"url": url})
    assert url in ask.reason
    assert elicitation_result(ask, {}, Answer("", "allow", {"a": 1})) == ("accept", None)


@pytest.mark.parametrize(("verdict", "output"), [("allow", '{"a": 1}'), ("deny", "MCP server plain: Log in first")])
def test_a_call_that_needs_a_page_to_be_opened_is_made_again(tmp_path: Path, verdict: Any, output: str) -> None:
    """Requirement 71."""

    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "NeedsPages", server="plain"))
        await stage.received("plain")
        context = CallContext(tmp_path, [Answer("", verdict)])
        assert (await stage.call("echo", {"a": 1}, context)).output == output
        [question] = context.questions
        assert (question.kind, question.args) == ("url", {"url": "https://a.example/login"})

    on_stage(tmp_path, work)
