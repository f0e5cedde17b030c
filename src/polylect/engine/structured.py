"""An answer that has to fit a JSON Schema: the model gives it by calling a tool, and is sent back until it fits."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from polylect.engine.agent import Agent
from polylect.vocab.content import Category
from polylect.vocab.errors import PolylectError
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

NAME = "StructuredOutput"
MOST_TRIES = 5
"""How often the model may end without such an answer, or give one that does not fit."""
MOST_FAULTS = 10
"""Of one answer, that the model is told at once."""
_TEXT = "Gives your final answer in the form that was asked for. Call it exactly once, when the work is done."
_REMINDER = f"The answer is not given yet: call the tool {NAME} with it. What is only written does not count."
_TAKEN = "The answer is taken."


class NoAnswer(PolylectError):
    """The model gave none that fits."""


def fault_in_schema(schema: Any) -> str:
    """Why no answer can be held to this schema, in one line; empty if one can."""
    from jsonschema.exceptions import SchemaError  # 60 ms, and only where there is a schema

    if not isinstance(schema, dict):
        return "a JSON Schema is an object"
    if schema.get("type", "object") != "object":
        return f"the answer has to be an object, not of the type {schema['type']!r}"
    if outside := next((ref for ref in _references(schema) if not ref.startswith("#")), ""):
        return f"it refers to {outside!r}: everything it needs has to be in it"
    try:
        _validator_class(schema).check_schema(schema)
    except SchemaError as error:
        return f"at {error.json_path}: {error.message}"
    return ""


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _validator_class(schema: dict[str, Any]) -> "type[Validator]":
    """By its `$schema`, if that is one of the known drafts; else the newest."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    known: type[Validator] = validator_for({"$schema": schema.get("$schema", "")}, default=Draft202012Validator)
    return known


class StructuredOutput:
    """The tool of one turn. `given` once there is a `value` that fits."""

    name = NAME
    category: Category = "info"

    def __init__(self, schema: dict[str, Any]) -> None:
        from referencing import Registry  # the default one would look for references on the network

        shown = {key: value for key, value in schema.items() if key != "$schema"}  # not every vendor knows each draft
        self.spec = ToolSpec(NAME, _TEXT, {"properties": {}, **shown, "type": "object"})
        self.given = False
        self.value: Any = None
        self.tries = 0
        self._validator = _validator_class(schema)(schema, registry=Registry())

    def describe(self, args: dict[str, Any]) -> str:
        return "Structured output"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        if faults := self._faults(args):
            self.tries += 1
            return ToolReturn(f"The answer does not fit the schema:\n{faults}\nCall {NAME} again.", ok=False)
        self.given, self.value = True, args
        return ToolReturn(_TAKEN)

    def remind(self) -> str:
        """What a model is told that would end without it. Raises NoAnswer once that was too often."""
        self.tries += 1
        self.check()
        return _REMINDER

    def check(self) -> None:
        if not self.given and self.tries >= MOST_TRIES:
            raise NoAnswer(f"no answer that fits the schema after {self.tries} attempts")

    def _faults(self, args: dict[str, Any]) -> str:
        from referencing.exceptions import Unresolvable

        try:
            found = sorted(self._validator.iter_errors(args), key=lambda fault: fault.json_path)
        except Unresolvable as error:
            return f"- the schema itself cannot be used: {error}"
        return "\n".join(f"- {fault.json_path}: {fault.message}" for fault in found[:MOST_FAULTS])


def open_form(agent: Agent) -> StructuredOutput | None:
    """The tool for the turn that begins, if its answer has to have a form. Agents at work for it report in words."""
    if agent.parent is not None:
        return None
    schema, before = agent.settings.json_schema, agent.tools.pop(NAME, None)
    form = StructuredOutput(schema) if schema else None
    if form is not None:
        agent.tools[NAME] = form
    if (form is None) != (before is None):
        agent.offer_changed()
    return form
