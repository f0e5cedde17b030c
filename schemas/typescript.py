"""Turns a schema of `generate.py` into TypeScript declarations.

Every struct becomes an interface, the frames of each direction a union that TypeScript tells apart by `type`. Texts of
the schema become doc comments, so that an editor shows them. Only the part of JSON Schema is known that msgspec writes;
anything else raises, so that no field gets a wrong type.

    {"properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}, "required": ["type", "text"]}
    export interface Text { type: "text"; text: string; }
"""

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

Schema = dict[str, Any]

_UNIONS = {
    "events": ("Event", "Any line that an engine writes."),
    "commands": ("Command", "Any line that a host writes."),
}
_HEAD = """\
// {title}. Made of {source} by generate.py: do not edit.
// A field that is left out and whose default is not named is empty: "", 0, false, [], {{}} or null.
// Newer engines add types, fields and words: ignore those that are not here.
"""
_TYPED = """\
/** A value `V` and the name `N` of its type: one of `Values`, a list of them (`state[]`), a list, or plain JSON. */
export type Typed<V extends string, N extends string> =
  | { [K in keyof Values]: { [P in N]: K } & { [P in V]: Values[K] } }[keyof Values]
  | { [K in keyof Values]: { [P in N]: `${K}[]` } & { [P in V]: Values[K][] } }[keyof Values]
  | ({ [P in N]: "[]" } & { [P in V]: unknown[] })
  | ({ [P in N]?: undefined } & { [P in V]?: unknown });
"""
_WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations(schema: Schema, source: str) -> str:
    """The text of a `.d.ts` file for a schema, which is in the file `source`."""
    parts = [_HEAD.format(title=schema["title"], source=source)]
    bases: dict[str, str] = {}
    """By the name of a frame, that of the interface with the fields that all frames of its direction have."""
    definitions: dict[str, Schema] = schema["$defs"]
    for direction, (name, what) in _UNIONS.items():
        frames = [_type(option) for option in definitions.pop(direction)["anyOf"]]
        parts.append(f"/** {what} */\nexport type {name} =" + "".join(f"\n  | {frame}" for frame in frames) + ";\n")
        if fields := _common([definitions[frame] for frame in frames]):
            base = f"{name}Fields"
            parts.append(_interface(base, {"properties": fields, "required": definitions[frames[0]]["required"]}))
            bases |= dict.fromkeys(frames, base)
            for frame in frames:
                definitions[frame]["properties"] = _without(definitions[frame]["properties"], fields)
    if values := definitions.pop("values", None):
        parts += [_interface("Values", values | {"required": list(values["properties"])}), _TYPED]
    return "\n".join([*parts, *(_interface(name, part, bases.get(name, "")) for name, part in definitions.items())])


def _common(frames: list[Schema]) -> Schema:
    first, *others = frames
    return {
        name: field
        for name, field in first["properties"].items()
        if all(field == other["properties"].get(name) for other in others)
        and len({name in frame.get("required", ()) for frame in frames}) == 1
    }


def _interface(name: str, part: Schema, base: str = "") -> str:
    """An interface; where the type of a value is named beside it, an interface and that pair."""
    fields: dict[str, Schema] = part["properties"]
    typed = {field: one["x-type-named-by"] for field, one in fields.items() if "x-type-named-by" in one}
    fields = _without(fields, [*typed, *typed.values()])
    lines = [line for field in fields for line in _field(field, fields[field], field in part.get("required", ()))]
    if typed:
        head, tail = f"export type {name} = {base and f'{base} & '}{{", "}"
        tail += "".join(f' & Typed<"{field}", "{key}">' for field, key in typed.items()) + ";"
    else:
        head, tail = f"export interface {name} {base and f'extends {base} '}{{", "}"
    return "\n".join([*_comment(part.get("description", "")), head, *lines, tail, ""])


def _without(fields: Schema, names: Iterable[str]) -> Schema:
    return {name: field for name, field in fields.items() if name not in set(names)}


def _field(name: str, part: Schema, required: bool) -> Iterator[str]:
    texts = [part.get("description", "")]
    if part.get("contentEncoding"):
        texts.append(f"In {part['contentEncoding']}.")
    if part.get("default") not in (None, "", False, 0, (), [], {}):
        texts.append(f"Default: `{json.dumps(part['default'])}`.")
    yield from _comment(" ".join(filter(None, texts)), "  ")
    yield f"  {name}{'' if required else '?'}: {_type(part)};"


def _comment(words: str, indent: str = "") -> list[str]:
    words = words.replace("*/", "*\\/")
    if len(indent) + len(words) < 112:
        return [f"{indent}/** {words} */"] if words else []
    return [
        f"{indent}/**",
        *textwrap.wrap(words, 118, initial_indent=f"{indent} * ", subsequent_indent=f"{indent} * "),
        f"{indent} */",
    ]


def _type(part: Schema) -> str:
    """The type of a value, as an expression. Raises ValueError for what is not known here."""
    match part:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"enum": list(words)}:
            return " | ".join(map(json.dumps, words))
        case {"anyOf": list(options)}:
            return " | ".join(map(_type, options))
        case {"type": "array", "prefixItems": list(items)}:
            return f"[{', '.join(map(_type, items))}]"
        case {"type": "array"}:
            item = _type(part.get("items", {}))
            return f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": "object"} if "properties" not in part:
            return f"Record<string, {_type(part.get('additionalProperties', {}))}>"
        case {"type": str(word)} if word in _WORDS:
            return _WORDS[word]
    if "type" in part or not part.keys() <= {"description", "default", "x-type-named-by"}:
        raise ValueError(f"there is no TypeScript for {part}")
    return "unknown"
