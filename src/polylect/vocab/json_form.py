"""Events and commands as JSON objects: tagged `type`, every field by its own name, fields at their default left out.

`Event.to_json` and `Event.from_json` are this form, and so is every line of the native wire (`dialects/native`). It
loses nothing: `event_of_json(to_json(event)) == event`. Two fields hold values of several types, so a third key names
the type: `data_type` beside `Reply.data`, `value_type` beside `SettingChanged.value`. It is a struct of the vocabulary
in snake case (`state`), with `[]` for a tuple of them (`model_card[]`), or `[]` alone for a tuple of plain JSON.

What a newer version has added is not lost either: an object of a type that is not known here becomes `UnknownEvent` or
`UnknownCommand` with its text, fields that are not known here stand in `unknown_fields` and are written again, and a
field of an event keeps a word that its type does not list. In a command such a word is a mistake of the host.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from polylect.vocab import answers, content
from polylect.vocab.commands import Command, UnknownCommand
from polylect.vocab.events import Event, Reply, SettingChanged, UnknownEvent
from polylect.vocab.item import Item
from polylect.vocab.json_words import misfit

Fields = dict[str, Any]
Kind = TypeVar("Kind", bound=Item)

ANY_TYPE: dict[type, tuple[str, str]] = {Reply: ("data", "data_type"), SettingChanged: ("value", "value_type")}
"""The fields that hold values of several types, and the keys that name the type."""
_NO_WORD = r"(?s)Invalid enum value '.*' - at `\$(.*)`"
"""What msgspec says, with the place."""


def _by_tag(base: type[Kind]) -> dict[str, type[Kind]]:
    return {str(kind.__struct_config__.tag): kind for kind in base.__subclasses__()}


EVENTS: dict[str, type[Event]] = _by_tag(Event)
COMMANDS: dict[str, type[Command]] = _by_tag(Command)
"""All events and commands by the name that they have in `type`."""
VALUES: dict[str, type[Struct]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind
    for module in (content, answers)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == module.__name__
}
"""The structs that `data_type` and `value_type` can name."""
_NAMES = {kind: name for name, kind in VALUES.items()}


def encodable(item: Item) -> Item | Fields:
    """What a JSON encoder has to be given for `item`: mostly the item itself, because its struct is the format."""
    if type(item) in ANY_TYPE or item.unknown_fields is not None:
        return to_fields(item)
    return item


def to_fields(item: Item) -> Fields:
    """The JSON object of `item`, as a dict."""
    fields: Fields = msgspec.to_builtins(item)
    unknown = fields.pop("unknown_fields", None)
    if names := ANY_TYPE.get(type(item)):
        field, key = names
        if name := _type_name(getattr(item, field)):
            fields[key] = name
    return _merged(fields, unknown) if unknown else fields


def to_json(item: Item) -> str:
    """The JSON text of `item`."""
    try:
        return msgspec.json.encode(encodable(item)).decode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can say
        return json.dumps(to_fields(item), separators=(",", ":"))


def event_of_json(text: str | bytes) -> Event:
    """The event that the JSON `text` is. Raises ValueError with a reason for people."""
    return event_from(_object(text), text.encode() if isinstance(text, str) else text)


def command_of_json(text: str | bytes) -> Command:
    """The command that the JSON `text` is. Raises ValueError with a reason for people."""
    return command_from(_object(text), text.encode() if isinstance(text, str) else text)


def _object(text: str | bytes) -> Fields:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("expected a JSON object")
    return fields


def event_from(fields: Fields, raw: bytes) -> Event:
    """The event that the JSON object `fields` is; `raw` is its text. Raises ValueError with a reason for people."""
    kind = _kind(fields)
    if kind not in EVENTS:
        place = {name: fields[name] for name in ("turn", "agent", "session") if isinstance(fields.get(name), str)}
        return UnknownEvent(kind, raw, **place)
    return _convert(fields, EVENTS[kind])


def command_from(fields: Fields, raw: bytes) -> Command:
    """The command that the JSON object `fields` is; `raw` is its text. Raises ValueError with a reason for people."""
    kind = _kind(fields)
    if kind not in COMMANDS:
        place = {name: fields[name] for name in ("ref", "session") if isinstance(fields.get(name), str)}
        return UnknownCommand(kind, raw, **place)
    return _convert(fields, COMMANDS[kind])


def _kind(fields: Fields) -> str:
    kind = fields.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError('the object has no "type" that is a string')
    return kind


def _convert(fields: Fields, kind: type[Kind]) -> Kind:
    if "unknown_fields" in fields:
        raise ValueError('"unknown_fields" is not a field on the wire')
    try:
        item: Kind = _with_any_words(fields, kind) if issubclass(kind, Event) else msgspec.convert(fields, kind)
        used = {"type"}
        if names := ANY_TYPE.get(kind):
            field, key = names
            if (value_type := _value_type(fields.get(key))) is not None:
                used.add(key)
                item = replace(item, **{field: _with_any_words(fields.get(field), value_type)})
    except msgspec.ValidationError as error:
        raise ValueError(f"{fields['type']}: {misfit(error, kind)}") from None
    unknown = _unknown(item, {name: value for name, value in fields.items() if name not in used})
    return replace(item, unknown_fields=unknown) if unknown else item


# Words that are not known here, as in `{"type": "turn_ended", "reason": "paused"}`.


def _with_any_words(value: Any, kind: Any) -> Any:
    """The event or answer that the JSON `value` is, with words as they were sent. Raises ValidationError."""
    words: dict[tuple[str | int, ...], str] = {}
    while True:
        try:
            item = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            path = _path(str(error))
            if path in words or not (known := _a_word(msgspec.inspect.type_info(kind), path)):
                raise
            value = value if words else json.loads(json.dumps(value))  # a copy
            holder = _at(value, path[:-1])
            words[path], holder[path[-1]] = holder[path[-1]], known
        else:
            for (*place, name), word in words.items():
                force_setattr(_at(item, place), str(name), word)
            return item


def _path(error: str) -> tuple[str | int, ...]:
    """Where the word is that msgspec refuses: `$.items[1].status` is items, 1, status. Empty for other errors."""
    matched = re.fullmatch(_NO_WORD, error)
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", matched[1]) if matched else ()
    return tuple(int(index) if index else name for name, index in steps)


def _a_word(info: msgspec.inspect.Type, path: Sequence[str | int]) -> str:
    """A word that the field at the end of the path can have; empty if there is none."""
    match info, path:
        case msgspec.inspect.UnionType(types=types), _:
            return next(filter(None, (_a_word(one, path) for one in types)), "")
        case msgspec.inspect.StructType(fields=fields), [name, *rest]:
            return next((_a_word(field.type, rest) for field in fields if field.encode_name == name), "")
        case msgspec.inspect.VarTupleType(item_type=item), [int(), *rest]:
            return _a_word(item, rest)
        case msgspec.inspect.LiteralType(values=values), []:
            return str(values[0])
    return ""


def _at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        value = getattr(value, str(step)) if isinstance(value, Struct) else value[step]
    return value


def _type_name(value: Any) -> str:
    """The name of the type of a value; empty for plain JSON."""
    if isinstance(value, tuple | list):
        kinds = {type(element) for element in value}
        name = _NAMES.get(kinds.pop(), "") if len(kinds) == 1 else ""
        return f"{name}[]" if name or isinstance(value, tuple) else ""
    return _NAMES.get(type(value), "")


def _value_type(name: object) -> Any:
    """The type of this name; None if there is none, as where the object comes from a newer version."""
    if not isinstance(name, str):
        return None
    if name == "[]":
        return tuple[Any, ...]
    kind = VALUES.get(name.removesuffix("[]"))
    return tuple[kind, ...] if kind and name.endswith("[]") else kind  # type: ignore[valid-type]


# Fields that are not known here. They form a tree like the JSON, with indices in the place of lists.


def _unknown(value: Any, sent: Any) -> dict[Any, Any]:
    """What `sent` has and `value`, which was made of it, has not."""
    if isinstance(value, Struct) and isinstance(sent, dict):
        tag = value.__struct_config__.tag_field
        known = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        unknown = {name: item for name, item in sent.items() if name not in known and name != tag}
        pairs: Iterable[tuple[Any, Any, Any]] = (
            (name, getattr(value, known[name]), item) for name, item in sent.items() if name in known
        )
        return unknown | _unknown_inside(pairs)
    if isinstance(value, tuple) and isinstance(sent, list):
        return _unknown_inside((index, *pair) for index, pair in enumerate(zip(value, sent, strict=False)))
    return {}


def _unknown_inside(pairs: Iterable[tuple[Any, Any, Any]]) -> dict[Any, Any]:
    return {key: unknown for key, value, sent in pairs if (unknown := _unknown(value, sent))}


def _merged(known: Any, unknown: dict[Any, Any]) -> Any:
    if isinstance(known, dict):
        return {
            **known,
            **{key: _merged(known[key], item) if key in known else item for key, item in unknown.items()},
        }
    if isinstance(known, list | tuple):
        return [_merged(item, unknown[index]) if index in unknown else item for index, item in enumerate(known)]
    return known
