"""AskUserQuestion: the model asks the person one or several questions, with options or free text.

Each question becomes an `Ask`, one after the other. If the person does not answer one, the tool fails with the answers
so far, and tells the model to go on with what it knows.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, text_argument
from polylect.tools.setup import ToolSetup
from polylect.vocab.commands import Answer
from polylect.vocab.content import Category, Option
from polylect.vocab.errors import ToolError
from polylect.vocab.events import Ask
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Asks the person a question and gives you the answer. Use it when what to do depends on a wish or a fact that only they
can know, not for what the files tell. Offer two to four options; the person may also answer in their own words.
Several questions can be asked in one call with `questions`, instead of `question` and `options`."""

MOST_QUESTIONS = 8


class Choice(Struct, frozen=True):
    label: Annotated[str, Meta(min_length=1, description="The answer, in a few words.")]
    description: Annotated[str, Meta(description="What choosing it means.")] = ""


class Question(Struct, frozen=True):
    question: Annotated[str, Meta(min_length=1, description="The question, in full.")]
    options: Annotated[tuple[Choice, ...], Meta(description="What can be answered.")] = ()
    header: Annotated[str, Meta(description="One or two words for it.")] = ""
    multiSelect: Annotated[bool, Meta(description="Several options may be chosen.")] = False  # noqa: N815  (Claude's name of the parameter)


class Arguments(Struct, frozen=True):
    question: Annotated[str, Meta(description="The question, in full.")] = ""
    options: Annotated[tuple[Choice, ...], Meta(description="What can be answered.")] = ()
    header: Annotated[str, Meta(description="One or two words for it.")] = ""
    multiSelect: Annotated[bool, Meta(description="Several options may be chosen.")] = False  # noqa: N815
    questions: Annotated[tuple[Question, ...], Meta(max_length=MOST_QUESTIONS, description="Several, in order.")] = ()


class AskUserQuestion(TypedTool[Arguments]):
    name = "AskUserQuestion"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"ask_user: {' '.join(_first(args).split())[:80]}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        questions = args.questions
        if args.question:
            questions = (Question(args.question, args.options, args.header, args.multiSelect), *questions)
        if not questions:
            raise ToolError("Missing required parameter: question")
        asks = [_ask(question) for question in questions]
        answers: list[str] = []
        for ask in asks:
            answer = await context.ask(ask)
            if answer.verdict != "allow":
                return ToolReturn(_unanswered(answer, answers), ok=False)
            text = _answer_text(answer)
            if not text:
                return ToolReturn(_empty(ask, answers), ok=False)
            answers.append(text if len(asks) == 1 else f"{ask.title}: {text}")
        return ToolReturn("\n".join(answers))


def _first(args: dict[str, Any]) -> str:
    """The first question, from unchecked arguments."""
    several = args.get("questions")
    if not text_argument(args, "question") and isinstance(several, list) and several and isinstance(several[0], dict):
        return text_argument(several[0], "question")
    return text_argument(args, "question")


def _ask(question: Question) -> Ask:
    labels = [option.label for option in question.options]
    if len(set(labels)) < len(labels):
        raise ToolError(f"Two options of {question.question!r} have the same label: no answer could tell them apart.")
    return Ask(
        "",
        kind="choice" if labels else "text",
        name=AskUserQuestion.name,
        args={
            "question": question.question,
            "options": [{"label": option.label, "description": option.description} for option in question.options],
            "header": question.header,
            "multiSelect": question.multiSelect,
        },
        category=AskUserQuestion.category,
        title=question.question,
        options=tuple(Option(option.label, option.label, option.description) for option in question.options),
        multiple=question.multiSelect,
    )


def _answer_text(answer: Answer) -> str:
    chosen = answer.value if isinstance(answer.value, list | tuple) else [answer.value]
    return ", ".join(str(value) for value in chosen if value not in (None, ""))


def _empty(ask: Ask, before: list[str]) -> str:
    note = f"The question {ask.title!r} got an empty answer. Ask in plain words instead."
    return "\n".join((*before, note))


def _unanswered(answer: Answer, before: list[str]) -> str:
    reason = f": {answer.reason}" if answer.reason else ""
    note = f"The person did not answer{reason}. Go on with what you know, and say what you assumed."
    return "\n".join((*before, note))


def open_tool(setup: ToolSetup) -> Tool:
    return AskUserQuestion()
