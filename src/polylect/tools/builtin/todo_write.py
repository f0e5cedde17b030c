"""TodoWrite: the model's list of steps, which hosts show to the person. Each call replaces the whole list."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category, PlanItem
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Shows the person what you are going to do and how far you are. Use it for work of three steps or more. Each call gives
the whole list anew: mark a step in_progress before you begin it and completed as soon as it is done, one at a time."""

MOST = 200
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Item(Struct, frozen=True):
    content: Annotated[str, Meta(min_length=1, description="The step, in a few words.")]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")] = "pending"
    priority: Annotated[Literal["high", "medium", "low"], Meta(description="How much it matters.")] = "medium"


class Arguments(Struct, frozen=True):
    todos: Annotated[tuple[Item, ...], Meta(max_length=MOST, description="All steps, in order.")]


class TodoWrite(TypedTool[Arguments]):
    name = "TodoWrite"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        todos = args.get("todos")
        return f"Plan of {len(todos) if isinstance(todos, list) else 0} steps"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        context.plan([PlanItem(item.content, item.status, item.priority) for item in args.todos])
        lines = [f"{_MARKS[item.status]} {item.content}" for item in args.todos]
        return ToolReturn("\n".join(lines) or "The list is empty.")


def open_tool(setup: ToolSetup) -> Tool:
    return TodoWrite()
