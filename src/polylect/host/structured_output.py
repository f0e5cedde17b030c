"""What `Agent.ask` does: one prompt, one result, and with a schema an answer that fits it, from any engine.

An engine that holds to schemas itself is given the schema of an object. For all others no wire is needed that knows
schemas: the schema is added to the prompt; the JSON is found in the answer, also inside a code fence; and if it does
not fit, the model is asked again, at most twice. The usage of all attempts is added up, and the limits are for all of
them together: each attempt gets what those before it have left.
"""

import json
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from polylect.host.errors import EngineDied, InvalidValue, SchemaNotMet, TurnFailed
from polylect.host.results import Result
from polylect.vocab import json_schema

if TYPE_CHECKING:
    from polylect.host.turn import Turn

_REPAIRS = 2
_ENDS = {"cancelled": "it was cancelled"}
_ONLY_JSON = "\n\nAnswer with nothing but one JSON value that fits this JSON Schema:\n"
_AGAIN = "That does not fit: {why}\nAnswer again, with nothing but a JSON value that fits the schema."


async def ask_for_value(
    prompt: "Callable[..., Turn]",
    death: Callable[[], EngineDied],
    text: str,
    schema: Any,
    *,
    by_engine: bool = False,
    **details: Any,
) -> Result:
    """Sends a prompt and returns a result whose `value` fits the schema.

    Args:
        prompt: `Agent.prompt` of the agent to ask.
        death: Says why the engine of that agent is gone.
        text: The prompt.
        schema: A type that msgspec knows, a JSON Schema, or None for an answer of any form.
        by_engine: Whether the engine itself sees to it that an answer fits.
        **details: Further arguments of `Agent.prompt`.

    Raises:
        TurnFailed: The turn did not end by itself.
        SchemaNotMet: The answer does not fit, after it was asked for again.
        ValueError: `schema` is neither a type that msgspec knows nor a JSON Schema.
    """
    if schema is None:
        return _checked_end(death, await prompt(text, **details))
    shape = Shape(schema)
    if by_engine and shape.is_object:
        return _fitting(shape, death, await prompt(text, schema=shape.schema, **details))
    turn = prompt(text + _ONLY_JSON + json.dumps(shape.schema), **details)
    result = _checked_end(death, await turn)
    left = turn._limits_left()
    for _ in range(_REPAIRS):
        if not (why := shape.fault(result)):
            return result
        turn = prompt(_AGAIN.format(why=why), limits=left)
        try:
            await turn
        finally:  # who gets a TimedOut wants to know what all of it took
            left = turn._limits_left()
            _add_attempt(turn.result, result)
        result = _checked_end(death, turn.result)
    if why := shape.fault(result):
        problem = why if why == json_schema.NOT_JSON else f"the answer does not fit its schema: {why}"
        raise SchemaNotMet(f"{problem}: {result.text[:200]!r}", result)
    return result


def _add_attempt(result: Result, before: Result) -> None:
    """Adds to a `result` what the attempt `before` took."""
    result.usage += before.usage
    result.steps += before.steps
    result.denials = [*before.denials, *result.denials]


def _fitting(shape: "Shape", death: Callable[[], EngineDied], result: Result) -> Result:
    """The result of an engine that holds to schemas itself."""
    if result.failure and result.failure.code == "structured_output":
        raise SchemaNotMet(f"{result.failure.message}; the last was {result.text[-200:]!r}", result)
    if why := shape.fault(_checked_end(death, result)):
        raise SchemaNotMet(f"the answer does not fit its schema: {why}", result)
    return result


def _checked_end(death: Callable[[], EngineDied], result: Result) -> Result:
    if result.ok:
        return result
    if result.failure and result.failure.code == "engine_gone":
        raise death()
    why = result.failure.message if result.failure else _ENDS.get(result.reason, f"it ended with {result.reason!r}")
    raise TurnFailed(f"the turn failed: {why}", result)


def object_schema(schema: Any) -> dict[str, Any]:
    """Returns the JSON Schema for a prompt.

    Args:
        schema: A type that msgspec knows or a JSON Schema, either of an object. None and `{}` are no schema.

    Raises:
        InvalidValue: It is neither, or not that of an object.
    """
    if schema is None or schema == {}:
        return {}
    shape = Shape(dict(schema) if isinstance(schema, Mapping) else schema)
    if not shape.is_object:
        raise InvalidValue(f"the schema of a prompt has to be that of an object, not {schema!r}: `ask` takes any")
    return shape.schema


class Shape:
    """A type that msgspec knows, or a JSON Schema."""

    def __init__(self, schema: Any) -> None:
        self._type = None if isinstance(schema, dict) else schema
        try:
            self.schema: dict[str, Any] = schema if isinstance(schema, dict) else msgspec.json.schema(schema)
        except TypeError:
            raise InvalidValue(f"a schema is a type that msgspec knows or a JSON Schema, not {schema!r}") from None
        if isinstance(schema, dict) and (fault := json_schema.fault_in(schema)):
            raise InvalidValue(f"that is no JSON Schema: {fault}")

    @property
    def is_object(self) -> bool:
        """Whether every value of it is an object, as far as the schema says so at its top."""
        top = self.schema
        if isinstance(ref := top.get("$ref"), str) and ref.startswith("#/$defs/"):
            top = top.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {})
        return top.get("type") == "object"

    def fault(self, result: Result) -> str:
        """What is wrong with the answer; if nothing is, its value is kept in the result."""
        try:
            value = result.value if result.value is not None else json_schema.value_in(result.text)
            result.value = self._fitted(value)
        except (ValueError, msgspec.ValidationError) as error:
            result.value = None
            return str(error)
        return ""

    def _fitted(self, value: Any) -> Any:
        if self._type is not None:
            return msgspec.convert(value, self._type)
        if faults := json_schema.validation_errors(json_schema.validator(self.schema), value, monotonic):
            raise ValueError("; ".join(faults[:3]))
        return value
