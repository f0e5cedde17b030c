"""Validates values against a JSON Schema in bounded time.

The engine (`engine/turn/structured.py`) and the host SDK use it for answers that must have a form; schema and value
both come from strangers. A pattern that takes more than half a second counts as one that does not match, and references
lead only into the schema itself, never to the network. The libraries take 60 ms to load, so they are imported at first
use.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_PATIENCE = 0.2
"""Seconds that all patterns together may take on one value: a model may give thousands of texts to each of them."""
_time_left: ContextVar[Callable[[], float]] = ContextVar("time_left")
Schema = dict[str, Any]
NOT_JSON = "the answer is not JSON"


def validator(schema: Schema) -> "Validator":
    """Returns a validator for values of this `schema`. References lead only into the schema itself."""
    from referencing import Registry  # the default one would look for references on the network

    return _kind(schema)(schema, registry=Registry())


def fault_in(schema: Any) -> str:
    """Returns why `schema` cannot be used, in one line; empty if it can."""
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        return "a JSON Schema is an object"
    if outside := next((ref for ref in _references(schema) if not ref.startswith("#")), ""):
        return f"it refers to {outside!r}: everything it needs has to be in it"
    try:
        _kind(schema).check_schema(schema)
    except SchemaError as error:
        return f"at {error.json_path}: {error.message}"
    return ""


def validation_errors(judge: "Validator", value: Any, clock: Callable[[], float]) -> list[str]:
    """Returns what is wrong with a value, one text for each place.

    Args:
        judge: The validator, made by `validator`.
        value: The value.
        clock: Gives the time in seconds, so that patterns can be stopped.
    """
    from referencing.exceptions import Unresolvable

    deadline = clock() + _PATIENCE
    _time_left.set(lambda: deadline - clock())
    try:
        faults = sorted(judge.iter_errors(value), key=lambda fault: fault.json_path)
    except Unresolvable as error:
        return [f"the schema itself cannot be used: {error}"]
    return [f"{fault.json_path}: {fault.message}" for fault in faults]


def value_in(text: str) -> Any:
    """Returns the JSON value that an answer `text` holds, also in a code fence or among words. Raises ValueError."""
    *others, last = _candidates(text.strip())
    for candidate in others:
        with suppress(ValueError):
            return json.loads(candidate)
    try:
        return json.loads(last)
    except ValueError:
        raise ValueError(NOT_JSON) from None


def _candidates(text: str) -> Iterator[str]:
    """The answer; without the fence that models like to put around it; without words before and after."""
    yield text
    if fence := re.search(r"```[^\S\n]*\w*\n(.*?)```", text, re.DOTALL):
        yield fence[1]
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    ends = max(text.rfind("}"), text.rfind("]"))
    if starts and ends > min(starts):
        yield text[min(starts) : ends + 1]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _kind(schema: Schema) -> "type[Validator]":
    """By its `$schema`, if that is one of the known drafts; else the newest."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend, validator_for

    draft: type[Validator] = validator_for({"$schema": schema.get("$schema", "")}, default=Draft202012Validator)
    own = {"pattern": _pattern, "patternProperties": _pattern_properties}
    bounded: type[Validator] = extend(draft, own)  # type: ignore[no-untyped-call]
    return bounded


def _matches(pattern: str, text: str) -> bool:
    import regex  # unlike re, it can be told to stop

    try:
        return regex.search(pattern, text, timeout=max(_time_left.get()(), 0.0001)) is not None
    except (TimeoutError, regex.error):
        return False


def _pattern(judge: "Validator", pattern: str, value: Any, schema: Schema) -> "Iterator[ValidationError]":
    from jsonschema.exceptions import ValidationError

    if judge.is_type(value, "string") and not _matches(pattern, value):
        yield ValidationError(f"{value[:200]!r} does not match {pattern!r}")


def _pattern_properties(judge: Any, patterns: Schema, value: Any, schema: Schema) -> "Iterator[ValidationError]":
    for pattern, subschema in patterns.items() if judge.is_type(value, "object") else ():
        for name, part in value.items():
            if _matches(pattern, name):
                yield from judge.descend(part, subschema, path=name, schema_path=pattern)
