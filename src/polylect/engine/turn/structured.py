"""Answers that have to match a JSON Schema: that of the prompt, or the setting `json_schema`.

The model answers by calling the tool `StructuredOutput`; a text that is such an answer counts too. One that does not
match is sent back, a few times. Only the main agent's turns have the tool.
"""

from contextlib import suppress
from time import monotonic
from typing import Any

from polylect.engine.agent import Agent
from polylect.vocab import json_schema
from polylect.vocab.content import Category, Origin
from polylect.vocab.errors import PolylectError
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec
from polylect.vocab.tool_names import STRUCTURED_OUTPUT as NAME

MOST_TRIES = 5
"""How often the model may end without such an answer, or give one that does not fit."""
MOST_FAULTS = 10
"""Of one answer, that the model is told at once."""
_TEXT = "Gives your final answer in the form that was asked for. Call it exactly once, when the work is done."
_REMINDER = f"The answer is not given yet: call the tool {NAME} with it. What is only written does not count."
_TAKEN = "The answer is taken."


class NoAnswer(PolylectError):
    """The model gave no answer that matches."""


def fault_in_schema(schema: Any) -> str:
    """Why this schema cannot be used, in one line; empty if it can."""
    if isinstance(schema, dict) and schema.get("type", "object") != "object":
        return f"the answer has to be an object, not of the type {schema['type']!r}"
    return json_schema.fault_in(schema)


class StructuredOutput:
    """The tool of one turn. `answered` is true once there is a `value` that matches."""

    name = NAME
    category: Category = "info"
    origin: Origin = "builtin"

    def __init__(self, schema: dict[str, Any]) -> None:
        shown = {key: value for key, value in schema.items() if key != "$schema"}  # not every vendor knows each draft
        self.spec = ToolSpec(NAME, _TEXT, {"properties": {}, **shown, "type": "object"})
        self.answered = False
        self.value: Any = None
        self.tries = 0
        self._judge = json_schema.validator(schema)

    def describe(self, args: dict[str, Any]) -> str:
        return "Structured output"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        if faults := self._faults(args):
            self.tries += 1
            return ToolReturn(f"The answer does not fit the schema:\n{faults}\nCall {NAME} again.", ok=False)
        self.answered, self.value = True, args
        return ToolReturn(_TAKEN)

    def read(self, text: str) -> None:
        """Take what the model has written as its answer, if it is one."""
        with suppress(ValueError):
            value = json_schema.value_in(text)
            if isinstance(value, dict) and not self._faults(value):
                self.answered, self.value = True, value

    def remind(self) -> str:
        """The text for a model that ends without an answer. Raises NoAnswer after too many attempts."""
        self.tries += 1
        self.check()
        return _REMINDER

    def check(self) -> None:
        """Raises NoAnswer after too many attempts."""
        if not self.answered and self.tries >= MOST_TRIES:
            raise NoAnswer(f"no answer that fits the schema after {self.tries} attempts")

    def _faults(self, args: dict[str, Any]) -> str:
        return "\n".join(
            f"- {fault}" for fault in json_schema.validation_errors(self._judge, args, monotonic)[:MOST_FAULTS]
        )


def open_form(agent: Agent, schema: dict[str, Any]) -> StructuredOutput | None:
    """Add the tool for the turn that begins if its answer needs a form, and remove that of the last turn.

    `schema` is that of the prompt; without one, the setting counts.
    """
    if agent.parent is not None:
        return None
    schema, before = schema or agent.settings.json_schema, agent.tools.pop(NAME, None)
    form = StructuredOutput(schema) if schema else None
    if form is not None:
        agent.tools[NAME] = form
    if (form is None) != (before is None):
        agent.callbacks.offer_changed()
    return form
