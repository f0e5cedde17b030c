"""Reads a script: the replies that the scripted provider plays.

The format is TOML, described in docs/scripted.md. Everything is checked while reading, and an error names
the file, the reply and the key, so that a script never fails in the middle of a test.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from polylect.vocab.content import Outcome, Stop, Usage
from polylect.vocab.errors import StartError
from polylect.vocab.ports import ProviderFault
from polylect.wire.lazy_regex import pattern

Split = Literal["none", "word", "line", "char"]
"""How a text is cut into chunks."""
Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Dollars = Annotated[float, Meta(ge=0)]
Shape = TypeVar("Shape", bound=Struct)

# What a reply is made of.


class TextPart(Struct, frozen=True, forbid_unknown_fields=True):
    text: str | tuple[str, ...]
    repeat: Count = 1
    split: Split | None = None
    pace: Seconds | None = None


class ThinkingPart(Struct, frozen=True, forbid_unknown_fields=True):
    thinking: str | tuple[str, ...]
    repeat: Count = 1
    split: Split | None = None
    pace: Seconds | None = None
    signature: str = ""


class CallPart(Struct, frozen=True, forbid_unknown_fields=True):
    """`chunk` streams the arguments too, in pieces of so many characters."""

    call: str
    args: dict[str, Any] = {}
    id: str = ""
    repeat: Count = 1
    chunk: Annotated[int, Meta(ge=0)] = 0


class ErrorPart(Struct, frozen=True, forbid_unknown_fields=True):
    """`times` is how often it happens before the reply goes on without it; 0 is always."""

    error: ProviderFault
    message: str = ""
    retryable: bool | None = None
    retry_after: Seconds | None = None
    status: int = 0
    times: Annotated[int, Meta(ge=0)] = 0


class WaitPart(Struct, frozen=True, forbid_unknown_fields=True):
    wait: Seconds


class HangPart(Struct, frozen=True, forbid_unknown_fields=True):
    hang: bool

    def __post_init__(self) -> None:
        if not self.hang:
            raise ValueError("hang has to be true")


Part = TextPart | ThinkingPart | CallPart | ErrorPart | WaitPart | HangPart
_PARTS: dict[str, type[Part]] = {
    "text": TextPart,
    "thinking": ThinkingPart,
    "call": CallPart,
    "error": ErrorPart,
    "wait": WaitPart,
    "hang": HangPart,
}

# When a reply is given.


class Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said has to hold; of a list, one has to."""

    contains: str | tuple[str, ...] = ()
    equals: str | tuple[str, ...] = ()
    regex: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for expression in listed(self.regex):
            try:
                re.compile(expression)
            except re.error as error:
                raise ValueError(f"the regex {expression!r} is wrong: {error}") from None


class ResultPattern(Pattern, frozen=True, forbid_unknown_fields=True):
    """A tool's result: its output, which tool, how the call ended, what it was called with."""

    tool: str | tuple[str, ...] = ()
    outcome: Outcome | tuple[Outcome, ...] = ()
    args: dict[str, str | Pattern] = {}


class When(Struct, frozen=True, forbid_unknown_fields=True):
    """All that is said has to hold. `result` is of the last step, each of `results` of any step of this turn."""

    prompt: str | Pattern | None = None
    system: str | Pattern | None = None
    history: str | Pattern | None = None
    model: str | Pattern | None = None
    tool: str | Pattern | None = None
    """The name of a tool that the model may call."""
    turn: int | tuple[int, ...] = ()
    step: int | tuple[int, ...] = ()
    result: str | ResultPattern | None = None
    results: tuple[ResultPattern, ...] = ()


class StatedUsage(Usage, frozen=True, forbid_unknown_fields=True):
    pass


class ReplyHead(Struct, frozen=True, forbid_unknown_fields=True):
    when: When = When()
    stop: Stop | None = None
    usage: StatedUsage | None = None


class Reply(Struct, frozen=True):
    head: ReplyHead
    say: tuple[Part, ...]


# A whole script.


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cache_read: Dollars = 0.0
    cache_write: Dollars = 0.0


class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """What the provider says of its model."""

    window: int = 0
    max_output: int = 0
    thinking: bool = True
    images: bool | None = True
    effort_levels: tuple[str, ...] = ()


class ScriptHead(Struct, frozen=True, forbid_unknown_fields=True):
    batch: Count = 64
    split: Split = "none"
    pace: Seconds = 0.0
    price: Price | None = None
    model: Model = Model()


class Script(Struct, frozen=True):
    """`turns` are played in order; `rules` answer whatever they leave open, the first that fits."""

    source: str
    head: ScriptHead
    turns: tuple[tuple[Reply, ...], ...]
    rules: tuple[Reply, ...]


def check_script(path: str) -> str | None:
    """What is wrong with the script in this file, in one line that says where and what to do."""
    try:
        read_script(path)
    except StartError as error:
        return str(error)
    return None


def read_script(path: str) -> Script:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StartError(f"cannot read the script {path}: {why}; name a TOML file", code=78) from None
    return parse_script(text, path)


def parse_script(text: str, source: str = "script") -> Script:
    # 13 ms to import: never before a script has to be read.
    import tomllib

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{source}: not TOML: {error}", code=78) from None
    return build_script(values, source)


def build_script(values: Mapping[str, Any], source: str = "script") -> Script:
    """A script from plain values, in the words of the TOML format. Raises StartError naming the entry at fault."""
    rest = dict(values)
    try:
        turns = _entries(rest.pop("turn", []), "turn")
        rules = _entries(rest.pop("reply", []), "reply")
        script = Script(
            source,
            _convert(rest, ScriptHead, "top level"),
            tuple(_turn(turn, f"turn {number}") for number, turn in enumerate(turns, 1)),
            tuple(_reply(reply, f"reply {number}") for number, reply in enumerate(rules, 1)),
        )
    except ValueError as error:
        raise StartError(f"{source}: {error}", code=78) from None
    if not script.turns and not script.rules:
        raise StartError(f"{source}: it has no reply; add a [[reply]] or a [[turn]]", code=78)
    return script


def listed(value: Any) -> tuple[Any, ...]:
    """One value stands for a list of one."""
    return value if isinstance(value, tuple) else (value,)


def _entries(value: Any, name: str) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    raise ValueError(f"{name} has to be a list: write [[{name}]] before each entry")


def _turn(value: Any, where: str) -> tuple[Reply, ...]:
    """A list of replies, one for each step; or the only one."""
    if isinstance(value, Mapping) and "reply" in value:
        if extra := sorted(value.keys() - {"reply"}):
            raise ValueError(f"{where}: {extra[0]} stands beside reply; move it into a reply")
        value = _entries(value["reply"], f"{where.split()[0]}.reply")
    replies = value if isinstance(value, list | tuple) else [value]
    if not replies:
        raise ValueError(f"{where}: it has no reply")
    built = tuple(_reply(reply, f"{where}, reply {number}") for number, reply in enumerate(replies, 1))
    for number, reply in enumerate(built, 1):
        if reply.head.when != When():
            raise ValueError(f"{where}, reply {number}: turns are played in order, without `when`; use [[reply]]")
    return built


def _reply(value: Any, where: str) -> Reply:
    """A text, a list of parts, or a table: with `say`, or with the keys of its only part."""
    if not isinstance(value, Mapping):
        value = {"say": [value] if isinstance(value, str) else value}
    head = {key: value[key] for key in ReplyHead.__struct_fields__ if key in value}
    rest = {key: value[key] for key in value if key not in head}
    if "say" not in rest:
        rest = {"say": [rest]}
    elif extra := sorted(rest.keys() - {"say"}):
        raise ValueError(f"{where}: {extra[0]} stands beside say; move it into say")
    if not isinstance(rest["say"], list | tuple):
        raise ValueError(f"{where}: say has to be a list of parts")
    parts = tuple(_part(part, f"{where}, part {number}") for number, part in enumerate(rest["say"], 1))
    return Reply(_convert(head, ReplyHead, where), parts)


def _part(value: Any, where: str) -> Part:
    if isinstance(value, str):
        return TextPart(value)
    kinds = [key for key in _PARTS if isinstance(value, Mapping) and key in value]
    if len(kinds) != 1:
        problem = "has " + " and ".join(kinds) if kinds else f"is {value!r:.60}"
        raise ValueError(f"{where}: it {problem}; a part is a table with one of {', '.join(_PARTS)}")
    return _convert(value, _PARTS[kinds[0]], where)


def _convert(value: Any, kind: type[Shape], where: str) -> Shape:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {_explain(str(error))}") from None


_UNKNOWN = pattern(r"Object contains unknown field `(.*?)`")
_KEYS = sorted(
    {
        name
        for shape in (*_PARTS.values(), ResultPattern, When, StatedUsage, ReplyHead, Price, Model, ScriptHead)
        for name in shape.__struct_fields__
    }
)


def _explain(message: str) -> str:
    """The validator's words in ours; a key that nobody knows comes with the nearest that somebody does."""
    message = message.replace(" - at `$.", " - at `")
    if not (unknown := _UNKNOWN.match(message)):
        return message
    # Only a faulty script pays for this import.
    from difflib import get_close_matches

    near = get_close_matches(unknown[1], _KEYS, 1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    return message.replace(unknown[0], f"there is no key {unknown[1]!r} here{hint}")
