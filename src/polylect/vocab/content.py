"""The values that commands, events and messages are made of: blocks, usage, failures, rules, servers.

Everything is immutable, so that a value can be in the history, in an event and in the log at the same time. Sessions
store these values as JSON, so a field that is renamed or removed changes the format of the log.
"""

from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

Outcome = Literal["ok", "error", "denied", "cancelled", "skipped"]
"""How a call ended. Only `ok` and `error` mean that the tool ran to its end."""

Category = Literal["info", "edit", "exec", "mcp"]
"""What a tool may do to the world: look, change files, run commands, or ask a foreign server."""

Mode = Literal["default", "auto_edit", "force", "plan", "dont_ask"]
"""How much is asked of the person before calls run; `vocab/modes.py` has the words that hosts use for each."""

Origin = Literal["builtin", "extension", "host", "mcp"]
"""Where a tool comes from: the engine itself, an extension, the host, or an MCP server."""

Form = Literal["text", "diff", "image"]
"""How a host should show a tool's output."""

Stop = Literal["end", "calls", "length", "refused", "cancelled", "error"]
"""Why the model stopped talking."""

Reason = Literal["end", "cancelled", "length", "refused", "limit", "error"]
"""Why a turn ended."""
Owner = Literal["host", "user", "provider", "tool", "engine"]
"""Who can do something about a failure."""
CircuitState = Literal["closed", "open", "half_open"]
"""Of a model service that failed: it works again; it is not asked; it is tried again."""


class Text(Struct, frozen=True, tag="text"):
    """A text of the user or of the model.

    Attributes:
        text: The text.
    """

    text: str


class Thinking(Struct, frozen=True, omit_defaults=True, tag="thinking"):
    """Reasoning of the model.

    Attributes:
        text: What can be shown of it.
        signature: Lets the vendor accept it back unchanged.
        redacted: Reasoning that only the vendor can read.
    """

    text: str
    signature: str = ""
    redacted: str = ""


class Image(Struct, frozen=True, omit_defaults=True, tag="image"):
    """An image.

    Attributes:
        media_type: Its type, such as `image/png`.
        data: The image as base64.
        blob: In stored history, the name of the file that has it (`sha256:...`), in the place of `data`.
    """

    media_type: str
    data: str = ""
    blob: str = ""


class Document(Struct, frozen=True, omit_defaults=True, tag="document"):
    """A file that the host sent with its content.

    Attributes:
        name: The name of the file.
        media_type: Its type.
        text: The content, if it is text.
        data: The content as base64, if it is not.
    """

    name: str
    media_type: str
    text: str = ""
    data: str = ""


class File(Struct, frozen=True, tag="file"):
    """A file that the host named. The engine reads it when the turn begins.

    Attributes:
        path: Its absolute path.
    """

    path: str


class Link(Struct, frozen=True, omit_defaults=True, tag="link"):
    """An address that the host mentions. Nothing is read.

    Attributes:
        uri: The address.
        name: What to call it.
        media_type: The type of what is there.
    """

    uri: str
    name: str = ""
    media_type: str = ""


class ToolCall(Struct, frozen=True, omit_defaults=True, tag="tool_call"):
    """A call that the model asks for.

    Attributes:
        call: Its id.
        name: The name of the tool.
        args: The arguments.
        extra: Data of the vendor that has to be sent back with the call; and `UNPARSED`.
    """

    call: str
    name: str
    args: dict[str, Any]
    extra: dict[str, Any] = {}


UNPARSED = "unparsed"
"""In `ToolCall.extra`: what the model wrote where arguments should have been. Such a call is never run."""


class ToolResult(Struct, frozen=True, omit_defaults=True, tag="tool_result"):
    """The result of a call, as the model gets it, whether or not the tool ran.

    Attributes:
        call: The id of the call.
        name: The name of the tool.
        output: The text for the model.
        outcome: How the call ended.
        images: Images for the model.
    """

    call: str
    name: str
    output: str
    outcome: Outcome = "ok"
    images: tuple[Image, ...] = ()


Attachment = File | Image | Document | Link
Block = Text | Thinking | Image | Document | ToolCall | ToolResult


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens in four counts that do not overlap, and their cost. A cost is never estimated.

    Attributes:
        input: Tokens that were read and not cached.
        output: Tokens that the model wrote.
        cache_read: Tokens that came from the vendor's cache.
        cache_write: Tokens that were written to the vendor's cache.
        cost: Dollars; None if the price is not known.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            _add_cost(self, other),
        )

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input + self.output + self.cache_read + self.cache_write


def _add_cost(one: Usage, two: Usage) -> float | None:
    """A sum is known only if every part that used tokens has a known price."""
    if not one.tokens and one.cost is None:
        return two.cost
    if not two.tokens and two.cost is None:
        return one.cost
    if one.cost is None or two.cost is None:
        return None
    return one.cost + two.cost


class Message(Struct, frozen=True, omit_defaults=True):
    """One message of a conversation. Results of calls have a role of their own.

    Attributes:
        role: Whose it is.
        content: Its blocks.
        stop: For a reply: why the model stopped.
        usage: For a reply: what it took.
        model: For a reply: the model that wrote it.
        provider: For a reply: the provider of the model.
    """

    role: Literal["user", "assistant", "tool"]
    content: tuple[Block, ...]
    stop: Stop | None = None
    usage: Usage | None = None
    model: str = ""
    provider: str = ""


class Failure(Struct, frozen=True, omit_defaults=True):
    """What went wrong.

    Attributes:
        code: A word for programs.
        message: A sentence for people, which says what to do where something can be done.
        owner: Who can do something about it.
        retryable: Whether trying again can help.
    """

    code: str
    message: str
    owner: Owner
    retryable: bool = False


class Abilities(Struct, frozen=True, omit_defaults=True):
    """What an engine offers with the model in use. A host must not reject an event because of it.

    Attributes:
        approval: Whether it asks before calls run.
        thinking: Whether the model can think.
        effort_levels: The words for how hard it may think.
        modes: The approval modes that it has.
        mcp: Whether MCP servers can be added.
        images: Whether the model sees images; None if not known.
        extras: What only one wire has words for.
    """

    approval: bool = True
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("default", "auto_edit", "force")
    mcp: bool = False
    images: bool | None = None
    extras: dict[str, Any] = {}


RuleKind = Literal["category", "tool", "prefix", "command", "path", "domain"]
Effect = Literal["allow", "deny", "ask"]
_KINDS, _EFFECTS = get_args(RuleKind), get_args(Effect)


class Rule(Struct, frozen=True, omit_defaults=True):
    """A standing decision on calls.

    Attributes:
        kind: What `value` is: a category, a tool, the beginning of a command, a whole command, a path or a domain.
        value: What the rule is about; files at or below a path. With a `tool`, a path is a pattern where it has `*` or
            `?`.
        write: For a path: whether writing is meant, and not only reading.
        effect: The decision.
        tool: Only calls of this tool; empty for all.

    Raises:
        ValueError: There is no such kind or effect.
    """

    kind: RuleKind
    value: str = ""
    write: bool = True
    effect: Effect = "allow"
    tool: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"there is no kind of rule {self.kind!r}; there are {', '.join(_KINDS)}")
        if self.effect not in _EFFECTS:
            raise ValueError(f"a rule has no effect {self.effect!r}; there are {', '.join(_EFFECTS)}")


class Server(Struct, frozen=True, omit_defaults=True):
    """An MCP server, as a host or the settings describe it.

    With a `url` and no `command`, the transport is `http`; `sse` has to be named.

    Attributes:
        name: Its name; its tools are called `mcp__name__tool`.
        transport: How it is reached. `streamable-http` is another name of `http`; `host` is a server inside the host.
        command: The program, for `stdio`.
        args: Its arguments.
        env: Variables to add to its environment.
        url: The address, for `http` and `sse`.
        headers: Headers of each request.
        extras: What only one wire has words for.

    Raises:
        ValueError: There is no such transport.
    """

    name: str
    transport: Literal["stdio", "sse", "http", "streamable-http", "host"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    extras: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.transport == "streamable-http" or (self.transport == "stdio" and self.url and not self.command):
            force_setattr(self, "transport", "http")
        elif self.transport not in ("stdio", "sse", "http", "host"):
            raise ValueError(
                f"there is no transport {self.transport!r}; choose stdio, streamable-http (or http) or sse"
            )


class Option(Struct, frozen=True, omit_defaults=True):
    """One choice of a question.

    Attributes:
        id: What the answer names.
        label: What the person sees.
        description: An explanation.
        kind: What it means, where the wire says so: allow_once, reject_always ...
    """

    id: str
    label: str
    description: str = ""
    kind: str = ""


class PlanItem(Struct, frozen=True, omit_defaults=True):
    """One entry of a plan.

    Attributes:
        text: What is to be done.
        status: How far it is.
        priority: How important it is.
        id: An id, where the wire has one.
    """

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"
    id: str = ""


class StreamRule(Struct, frozen=True):
    """A reminder that is sent to the model when its reply matches a pattern.

    Attributes:
        name: The name of the rule, for events about it.
        pattern: A regular expression that is searched for in the reply.
        text: The reminder.
        path: The file that the rule comes from.
    """

    name: str
    pattern: str
    text: str
    path: str = ""


class CallRecord(Struct, frozen=True):
    """One tool call of a trace. Times are in nanoseconds since 1970.

    Attributes:
        call: The id of the call.
        name: The name of the tool.
        args: The arguments.
        output: The output for the model.
        outcome: How it ended.
        began: When it started.
        ended: When it ended.
    """

    call: str
    name: str
    args: dict[str, Any]
    output: str
    outcome: Outcome
    began: int
    ended: int
