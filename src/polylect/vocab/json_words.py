"""Says in the words of JSON why an object does not fit a struct, for authors of hosts who know no Python.

    Expected `str`, got `int` - at `$.turn`       turn: expected a string, got a whole number
    Object missing required field `text`          the field text is missing
    Invalid enum value 'yes' - at `$.verdict`     verdict: 'yes' is none of allow, deny, cancelled

Whoever converts JSON of a peer with msgspec calls `misfit` for the error.
"""

from typing import Literal, get_args, get_origin

import msgspec
from msgspec import Struct

_MISSING = "Object missing required field "
_NO_WORD = "Invalid enum value "
_JSON_WORDS = {
    "Expected": "expected",
    "|": "or",
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
"""Words of msgspec's messages, and what they are in JSON."""


def misfit(error: msgspec.ValidationError, kind: type[Struct] | None = None) -> str:
    """The reason why an object is refused, as a text for people.

    Args:
        error: What msgspec says.
        kind: The struct that was expected; with it, the words are listed that a field can have.
    """
    text, _, place = str(error).replace("`", "").partition(" - at ")
    where = place.removeprefix("$.")
    if text.startswith(_MISSING):
        return f"the field {where + '.' if where else ''}{text.removeprefix(_MISSING)} is missing"
    if text.startswith(_NO_WORD) and (words := _words(kind, where)):
        text = f"{text.removeprefix(_NO_WORD)} is none of {', '.join(words)}"
    elif text.startswith("Expected "):
        text = " ".join(map(_json_word, text.split()))
    return f"{where}: {text}" if where else text


def _words(kind: type[Struct] | None, field: str) -> tuple[str, ...]:
    """What a field of a struct can have, if that is a list of words."""
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)} if kind else {}
    return get_args(types[field]) if get_origin(types.get(field)) is Literal else ()


def _json_word(word: str) -> str:
    bare = word.rstrip(",")
    return _JSON_WORDS.get(bare, bare) + word[len(bare) :]
