"""The base of the built-in tools: one Struct per tool is both the JSON schema for the model and the check of its
arguments.

    class Arguments(Struct):                        the schema  {"pattern": {"type": "string"}, ...}
        pattern: str                     gives      and, for {"patern": "x"}, the result
        path: str = "."                             "Missing required parameter: pattern"

`TypedTool.run` converts the arguments and turns ToolError and OSError into failed results, so a tool only implements
`work`. `describe` and `touches` get the arguments unchecked, because the permission check comes before `run`.

Models also use the parameters of the program that they were trained with. Another name of a parameter is replaced by
ours before the call is judged (`own_arguments`). A parameter that a tool does not have is ignored where that can do no
harm, and the result says so: by a tool that only looks, it is. A tool that changes something might do more than was
meant (`Bash` with `cwd`), so it refuses what it does not list in `ignored`.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polylect.tools.files.paths import real_paths
from polylect.vocab.argument_schema import schema_of
from polylect.vocab.content import Category, Origin
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec
from polylect.vocab.tool_names import remark

Arguments = TypeVar("Arguments", bound=Struct)
MOST_DISPLAYED = 500


class TypedTool(Generic[Arguments]):
    """A tool whose arguments are a Struct. A subclass sets the class attributes and implements `describe` and
    `work`."""

    name: str
    category: Category
    origin: Origin = "builtin"
    text: str
    """The description for the model."""
    path_argument = ""
    """The argument that is a path, if there is one: the file or folder that the tool touches."""
    default_path = ""
    arguments: type[Arguments]
    other_parameters: Mapping[str, str] = {}
    """Other names of parameters, and ours."""
    ignored: tuple[str, ...] = ()
    """Parameters of other programs' tools that make no difference here."""

    def __init__(self) -> None:
        self.spec = ToolSpec(self.name, self.text, schema_of(self.arguments))

    def describe(self, args: dict[str, Any]) -> str:
        raise NotImplementedError

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, self.path_argument, workspace, self.default_path) if self.path_argument else ()

    def own_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments under our names. Where both names are there, ours counts."""
        others = {own: args[other] for other, own in self.other_parameters.items() if other in args}
        if not others:
            return args
        return {**others, **{key: value for key, value in args.items() if key not in self.other_parameters}}

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        try:
            ignored = self._ignored(args)
            own = {key: value for key, value in args.items() if key not in ignored}
            returned = await self.work(convert_arguments(self.arguments, own), context)
            return replace(returned, output=returned.output + remark(self.name, ignored)) if ignored else returned
        except ToolError as fault:
            return ToolReturn(str(fault), ok=False)
        except OSError as fault:
            return ToolReturn(f"{self.describe(args)} failed: {fault.strerror or fault}", ok=False)

    def _ignored(self, args: dict[str, Any]) -> list[str]:
        known = self.arguments.__struct_encode_fields__
        unknown = [key for key, value in args.items() if value is not None and key not in known]
        return unknown if self.category in ("info", "mcp") else [key for key in unknown if key in self.ignored]

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        raise NotImplementedError


def convert_arguments(arguments: type[Arguments], args: dict[str, Any]) -> Arguments:
    """The arguments as their Struct. Null counts as absent. Raises ToolError, which names the wrong argument."""
    present = {key: value for key, value in args.items() if value is not None}
    fields = arguments.__struct_encode_fields__
    for field in fields[: len(fields) - len(arguments.__struct_defaults__)]:
        if field not in present:
            raise ToolError(f"Missing required parameter: {field}")
    for key in present:
        if key not in fields:
            raise ToolError(f"Unknown parameter: {key}. Known ones: {', '.join(fields)}")
    try:
        return msgspec.convert(present, arguments, strict=False)  # models also write numbers as strings
    except msgspec.ValidationError as fault:
        raise ToolError(f"Wrong parameter: {fault}") from None


def text_argument(args: dict[str, Any], key: str, default: str = "") -> str:
    """An argument that should be a text. `args` are unchecked: the default replaces a value of another type."""
    value = args.get(key)
    return value if isinstance(value, str) else default


def display_argument(args: dict[str, Any], key: str, default: str = "") -> str:
    """The same for a person who decides by it: on one line, with invisible characters escaped, and of limited
    length."""
    value = text_argument(args, key, default)
    line = value if value.isprintable() else "".join(map(_visible, value[:MOST_DISPLAYED]))
    return line if len(line) <= MOST_DISPLAYED else line[:MOST_DISPLAYED] + "..."


def _visible(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
