"""ExitPlanMode: the model has a plan, and a person decides whether it is carried out."""

from collections.abc import Callable
from typing import Any

from polylect.vocab.content import Category, Origin
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec
from polylect.vocab.tool_names import EXIT_PLAN as NAME

_TEXT = """\
Shows the person your plan and asks to leave plan mode, so that files can be changed and commands run. Call it once the
plan is complete; not for questions that only need an answer. If the person says no, improve the plan and call again."""
_PLAN = {"type": "string", "description": "What you are going to do, step by step, in Markdown."}


class ExitPlanMode:
    """Offered in plan mode alone. The gate asks before it runs, whatever rules allow; then `leave` is called."""

    name = NAME
    category: Category = "edit"
    origin: Origin = "builtin"
    modes = ("plan",)

    def __init__(self, leave: Callable[[], None]) -> None:
        self.spec = ToolSpec(NAME, _TEXT, {"type": "object", "properties": {"plan": _PLAN}, "required": ["plan"]})
        self._leave = leave

    def describe(self, args: dict[str, Any]) -> str:
        return f"Leave plan mode: {' '.join(str(args.get('plan', '')).split())[:80]}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        self._leave()
        return ToolReturn(f"The person agrees. Plan mode is over: carry the plan out.\n\n{args.get('plan', '')}")
