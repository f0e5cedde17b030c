"""AskUserQuestion: what the person says is what the model is told."""

from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext, use
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option

TWO = [{"label": "Red", "description": "warm"}, {"label": "Blue", "preview": "ignored"}]


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    return FolderContext(tmp_path)


@pytest.mark.parametrize(
    ("value", "words"),
    [("Red", "Red"), ("neither, green", "neither, green"), (["Red", "Blue"], "Red, Blue"), (["Red"], "Red"), (7, "7")],
)
def test_the_answer_is_the_output(context: FolderContext, value: Any, words: str) -> None:
    context.answers = [Answer("", "allow", value=value)]
    result = use(context, "AskUserQuestion", question="Which?", options=TWO, header="Colour")
    assert (result.ok, result.output) == (True, words)
    (ask,) = context.questions
    assert (ask.kind, ask.name, ask.category, ask.title) == ("choice", "AskUserQuestion", "info", "Which?")
    assert ask.options == (Option("Red", "Red", "warm"), Option("Blue", "Blue"))
    assert not ask.multiple
    assert ask.args == {
        "question": "Which?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": ""}],
        "header": "Colour",
        "multiSelect": False,
    }


def test_without_options_it_asks_for_words_and_with_several_choices_for_many(context: FolderContext) -> None:
    context.answers = [Answer("", "allow", value="x"), Answer("", "allow", value="x")]
    use(context, "AskUserQuestion", question="Name?")
    use(context, "AskUserQuestion", question="Which?", options=TWO, multiSelect=True)
    assert [(ask.kind, ask.multiple) for ask in context.questions] == [("text", False), ("choice", True)]


def test_several_questions_are_asked_in_order(context: FolderContext) -> None:
    context.answers = [Answer("", "allow", value="Red"), Answer("", "allow", value="Bob")]
    questions = [{"question": "Which?", "options": TWO, "multiSelect": False}, {"question": "Who?"}]
    result = use(context, "AskUserQuestion", questions=questions)
    assert (result.ok, result.output) == (True, "Which?: Red\nWho?: Bob")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("", "deny", reason="busy"), "The person did not answer: busy. Go on"),
        (Answer("", "cancelled"), "The person did not answer. Go on"),
        (Answer("", "allow"), "The question 'Which?' got an empty answer."),
        (Answer("", "allow", value=[]), "The question 'Which?' got an empty answer."),
    ],
)
def test_anything_but_an_answer_is_said(context: FolderContext, answer: Answer, words: str) -> None:
    context.answers = [answer]
    result = use(context, "AskUserQuestion", question="Which?", options=TWO)
    assert not result.ok
    assert result.output.startswith(words)


def test_after_a_no_the_others_are_not_asked_and_what_was_answered_stays(context: FolderContext) -> None:
    context.answers = [Answer("", "allow", value="Red"), Answer("", "deny"), Answer("", "allow", value="never")]
    result = use(context, "AskUserQuestion", questions=[{"question": word} for word in ("A?", "B?", "C?")])
    assert result.output.startswith("A?: Red\nThe person did not answer.")
    assert len(context.questions) == 2


def test_what_was_answered_stays_also_after_a_yes_without_an_answer(context: FolderContext) -> None:
    context.answers = [Answer("", "allow", value="Red"), Answer("", "allow", value="")]
    result = use(context, "AskUserQuestion", questions=[{"question": word} for word in ("A?", "B?", "C?")])
    assert (result.ok, result.output.split("\n")[0]) == (False, "A?: Red")
    assert result.output.endswith("The question 'B?' got an empty answer. Ask in plain words instead.")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "Missing required parameter: question"),
        ({"question": "Which?", "options": [TWO[0], TWO[0]]}, "Two options of 'Which?' have the same label"),
        ({"question": "Which?", "options": [{"label": ""}]}, "Wrong parameter: Expected `str` of length >= 1"),
        ({"question": "Which?", "options": ["Red"]}, "Wrong parameter: Expected `object`, got `str`"),
    ],
)
def test_nobody_is_asked_what_cannot_be_answered(context: FolderContext, args: dict[str, Any], words: str) -> None:
    result = use(context, "AskUserQuestion", **args)
    assert not result.ok
    assert result.output.startswith(words), result.output
    assert not context.questions
