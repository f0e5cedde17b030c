"""What the model may say to a tool: one Struct is both the schema it is shown and the check of what it sent."""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from polylect.vocab.content import Category, Origin
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec

Arguments = TypeVar("Arguments", bound=Struct)
MOST_SHOWN = 500


class TypedTool(Generic[Arguments]):
    """A tool in terms of its own Struct. A subclass names its parts and does its `work`; faults become results here."""

    name: str
    category: Category
    origin: Origin = "builtin"
    text: str
    """What the model is told of the tool."""
    arguments: type[Arguments]

    def __init__(self) -> None:
        self.spec = ToolSpec(self.name, self.text, schema(self.arguments))

    def describe(self, args: dict[str, Any]) -> str:
        raise NotImplementedError

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        try:
            return await self.work(checked(self.arguments, args), context)
        except ToolError as fault:
            return ToolReturn(str(fault), ok=False)
        except OSError as fault:
            return ToolReturn(f"{self.describe(args)} failed: {fault.strerror or fault}", ok=False)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        raise NotImplementedError


def schema(arguments: type[Struct]) -> dict[str, Any]:
    """JSON Schema of a Struct, as plain as vendors like it: no references, no titles."""
    whole = msgspec.json.schema(arguments)
    return _plain(whole["$defs"][arguments.__name__], whole["$defs"])


def _plain(shape: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in shape:
        return _plain(named[shape["$ref"].rpartition("/")[2]], named)
    shape = {key: value for key, value in shape.items() if key != "title"}
    if "enum" in shape:
        shape["type"] = "string"  # some vendors want to be told
    if "items" in shape:
        shape["items"] = _plain(shape["items"], named)
    if "properties" in shape:
        shape["properties"] = {name: _plain(field, named) for name, field in shape["properties"].items()}
        shape.pop("description", "")  # a docstring is for us
    return shape


def checked(arguments: type[Arguments], args: dict[str, Any]) -> Arguments:
    """The arguments as their Struct, or a ToolError that says which one is wrong. Null means: not given."""
    given = {key: value for key, value in args.items() if value is not None}
    fields = arguments.__struct_encode_fields__
    for field in fields[: len(fields) - len(arguments.__struct_defaults__)]:
        if field not in given:
            raise ToolError(f"Missing required parameter: {field}")
    for key in given:
        if key not in fields:
            raise ToolError(f"Unknown parameter: {key}. Known ones: {', '.join(fields)}")
    try:
        return msgspec.convert(given, arguments)
    except msgspec.ValidationError as fault:
        raise ToolError(f"Wrong parameter: {fault}") from None


def given(args: dict[str, Any], key: str, default: str = "") -> str:
    """A text among arguments that nobody has checked: the model may have sent anything."""
    value = args.get(key)
    return value if isinstance(value, str) else default


def shown(args: dict[str, Any], key: str, default: str = "") -> str:
    """The same for a person to read, who decides by it: in one line, with nothing invisible, and not without end."""
    value = given(args, key, default)
    line = value if value.isprintable() else "".join(map(_visible, value[:MOST_SHOWN]))
    return line if len(line) <= MOST_SHOWN else line[:MOST_SHOWN] + "..."


def _visible(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
